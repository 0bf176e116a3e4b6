//! To carry out a call for another process: its descriptor, its identity, an address as the bytes it gave.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// `PIDFD_THREAD`: a descriptor for one thread, which may have a table of descriptors of its own. Linux 6.9.
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// Copies of other threads' descriptors.
#[derive(Debug, Default)]
pub struct Borrower {
    /// Who was borrowed from last: most threads call more than once.
    last: Option<(u32, OwnedFd)>,
}

impl Borrower {
    /// A copy of a descriptor of the thread `tid`.
    pub fn borrow(&mut self, tid: u32, fd: i32) -> io::Result<OwnedFd> {
        if let Some((last, thread)) = &self.last
            && *last == tid
        {
            match pidfd_getfd(thread, fd, PidfdGetfdFlags::empty()) {
                // It has ended, and its number is another's now.
                Err(rustix::io::Errno::SRCH) => {}
                copied => return Ok(copied?),
            }
        }
        let (_, thread) = self.last.insert((tid, open_thread(tid)?));
        Ok(pidfd_getfd(thread, fd, PidfdGetfdFlags::empty())?)
    }
}

fn open_thread(tid: u32) -> io::Result<OwnedFd> {
    let pid = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound);
    Ok(match pidfd_open(pid(tid)?, THREAD) {
        Err(rustix::io::Errno::INVAL) => pidfd_open(pid(process_of(tid)?)?, PidfdFlags::empty()),
        opened => opened,
    }?)
}

/// Fill `buffer` from the memory of the thread `tid`; all of it, or an error.
pub fn read_memory(tid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes at most `len` bytes to `buffer`, which is borrowed for this; the other address is one of
    // the other process's, which the kernel checks.
    let read = unsafe { libc::process_vm_readv(tid as libc::pid_t, &local, 1, &remote, 1, 0) };
    match usize::try_from(read) {
        Ok(read) if read == buffer.len() => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn process_of(tid: u32) -> io::Result<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status"))?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    process.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// `connect` with an address as bytes, its family included.
pub fn connect_bytes(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads `len` bytes of the address and checks what they mean.
    let done = unsafe {
        libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Do something with the file and peer credentials of another user; this process is privileged and has one thread.
/// A process that could not come back would go on as somebody else, so it ends.
pub fn as_user<T>(uid: u32, gid: u32, action: impl FnOnce() -> T) -> io::Result<T> {
    const KEEP: u32 = u32::MAX;
    // SAFETY: these calls read no memory. The raw calls change this thread only, which is the only one.
    let set = |call, effective: u32| match unsafe { libc::syscall(call, KEEP, effective, KEEP) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let (own_uid, own_gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    set(libc::SYS_setresgid, gid)?;
    let entered = set(libc::SYS_setresuid, uid);
    let result = entered.map(|()| action());
    if set(libc::SYS_setresuid, own_uid).and_then(|()| set(libc::SYS_setresgid, own_gid)).is_err() {
        std::process::abort();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_of_this_very_thread_is_the_same_socket() {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut borrower = Borrower::default();
        let copy = borrower.borrow(tid, theirs.as_raw_fd()).unwrap();
        drop(theirs);
        rustix::io::write(&copy, b"x").unwrap();
        let mut byte = [0];
        ours.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert_eq!(borrower.borrow(tid, 999).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn memory_is_read_whole_or_not() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let text = *b"remember";
        let mut copy = [0; 8];
        read_memory(tid, text.as_ptr() as u64, &mut copy).unwrap();
        assert_eq!(copy, text);
        assert_eq!(read_memory(tid, 8, &mut copy).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn a_thread_that_has_ended_is_not_its_successor() {
        let (theirs, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = theirs.as_raw_fd();
        let mut borrower = Borrower::default();
        let here = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(here()).unwrap();
            let _ = held.recv();
        });
        let tid = told.recv().unwrap();
        borrower.borrow(tid, fd).unwrap();
        drop(hold);
        thread.join().unwrap();
        // The kernel may take a moment to let go of it after it was joined.
        while borrower.borrow(tid, fd).is_ok() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_address_is_taken_as_bytes() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
                .unwrap();
        let mut address = vec![libc::AF_INET as u8, 0];
        address.extend(port.to_be_bytes());
        address.extend([127, 0, 0, 1]);
        address.extend([0; 8]);
        connect_bytes(socket.as_fd(), &address).unwrap();
        TcpStream::from(socket).write_all(b"hello").unwrap();
        let mut text = String::new();
        server.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }
}
