//! `session expose`: a port inside on a loopback port outside, as long as it is wanted and no longer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

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

/// Listens at two ports: nobody is let in at the one, and everybody at the other when the first is full.
const DEAF: &str = "import socket, threading\n\
    s = socket.socket()\n\
    s.bind(('127.0.0.1', 8124))\n\
    s.listen(0)\n\
    full = []\n\
    for _ in range(4):\n    c = socket.socket()\n    c.setblocking(False)\n    c.connect_ex(('127.0.0.1', 8124))\n    full.append(c)\n\
    print('full', flush=True)\n\
    threading.Event().wait()\n";

/// The forwarder stood still in its own call to connect, for minutes, and no more was accepted or ended.
#[test]
fn who_lets_nobody_in_holds_up_nothing_else() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let deaf = session.exec_test(&["-d"]).plain().run(["/usr/bin/python3", "-c", DEAF]);
        let process = deaf.code(0).output.trim().to_owned();
        eventually("it is full", || session.call("logs", &[&process]).output == "full\n");
        let exposed = session.call("expose", &["8124", "--listen", "127.0.0.1:0", "-d"]);
        let at: SocketAddr = exposed.code(0).output.trim().parse().unwrap();
        // The kernel lets all of them in outside; those that wait inside are given up one by one, and none waits for another.
        let knocking: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(at).unwrap()).collect();
        for mut stream in knocking {
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut said = Vec::new();
            assert!(
                !matches!(stream.read_to_end(&mut said), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
            );
        }
        let _waits = TcpStream::connect(at).unwrap();
        session.call("unexpose", &["8124"]).code(0);
        eventually("nobody listens", || TcpStream::connect(at).is_err());
    });
}
