//! Which unix sockets a network namespace has: the kernel's socket monitor, asked from outside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

const BY_FAMILY: u16 = 20;
const DUMP: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
const SHOW_VFS: u32 = 2;
const ATTRIBUTE_VFS: u16 = 1;
const HEADER: usize = 16;
/// Family, type, state, padding, inode, cookie.
const UNIX_MESSAGE: usize = 16;

/// Answers about the network namespace that it was made in, wherever it is used.
#[derive(Debug)]
pub struct UnixSockets(OwnedFd);

impl UnixSockets {
    /// For the namespace of this thread.
    pub fn here() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?))
    }

    /// Is a socket of that namespace bound to this inode? `device` is the filesystem's own number.
    pub fn bound_at(&self, major: u32, minor: u32, inode: u64) -> io::Result<bool> {
        send(&self.0, &request(), SendFlags::empty())?;
        let wanted = Bound { inode: inode as u32, device: major << 20 | minor };
        let mut found = false;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (read, _) = recv(&self.0, &mut buffer, RecvFlags::empty())?;
            match look(&buffer[..read], wanted)? {
                Looked::Found => found = true,
                Looked::More => {}
                Looked::Done => return Ok(found),
                Looked::FoundAndDone => return Ok(true),
            }
        }
    }
}

impl From<OwnedFd> for UnixSockets {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for UnixSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound {
    inode: u32,
    device: u32,
}

enum Looked {
    Found,
    More,
    Done,
    FoundAndDone,
}

/// A dump of all unix sockets in every state, with the inode that each is bound to.
fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 24);
    bytes.extend(((HEADER + 24) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(SHOW_VFS.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn look(mut messages: &[u8], wanted: Bound) -> io::Result<Looked> {
    let cut = || io::Error::from(io::ErrorKind::InvalidData);
    let mut found = false;
    while messages.len() >= HEADER {
        let length = word(messages, 0).ok_or_else(cut)? as usize;
        let message = messages.get(..length).filter(|_| length >= HEADER).ok_or_else(cut)?;
        match i32::from(half(message, 4).ok_or_else(cut)?) {
            libc::NLMSG_DONE => return Ok(if found { Looked::FoundAndDone } else { Looked::Done }),
            libc::NLMSG_ERROR => {
                let errno = word(message, HEADER).ok_or_else(cut)? as i32;
                return Err(io::Error::from_raw_os_error(-errno));
            }
            _ => found |= bound(message.get(HEADER + UNIX_MESSAGE..).unwrap_or_default()) == Some(wanted),
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(if found { Looked::Found } else { Looked::More })
}

/// The inode among the attributes of one socket.
fn bound(mut attributes: &[u8]) -> Option<Bound> {
    while attributes.len() >= 4 {
        let length = usize::from(half(attributes, 0)?);
        if half(attributes, 2)? == ATTRIBUTE_VFS {
            return Some(Bound { inode: word(attributes, 4)?, device: word(attributes, 8)? });
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_of_this_namespace_is_known_by_its_inode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let server = UnixListener::bind(&path).unwrap();
        let facts = std::fs::symlink_metadata(&path).unwrap();
        let (major, minor) = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()));
        let sockets = UnixSockets::here().unwrap();
        assert!(sockets.bound_at(major, minor, facts.ino()).unwrap());
        assert!(!sockets.bound_at(major, minor, facts.ino() ^ 1).unwrap());
        assert!(!sockets.bound_at(major, minor ^ 1, facts.ino()).unwrap());
        drop(server);
        assert!(!sockets.bound_at(major, minor, facts.ino()).unwrap());
    }

    #[test]
    fn a_cut_answer_is_an_error_and_not_a_yes() {
        let wanted = Bound { inode: 1, device: 1 };
        let mut message = vec![0; 20];
        message[0] = 200;
        assert!(look(&message, wanted).is_err());
        assert_eq!(bound(&[8, 0, 1, 0, 1]).map(|b| b.inode), None);
    }
}
