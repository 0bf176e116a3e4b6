use proptest::prelude::*;

use super::*;

fn whole(text: &str) -> Found {
    Framing::new().feed(text.as_bytes())
}

const GOOD: [&str; 8] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na\nb\r\0GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nTransfer-Encoding:  Chunked \r\nHost: a\r\n\r\n5;x=y\r\na\nb\r\0\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n\x16\x03\x01 anything \n at all",
    "GET / HTTP/1.1\r\nHost: a\r\nX-Content-Length: 1\r\nEmpty:\r\n\r\n",
];

#[test]
fn ordinary_requests_pass() {
    for text in GOOD {
        assert_eq!(whole(text), Ok(()), "{text:?}");
    }
}

#[test]
fn what_can_be_read_in_two_ways_is_found() {
    for text in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ncontent-length: 4\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 4, 4\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +4\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0x4\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding:\x0bchunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5x\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\nab\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost a\r\n\r\n",
        "GET / HTTP/1.1\r\n: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHo st: a\r\n\r\n",
        "GET /  HTTP/1.1\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / x HTTP/1.1\r\n\r\n",
        // In the second request of a connection.
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ] {
        assert!(whole(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_line_without_end_is_not_kept() {
    let mut framing = Framing::new();
    for _ in 0..1000 {
        framing.feed(&[b'x'; 4096]).unwrap();
    }
    assert!(framing.line.capacity() < 4 * LONGEST_LINE);
}

proptest! {
    #[test]
    fn the_same_however_the_bytes_come(
        index in 0..GOOD.len(),
        second in "(Host: a\r\n|Host: a\n|Content-Length: 3\r\n|Transfer-Encoding: chunked\r\n){0,4}\r\n",
        cuts in prop::collection::vec(0usize..300, 0..8),
    ) {
        let text = format!("{}GET / HTTP/1.1\r\n{second}", GOOD[index]);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= text.len()).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut framing = Framing::new();
        let pieces = cuts.windows(2).map(|pair| framing.feed(&text.as_bytes()[pair[0]..pair[1]]));
        let found: Vec<_> = pieces.filter_map(Result::err).collect();
        prop_assert_eq!(found.first().copied(), whole(&text).err());
        prop_assert!(found.len() <= 1);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Framing::new().feed(&bytes);
    }
}
