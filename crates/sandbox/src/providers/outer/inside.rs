//! This program, started again as the first process of a sandbox that another program made.

use std::os::fd::{AsFd, OwnedFd};

use ringfence_guard::FromGuard;
use ringfence_linux::{close_except, exit_now, inherited, send_with_fds};
use ringfence_policy::ProviderName;

use super::order::Order;
use crate::providers::native::{Inheritance, Maker, Start, Steps, live};

/// Be guard, with the control channel at this number. Never returns.
///
/// Whoever calls this has the rights that it had before: what it is told to do comes from the other end of that channel.
pub fn serve_inside(control: i32) -> ! {
    let Ok(control) = inherited(control) else { exit_now(125) };
    if close_except(&[control.as_fd()]).is_err() {
        exit_now(125);
    }
    match hear(&control) {
        Ok(Some((order, stdio))) => {
            let (stream, steps) = (order.stream, Steps::failing(order.fault.clone(), "child"));
            let (unpacked, shape) = order.unpack(ProviderName::Native);
            let start = Start::Now(unpacked.order(stream, stdio));
            let (plan, maker, shape) = (&unpacked.plan, Maker::Program, shape.as_ref());
            live(control, Inheritance { plan, start, maker, steps, shape })
        }
        // The owner has gone.
        Ok(None) => exit_now(1),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(0);
            let words = FromGuard::Failed { step: "hear the order".into(), subject: String::new(), errno };
            let _ = send_with_fds(control.as_fd(), &words.encode(), &[]);
            exit_now(1)
        }
    }
}

fn hear(control: &OwnedFd) -> std::io::Result<Option<(Order, [OwnedFd; 3])>> {
    send_with_fds(control.as_fd(), &FromGuard::Waiting.encode(), &[])?;
    Order::receive(control)
}
