//! The control channel between a sandbox's owner and guard, and the loopback interface.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with, socketpair,
};

/// At most this many descriptors travel with one message.
pub const MAX_FDS: usize = 32;

/// One datagram and the descriptors that came with it. An empty `bytes` is the end of the channel.
#[derive(Debug, Default)]
pub struct Message {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// Two connected ends that keep message borders and close on exec.
pub fn control_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub fn send_with_fds(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_some_with_fds(socket, bytes, fds).map(|_| ())
}

/// The same over a stream, which may take less than all of `bytes`: how many it took. The descriptors go with the first.
pub fn send_some_with_fds(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    Ok(sent)
}

/// What one receive put into a caller's buffer.
#[derive(Debug)]
pub struct Received {
    /// 0 is the end of the channel.
    pub length: usize,
    pub fds: Vec<OwnedFd>,
    /// The datagram or its descriptors were more than there was room for; the rest is lost and closed.
    pub cut: bool,
}

pub fn recv_with_fds(socket: BorrowedFd<'_>) -> io::Result<Message> {
    let mut bytes = vec![0; 8192];
    let received = recv_into(socket, &mut bytes)?;
    bytes.truncate(received.length);
    Ok(Message { bytes, fds: received.fds })
}

/// One datagram into `buffer`, which decides how large it may be.
pub fn recv_into(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut receive = || {
        rustix::io::retry_on_intr(|| {
            recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })
    };
    // The other end closed with something of ours unread: that is said once, before what it had sent itself.
    let received = match receive() {
        Err(rustix::io::Errno::CONNRESET) => receive(),
        received => received,
    }?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    let cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    Ok(Received { length: received.bytes, fds, cut })
}

/// Wait for one message of at most `room` bytes, and learn which process sent it, as its number is here. The kernel says so, not
/// the sender. `None`: the channel has ended. [`tell_senders`] comes first.
pub fn recv_from_process(socket: BorrowedFd<'_>, room: usize) -> io::Result<Option<(Vec<u8>, i32)>> {
    let mut bytes = vec![0; room];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let pid = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_pid()),
        _ => None,
    });
    bytes.truncate(received.bytes);
    Ok(Some((bytes, pid.ok_or(io::ErrorKind::InvalidData)?)))
}

/// Have the kernel say who sends, or not any more.
pub fn tell_senders(socket: BorrowedFd<'_>, tell: bool) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_passcred(socket, tell)?)
}

/// Has the other end been closed?
pub fn is_hung_up(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    rustix::io::retry_on_intr(|| poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })))?;
    Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR))
}

/// Bring `lo` up in this network namespace.
pub fn loopback_up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero ifreq is a valid value of that plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: `request` is a live ifreq with a terminated name.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
