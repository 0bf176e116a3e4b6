//! `session expose`: a port inside on a loopback port outside, as long as it is wanted and no longer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use ringfence_testing::{Session, eventually};

use crate::each;

const SERVER: &str = "import socket\n\
    s = socket.create_server(('127.0.0.1', 8123))\n\
    while True:\n    c, _ = s.accept()\n    c.sendall(b'inside ' + c.recv(100))\n    c.close()\n";

fn ask(at: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.write_all(b"hello").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said)
}

#[test]
fn a_port_inside_is_reached_until_it_is_no_longer_exposed() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        // Nothing outside is at a port of the sandbox's own loopback before that.
        session.exec_test(&["-d"]).plain().run(["/usr/bin/python3", "-c", SERVER]).code(0);
        let exposed = session.call("expose", &["8123", "--listen", "127.0.0.1:0", "-d"]);
        exposed.code(0);
        let at: SocketAddr = exposed.output.trim().parse().unwrap();
        eventually("the server inside answers", || ask(at).as_deref() == Some("inside hello"));
        assert_eq!(session.json("inspect", &[])["status"]["ports"][0], 8123);
        session.call("expose", &["8123", "--listen", "127.0.0.1:0"]).refused("exposed already");
        session.call("unexpose", &["8123"]).code(0);
        eventually("nobody listens", || TcpStream::connect(at).is_err());
        // One that is still exposed ends with the session.
        let again = session.call("expose", &["8123", "--listen", "127.0.0.1:0", "-d"]);
        let at: SocketAddr = again.code(0).output.trim().parse().unwrap();
        session.remove();
        eventually("nobody listens", || TcpStream::connect(at).is_err());
    });
}
