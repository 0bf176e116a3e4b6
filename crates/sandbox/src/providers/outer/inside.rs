//! This program, started again as the first process of a sandbox that another program made.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use ringfence_guard::FromGuard;
use ringfence_linux::{Fork, close_except, exit_now, fork_into, inherited, send_with_fds, wait_for};
use ringfence_policy::ProviderName;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::order::Order;
use super::sources::EXECUTABLE;
use crate::providers::native::{
    Anew, Inheritance, Inherited, Maker, Start, Steps, live, live_on, namespaces,
};

/// Be guard, with the control channel at this number. Never returns.
///
/// Whoever calls this has the rights that it had before: what it is told to do comes from the other end of that channel.
pub fn serve_inside(control: i32) -> ! {
    let (Ok(control), Ok(executable)) = (inherited(control), inherited(EXECUTABLE)) else { exit_now(125) };
    if close_except(&[control.as_fd(), executable.as_fd()]).is_err() {
        exit_now(125);
    }
    obey(control, Maker::Program, Some(executable))
}

/// Be the first process of a container: come in by the door at this path, fork guard into namespaces of its own, and end with it.
/// Never returns.
pub fn serve_in_container(door: &OsStr) -> ! {
    let Ok(control) = come_in(door) else { exit_now(125) };
    if close_except(&[control.as_fd()]).is_err() {
        exit_now(125);
    }
    match fork_into(namespaces(), None) {
        Ok(Fork::Child) => obey(control, Maker::Container, None),
        Ok(Fork::Parent { pid, .. }) => {
            // The owner hears of guard's end by this channel, which guard alone has.
            drop(control);
            let _ = wait_for(pid);
            exit_now(0)
        }
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(0);
            let words = FromGuard::Failed { step: "make namespaces".into(), subject: String::new(), errno };
            let _ = send_with_fds(control.as_fd(), &words.encode(), &[]);
            exit_now(1)
        }
    }
}

fn come_in(door: &OsStr) -> std::io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let socket = rustix::io::fcntl_dupfd_cloexec(socket, 3)?;
    connect(&socket, &SocketAddrUnix::new(door)?)?;
    Ok(socket)
}

/// Hear the order, and live by it; with the program to become again, where there is one.
fn obey(control: OwnedFd, maker: Maker, executable: Option<OwnedFd>) -> ! {
    match hear(&control) {
        Ok(Some((order, stdio))) => {
            let (stream, steps) = (order.stream, Steps::failing(order.fault.clone(), "child"));
            let again = serde_json::to_vec(&order).unwrap_or_default();
            let (unpacked, shape) = order.unpack(ProviderName::Native);
            let start = Start::Now(unpacked.order(stream, stdio));
            let (plan, shape) = (&unpacked.plan, shape.as_ref());
            let anew = executable.map(|executable| Anew { executable, order: again });
            live(control, Inheritance { plan, start, maker, steps, shape, anew })
        }
        // The owner has gone.
        Ok(None) => exit_now(1),
        Err(error) => give_up(&control, "hear the order", &error),
    }
}

/// Be guard that has begun anew, with what it hands on to itself at this number. Never returns.
pub fn serve_anew(legacy: i32) -> ! {
    let Ok(Inherited { order, steps, control, belongings }) = Inherited::take_up(legacy) else {
        exit_now(125)
    };
    match serde_json::from_slice::<Order>(&order) {
        Ok(order) => {
            let (stream, steps) = (order.stream, Steps::failing(order.fault.clone(), "child").after(steps));
            let (unpacked, _) = order.unpack(ProviderName::Native);
            live_on(control, &unpacked, stream, belongings, &steps)
        }
        Err(error) => give_up(&control, "read the order again", &error.into()),
    }
}

fn give_up(control: &OwnedFd, step: &str, error: &std::io::Error) -> ! {
    let errno = error.raw_os_error().unwrap_or(0);
    let words = FromGuard::Failed { step: step.into(), subject: String::new(), errno };
    let _ = send_with_fds(control.as_fd(), &words.encode(), &[]);
    exit_now(1)
}

fn hear(control: &OwnedFd) -> std::io::Result<Option<(Order, [OwnedFd; 3])>> {
    send_with_fds(control.as_fd(), &FromGuard::waiting().encode(), &[])?;
    Order::receive(control)
}
