//! `ringfence session expose` and `unexpose`

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;

use ringfence_sandbox::forward;

use super::{done, open, refused};
use crate::args::{SessionExposeArgs, SessionUnexposeArgs};
use crate::failure::Failure;
use crate::output;

pub(super) fn expose(args: &SessionExposeArgs) -> Result<i32, Failure> {
    let sandbox = open(&args.name)?;
    let listen = args.listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)));
    if !listen.ip().is_loopback() {
        return Err(Failure::new(
            format!("{listen} is no address of this machine's loopback"),
            "listen on 127.0.0.1 or ::1, and let a program of your own carry it further",
        ));
    }
    let listener = TcpListener::bind(listen).map_err(|error| {
        Failure::new(format!("cannot listen on {listen}: {error}"), "choose another --listen 127.0.0.1:PORT")
    })?;
    let at = listener.local_addr().unwrap_or(listen);
    let exposed = sandbox.expose(args.port).map_err(refused)?;
    if args.json {
        output::json(&serde_json::json!({ "port": args.port, "listen": at.to_string() }));
    } else {
        output::line(at.to_string());
    }
    if args.detach {
        let background =
            ringfence_sandbox::into_background(&[listener.as_fd(), exposed.as_fd()]).map_err(|error| {
                Failure::new(format!("cannot go on in the background: {error}"), "leave -d out")
            })?;
        if !background {
            return Ok(0);
        }
    }
    forward(&sandbox, args.port, listener, exposed)
        .map_err(|error| Failure::new(format!("cannot forward the port: {error}"), "try again"))?;
    Ok(0)
}

pub(super) fn unexpose(args: &SessionUnexposeArgs) -> Result<i32, Failure> {
    open(&args.name)?.unexpose(args.port).map_err(refused)?;
    Ok(done(args.json, serde_json::json!({ "port": args.port })))
}
