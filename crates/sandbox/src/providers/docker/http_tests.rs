use std::io::Cursor;

use super::*;

/// The answer to a request that nobody reads.
struct Scripted(Cursor<Vec<u8>>, Vec<u8>);

impl Read for Scripted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A byte at a time: nothing may depend on how the answer is cut.
        let room = buffer.len().min(1);
        self.0.read(&mut buffer[..room])
    }
}

impl Write for Scripted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn answered(text: &str) -> io::Result<Answer> {
    let mut stream = Scripted(Cursor::new(text.as_bytes().to_vec()), Vec::new());
    exchange(&mut stream, &Call { method: "GET", target: "/_ping", kind: "text/plain", body: b"" })
}

#[test]
fn an_answer_is_read_by_its_length_or_in_chunks() {
    let plain = answered("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nApi-Version: 1.41\r\n\r\nOK").unwrap();
    assert_eq!((plain.status, plain.body.as_slice()), (200, &b"OK"[..]));
    assert_eq!(plain.header("api-version"), Some("1.41"));
    let chunks =
        answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            .unwrap();
    assert_eq!(chunks.body, b"abcde");
    assert_eq!(answered("HTTP/1.1 204 No Content\r\n\r\n").unwrap().body, b"");
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    for text in [
        "HTTP/1.1 200 OK\r\n\r\nto the end",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        let error = answered(text).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text:?}: {error}");
    }
}

#[test]
fn what_is_cut_off_or_too_long_is_refused() {
    for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"] {
        assert_eq!(answered(text).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{text:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD));
    assert_eq!(answered(&endless).unwrap_err().kind(), io::ErrorKind::InvalidData);
    let large = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY + 1);
    assert_eq!(answered(&large).unwrap_err().kind(), io::ErrorKind::InvalidData);
    let chunk = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", u64::MAX);
    assert_eq!(answered(&chunk).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_target_that_would_be_another_request_is_not_sent() {
    let mut stream = Scripted(Cursor::new(Vec::new()), Vec::new());
    let call = Call { method: "GET", target: "/a HTTP/1.1\r\nX: y", kind: "text/plain", body: b"" };
    assert_eq!(exchange(&mut stream, &call).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(stream.1.is_empty(), "something was sent");
}
