use proptest::prelude::*;

use super::*;

/// A client hello handshake message with these extensions.
fn message(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    let mut all = Vec::new();
    for (kind, data) in extensions {
        all.extend(kind.to_be_bytes());
        all.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        all.extend(data);
    }
    body.extend(u16::try_from(all.len()).unwrap().to_be_bytes());
    body.extend(all);
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [vec![1], length[1..].to_vec(), body].concat()
}

fn server_name(name: &[u8]) -> (u16, Vec<u8>) {
    let length = u16::try_from(name.len()).unwrap();
    let entry = [&[0][..], &length.to_be_bytes(), name].concat();
    (0, [&u16::try_from(entry.len()).unwrap().to_be_bytes()[..], &entry].concat())
}

/// The same as records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message
        .chunks(size)
        .flat_map(|part| [&[22, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes(), part].concat())
        .collect()
}

fn sniff(bytes: &[u8]) -> Verdict {
    Sniffer::default().look(bytes)
}

fn named(name: &str) -> Verdict {
    Verdict::Tls(Hello { server_name: Some(name.to_owned()) })
}

fn is_broken(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Broken(_))
}

#[test]
fn a_hello_is_read_across_records_and_segments() {
    let hello = message(&[(10, vec![0, 2, 0, 29]), server_name(b"api.example.com"), (0x0a0a, vec![])]);
    for size in [1, 2, 3, 7, 50, 16_384] {
        let bytes = records(&hello, size);
        assert_eq!(sniff(&bytes), named("api.example.com"), "records of {size}");
        let mut sniffer = Sniffer::default();
        for end in 0..bytes.len() {
            assert_eq!(sniffer.look(&bytes[..end]), Verdict::More, "{end} bytes, records of {size}");
        }
        assert_eq!(sniffer.look(&bytes), named("api.example.com"));
        assert_eq!(sniffer.hello_length(), bytes.len());
    }
}

#[test]
fn early_data_is_not_part_of_the_hello() {
    let hello = records(&message(&[server_name(b"a.example")]), 16_384);
    let mut sniffer = Sniffer::default();
    assert_eq!(sniffer.look(&[&hello[..], &[23, 3, 3, 0, 1, 9]].concat()), named("a.example"));
    assert_eq!(sniffer.hello_length(), hello.len());
}

#[test]
fn a_hello_without_a_name_says_so() {
    assert_eq!(sniff(&records(&message(&[(43, vec![2, 3, 4])]), 99)), Verdict::Tls(Hello::default()));
    // SSL 2 had no place for one.
    assert_eq!(sniff(&[0x80, 0x2e, 1, 3, 1, 0, 0x15]), Verdict::Tls(Hello::default()));
    assert_eq!(sniff(&[0x80, 0x2e, 1, 0, 2, 0, 0x15]), Verdict::Tls(Hello::default()));
}

#[test]
fn a_hello_that_servers_may_read_in_two_ways_is_broken() {
    let good = server_name(b"good.example");
    let evil = server_name(b"evil.example");
    let two_entries = {
        let entry = |name: &[u8]| [&[0, 0, name.len() as u8][..], name].concat();
        let list = [entry(b"good.example"), entry(b"evil.example")].concat();
        (0, [&u16::try_from(list.len()).unwrap().to_be_bytes()[..], &list].concat())
    };
    let with_type = |kind: u8| {
        let mut name = good.clone();
        name.1[2] = kind;
        name
    };
    let odd: Vec<Vec<u8>> = vec![
        message(&[good.clone(), evil.clone()]),
        message(&[good.clone(), (16, vec![]), good.clone()]),
        message(&[(51, vec![]), (51, vec![]), good.clone()]),
        message(&[two_entries]),
        message(&[(0, vec![])]),
        message(&[(0, vec![0, 0])]),
        message(&[(0, [good.1.clone(), vec![0]].concat())]),
        message(&[with_type(1)]),
        message(&[server_name(b"")]),
        message(&[server_name(b"\xff\xfe.example")]),
        [message(std::slice::from_ref(&good)), vec![1, 0, 0, 0]].concat(),
    ];
    for (index, hello) in odd.iter().enumerate() {
        let verdict = sniff(&records(hello, 16_384));
        assert!(is_broken(&verdict), "{index}: {verdict:?}");
    }
    // Bytes after the extensions.
    let mut longer = message(&[good]);
    longer.push(0);
    longer[3] += 1;
    assert!(is_broken(&sniff(&records(&longer, 16_384))));
}

#[test]
fn records_that_a_server_might_skip_are_not_let_through() {
    let hello = records(&message(&[server_name(b"good.example")]), 16_384);
    for first in
        [&[21, 3, 1, 0, 2, 1, 0][..], &[20, 3, 3, 0, 1, 1], &[23, 3, 3, 0, 1, 0], &[24, 3, 3, 0, 1, 0]]
    {
        assert!(is_broken(&sniff(&[first, &hello].concat())), "{first:?}");
    }
    // In the middle of the hello.
    let (start, rest) = (records(&message(&[])[..10], 99), records(&message(&[])[10..], 99));
    assert!(is_broken(&sniff(&[&start[..], &[20, 3, 3, 0, 1, 1], &rest].concat())));
    assert!(is_broken(&sniff(&[22, 3, 1, 0, 0, 22, 3, 1])), "an empty record");
    assert!(is_broken(&sniff(&[22, 3, 1, 0x40, 1, 1])), "a record that is too long");
    assert!(is_broken(&sniff(&[22, 3, 1, 0, 4, 1, 1, 0, 0])), "a hello of 64 KiB");
}

#[test]
fn a_hello_without_an_end_is_broken() {
    let mut sniffer = Sniffer::default();
    let mut bytes = Vec::new();
    loop {
        // One byte of the hello a record: the most records for the least hello.
        bytes.extend(if bytes.is_empty() { [22, 3, 1, 0, 1, 1] } else { [22, 3, 1, 0, 1, 0x20] });
        match sniffer.look(&bytes) {
            Verdict::More => assert!(bytes.len() < MOST_BYTES),
            verdict => return assert!(is_broken(&verdict)),
        }
    }
}

#[test]
fn http_is_known_by_what_a_forgiving_server_would_take_for_it() {
    for line in [
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.0\n",
        "\r\n\r\nGET / HTTP/1.1\r\n",
        "\n GET / HTTP/1.1\r\n",
        "get / http/1.1\r\n",
        "GET  /  HTTP/1.1\r\n",
        "GET\t/\tHTTP/1.1\r\n",
        "GET\x0b/\x0cHTTP/1.1\r\n",
        "GET /\0 HTTP/1.1\r\n",
        "GET /\u{fc} HTTP/1.1\r\n",
        "M-SEARCH * HTTP/1.1\r\n",
        "CONNECT other.example:443 HTTP/1.1\r\n",
        "GET http://other.example/ HTTP/1.1\r\n",
        "GET / HTHTTP/1.1\r\n",
        "GET / HTTP/1.1\rHost: a\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/9.9\r\n",
    ] {
        assert_eq!(sniff(line.as_bytes()), Verdict::Http, "{line:?}");
        let mut sniffer = Sniffer::default();
        let line =
            &line.as_bytes()[..=line.rfind("HTTP/").map_or(0, |at| at).max(line.find('\n').unwrap_or(0))];
        for end in 0..line.len() {
            let verdict = sniffer.look(&line[..end]);
            assert!(matches!(verdict, Verdict::More | Verdict::Http), "{:?}: {verdict:?}", &line[..end]);
        }
    }
    // No end in sight: that path refuses it.
    assert_eq!(sniff(format!("GET /{}", "a".repeat(20_000)).as_bytes()), Verdict::Http);
    // No line end will come, and the server may make do without.
    assert_eq!(Sniffer::default().end(b"GET / HTTP/1.0"), Verdict::Http);
}

#[test]
fn a_line_without_a_version_is_http_if_it_has_a_target() {
    for line in [
        &b"GET /\r\n"[..],
        b"GET /\n",
        b"GET http://other.example/secret\r\n",
        b"get http://other.example/secret\r\n",
        b"GET HTTP://other.example/\n",
        b"GET\thttp://other.example/\r\n",
        b"GET   http://other.example/   \r\n",
        b"\r\n\r\n GET http://other.example/\r\n",
        b"GET //other.example/\r\n",
        b"GET \\\\other.example\\\r\n",
        b"GET http:other.example/\r\n",
        b"GET wais+x://other.example/\r\n",
        b"GET http://other.example/ with spaces\r\n",
        b"QWERTY /\r\nHost: other.example\r\n\r\n",
        b"OPTIONS *\r\nHost: other.example\r\n\r\n",
        b"CONNECT other.example:443\r\n\r\n",
        b"connect other.example:443\r\n\r\n",
        // Node takes these for requests, and HTTP after them.
        b"DESCRIBE rtsp://other.example/ RTSP/1.0\r\n",
        b"SOURCE /x ICE/1.0\r\n",
        // Blanks of Latin-1, in Python.
        b"\xa0GET / HTTP/1.1\r\n",
        b"\x85GET\xa0/\x85HTTP/1.1\r\n",
        b"GET\xa0http://other.example/\r\n",
        // The PROXY protocol.
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\nGET / HTTP/1.1\r\n",
        b"PROXY UNKNOWN\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c",
        b"\r\n\r\n\0",
        // Some server may know the method, and not mind what is in the target.
        b"123 / HTTP/1.1\r\n",
        b"123 / HTTP/1.1\x01",
    ] {
        assert_eq!(sniff(line), Verdict::Http, "{:?}", String::from_utf8_lossy(line));
    }
    // Python's server makes do without a line end.
    assert_eq!(Sniffer::default().end(b"GET /"), Verdict::Http);
    assert_eq!(Sniffer::default().end(b"get key"), Verdict::Raw);
}

#[test]
fn commands_of_other_protocols_are_no_requests() {
    for line in [
        "get key",
        "get views/home",
        "gets user:1 user:2",
        "GET user:1000",
        "SET greeting hello",
        "KEYS *",
        "set key 0 0 5",
        "NICK somebody",
        "USER me",
        "a001 CAPABILITY",
        "EHLO host.example",
        "CONNECT {\"verbose\":false}",
        "CONNECT",
        "REGISTER sip:host.example SIP/2.0",
        "servers.web1.cpu 42 1234567890",
        "-i mnt-by X",
        "example.com",
    ] {
        assert_eq!(sniff(format!("{line}\r\n").as_bytes()), Verdict::Raw, "{line}");
    }
}

const LDAP_START_TLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

#[test]
fn a_first_line_that_began_like_a_packet_may_be_a_request_after_all() {
    for line in [
        &b"123 /\x01 HTTP/1.1\r\n"[..],
        b" 0GET\x1f/\0\thttp/1.0\n",
        b"0033git-upload-pack /x\0 HTTP/1.1\r\n",
        b"0 \x02 a b HTTP/1.1\r\n",
    ] {
        assert_eq!(sniff(line), Verdict::Raw, "{line:?}");
        assert!(is_late_request(line), "{line:?}");
    }
    for line in [
        LDAP_START_TLS,
        b"0034git-upload-archive /pub/http/x.git\0host=git.example\x000012argument HEAD\n",
        b"\x30\x81\x60\x02\x01\x01 cn HTTP/host.example\n",
        b"\x01 / HTTP/1.1\n",
    ] {
        assert!(!is_late_request(line), "{line:?}");
    }
}

#[test]
fn later_lines_are_requests_only_without_a_doubt() {
    for line in [
        "GET / HTTP/1.1\r\n",
        "get http://other.example/ http/1.0\n",
        "GET http://other.example/\r\n",
        "CONNECT other.example:443\r\n",
        "G(T / HTTP/1.1\r\n",
    ] {
        assert!(is_request(line.as_bytes()), "{line}");
    }
    for line in [
        "GET key\r\n",
        "GET /users 200 5.1 ms\r\n",
        "2026-11-18 GET / HTTP/1.1\r\n",
        "{\"a\": \"GET / HTTP/1.1\"}\r\n",
        "HTTP/1.1\r\n",
        "cd /tmp\r\n",
    ] {
        assert!(!is_request(line.as_bytes()), "{line}");
    }
}

#[test]
fn other_protocols_are_raw() {
    let git = b"0033git-upload-pack /project.git\0host=git.example\0";
    let mongo = [0x16, 3, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0];
    for first in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"EHLO there\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"GET key\r\n",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"\0\0\0\x54\0\x03\0\0user\0me\0",
        b"AMQP\0\0\x09\x01",
        b"\x10\x25\0\x04MQTT",
        b"\xff\xfd\x01",
        b"\x05\x01\0",
        b"\x13BitTorrent protocol",
        git,
        &mongo,
        b"\x16\x01\0\0",
        b"\x80\x10\x02\x03",
        b"{\"a\": 1}",
        // MySQL, asking for TLS; and frames of other lengths that are blanks.
        b"\x20\0\0\x01\x85\xae\x3f\x20\0\0\0\x01\x21\0",
        b"\x0a\0\0\x01",
        b"\x0d\0\0\x01",
        b"\x1c\0\0\x01",
        b"\x85\0\0\x01",
        b"\xa0\0\0\x01",
        b"\r\n\r\0",
        b"\r\n\r\n \0\r\nQUIT\n",
        // LDAP: StartTLS, and a simple bind of 32 bytes.
        LDAP_START_TLS,
        b"\x30\x20\x02\x01\x01\x60\x1b\x02\x01\x03\x04\x0ccn=a,dc=test\x80\x08password",
    ] {
        assert_eq!(sniff(first), Verdict::Raw, "{:?}", String::from_utf8_lossy(first));
    }
    // A client that waits has said enough.
    for length in 0..3 {
        assert_eq!(sniff(&LDAP_START_TLS[..length]), Verdict::More);
    }
    assert_eq!(sniff(&LDAP_START_TLS[..3]), Verdict::Raw);
    assert_eq!(Sniffer::default().end(b""), Verdict::Raw);
    assert_eq!(Sniffer::default().end(b"hello there"), Verdict::Raw);
    assert_eq!(Sniffer::default().end(b"\x16"), Verdict::Raw);
    assert!(is_broken(&Sniffer::default().end(b"\x16\x03\x01\0\x10\x01")));
}

proptest! {
    /// However the bytes are cut, the verdict is the same, and nothing panics.
    #[test]
    fn pieces_do_not_matter(bytes in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..400),
        proptest::collection::vec(prop_oneof![Just(22u8), Just(3), Just(1), Just(0), any::<u8>()], 0..400),
        "[ \r\n\tA-Za-z/.0-9]{0,80}( HTTP/1.1)?\r?\n?".prop_map(String::into_bytes),
    ], cut in proptest::collection::vec(1usize..40, 0..20)) {
        let whole = sniff(&bytes);
        let mut sniffer = Sniffer::default();
        let mut end = 0;
        let mut verdict = sniffer.look(&[]);
        for step in cut {
            end = (end + step).min(bytes.len());
            verdict = sniffer.look(&bytes[..end]);
            if verdict != Verdict::More {
                break;
            }
        }
        if verdict == Verdict::More {
            verdict = sniffer.look(&bytes);
        }
        prop_assert_eq!(verdict, whole);
    }

    /// What begins like a packet of LDAP or MySQL is raw at once, or else HTTP: never something to wait for. And no request
    /// line is let through: not by the first look, or not by the second one at its end.
    #[test]
    fn no_request_hides_behind_the_first_bytes_of_a_packet(
        before in "[ \t\r\n\x0b\x0c\x1c-\x1f]{0,4}",
        method in "[0-9][0-9A-Za-z_-]{0,8}",
        blank in "[ \t\r\x0b\x0c\x1c-\x1f]{1,2}",
        target in proptest::collection::vec(any::<u8>().prop_filter("a line", |byte| *byte != b'\n'), 1..40),
        version in "[hH][tT][tT][pP]/[0-9]\\.[0-9]",
    ) {
        let line = [before.as_bytes(), method.as_bytes(), blank.as_bytes(), b"/", &target, b" ", version.as_bytes(), b"\r\n"];
        let line = line.concat();
        match sniff(&line) {
            Verdict::Http => {}
            Verdict::Raw => {
                let start = line.iter().position(u8::is_ascii_digit).unwrap();
                let first = line[..start].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                prop_assert!(is_late_request(&line[first..]));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn a_length_before_a_packet_is_raw_at_once(length in any::<u8>(), kind in 1u8..=8, rest in any::<[u8; 6]>()) {
        let packet = [&[b'0', length, kind][..], &rest].concat();
        prop_assert_eq!(sniff(&packet), Verdict::Raw);
        let packet = [&[length, 0, 0, kind][..], &rest].concat();
        prop_assert_eq!(sniff(&packet), Verdict::Raw);
    }

    /// A changed byte never makes another name of a hello that is still taken whole.
    #[test]
    fn a_name_is_where_it_is(at in 0usize..200, value in any::<u8>()) {
        let mut bytes = records(&message(&[(10, vec![0, 2, 0, 29]), server_name(b"api.example.com")]), 64);
        let at = at % bytes.len();
        bytes[at] = value;
        if let Verdict::Tls(Hello { server_name: Some(name) }) = sniff(&bytes) {
            prop_assert_eq!(name.len(), "api.example.com".len());
        }
    }

    /// Any request line that a server would take is HTTP.
    #[test]
    fn request_lines_are_http(
        method in "[A-Za-z][A-Za-z_-]{0,12}",
        target in "[!-~\u{80}-\u{ff}]{1,60}",
        space in prop_oneof![Just(" "), Just("  "), Just("\t")],
        version in "HTTP/[0-9]\\.[0-9]",
    ) {
        let line = format!("{method}{space}{target}{space}{version}\r\nHost: a\r\n\r\n");
        prop_assert_eq!(sniff(line.as_bytes()), Verdict::Http);
    }
}
