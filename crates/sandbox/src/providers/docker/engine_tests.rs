use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn only_a_unix_socket_is_spoken_to() {
    assert_eq!(find(Some("unix:///run/d.sock")).unwrap(), Path::new("/run/d.sock"));
    for host in ["tcp://127.0.0.1:2375", "ssh://user@host", "fd://", "unix://relative", "npipe:////./pipe/d"]
    {
        let trouble = find(Some(host)).unwrap_err();
        assert!(trouble.to_string().contains(host), "{trouble}");
        assert!(trouble.fix().contains("unix://"));
    }
}

/// One answer to one client, at a socket of its own.
fn said(text: &'static str) -> Result<Engine, Trouble> {
    among(&[text], Engine::at)
}

/// One answer to each client in turn.
fn among<T>(texts: &[&'static str], ask: impl FnOnce(PathBuf) -> T) -> T {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("d.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let texts = texts.to_vec();
    let speaker = std::thread::spawn(move || {
        for text in texts {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(text.as_bytes());
            // The rest of what was asked: a socket that closes with something unread takes its last words back.
            let _ = client.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut client, &mut std::io::sink());
        }
    });
    let found = ask(path);
    speaker.join().unwrap();
    found
}

const PONG: &str = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK";
const ABSENT: &str =
    "HTTP/1.1 404 Not Found\r\nContent-Length: 37\r\n\r\n{\"message\":\"No such image: debian:1\"}";

/// It is put there once: a daemon that lacks it even so is not asked for ever.
#[test]
fn an_empty_image_that_a_daemon_does_not_keep_is_refused_in_words() {
    let taken = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let trouble = among(&[PONG, ABSENT, taken, ABSENT], |path| {
        let engine = Engine::at(path).unwrap();
        let spec = serde_json::json!({ "Image": "debian:1" });
        super::super::container::Container::create(&engine, &spec, "name").unwrap_err()
    });
    assert_eq!(trouble.to_string(), "Docker refused to make a container: No such image: debian:1 (404)");
}

#[test]
fn the_version_is_the_newest_that_both_know() {
    let old = said(
        "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20.10.24\r\nContent-Length: 2\r\n\r\nOK",
    );
    let old = old.unwrap();
    assert_eq!((old.version, old.name.as_str()), ((1, 41), "Docker/20.10.24, API 1.41"));
    let new = said("HTTP/1.1 200 OK\r\nApi-Version: 1.99\r\nContent-Length: 2\r\n\r\nOK").unwrap();
    assert_eq!(new.version, NEWEST);
}

#[test]
fn what_is_too_old_or_something_else_is_refused_in_words() {
    let old = said("HTTP/1.1 200 OK\r\nApi-Version: 1.24\r\nContent-Length: 2\r\n\r\nOK").unwrap_err();
    assert!(old.to_string().contains("version 1.24 of Docker's API, which is too old"), "{old}");
    for text in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", "220 mail ready\r\n"] {
        let trouble = said(text).unwrap_err();
        assert!(trouble.to_string().contains("does not speak Docker's API"), "{trouble}");
    }
    let gone = Engine::at("/nonexistent/docker.sock".into()).unwrap_err();
    assert!(gone.to_string().contains("does not answer at /nonexistent/docker.sock"), "{gone}");
}

#[test]
fn a_daemon_speaks_on_one_line() {
    assert_eq!(words(br#"{"message":"No such image:\n  x"}"#), "No such image: x");
    assert_eq!(words(b"page not\nfound"), "page not found");
}
