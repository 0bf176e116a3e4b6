//! TLS: the server name must be the granted one, however the ClientHello is cut; and where TLS is terminated, the
//! server's certificate must hold and every request is for the granted host.

use crate::attempt::{Attempt, attempt};
use crate::row::Row;

/// TLS of this host is terminated: its requests are read.
const HTTP_RULES: &str = "[network]\nmode = \"allow\"\nallow = [\"{host}\"]\n\n[[network.http]]\nhost = \"{host}\"\n\
                          methods = [\"GET\"]\npaths = [\"/\"]\n";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = server_names();
    rows.extend(upgrades());
    rows.extend(certificates());
    rows.extend(fronting());
    rows
}

/// A server answers whatever it is asked for: the twin's handshake goes on.
fn server_names() -> Vec<Row> {
    let row = |name: &str, what: &str, message: &str| {
        attempt(format!("sni-{name}"), what)
            .grant(["good.test:443"])
            .python(&format!("escaped(server_hello('good.test', {message}))"))
            .denied("good.test")
            .row()
    };
    vec![
        row("other", "asks a granted address for another host", "records(hello(b'evil.test'))"),
        row("missing", "names no host", "records(hello(sni=False))"),
        row("upper-case-other", "asks for another host in capitals", "records(hello(b'EVIL.test'))"),
        row("trailing-dot-other", "asks for another host with a dot", "records(hello(b'evil.test.'))"),
        row("below", "asks for a name below the granted one", "records(hello(b'x.good.test'))"),
        row("cut-records", "cuts the other name into many records", "records(hello(b'evil.test'), 7)"),
        row("one-byte-records", "cuts the other name into records of a byte", "records(hello(b'evil.test'), 1)"),
        attempt("sni-cut-segments", "sends the other name byte by byte")
            .grant(["good.test:443"])
            .python(
                "stream = dial('good.test', 443)\n\
                 stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
                 for byte in records(hello(b'evil.test')):\n    stream.sendall(bytes([byte])); time.sleep(0.001)\n\
                 answered(stream)",
            )
            .denied("good.test")
            .row(),
        attempt("sni-padded", "hides the other name behind a large extension")
            .grant(["good.test:443"])
            .python(
                "message = hello(b'evil.test')\n\
                 body = message[4:]\n\
                 at = 2 + 32 + 1 + 2 + 4 + 2\n\
                 size = struct.unpack('>H', body[at:at + 2])[0]\n\
                 pad = struct.pack('>HH', 21, 12000) + bytes(12000)\n\
                 body = body[:at] + struct.pack('>H', size + len(pad)) + pad + body[at + 2:]\n\
                 message = b'\\x01' + struct.pack('>I', len(body))[1:] + body\n\
                 escaped(server_hello('good.test', records(message)))",
            )
            .denied("good.test")
            .row(),
        attempt("sni-of-a-literal", "asks a granted address for a name that is not granted")
            .grant(["good.test", "192.0.2.10:443"])
            .flags(["--deny-host", "evil.test"])
            .python("escaped(server_hello('good.test', records(hello(b'evil.test'))))")
            .denied("good.test")
            .row(),
        attempt("sni-other-whole", "fetches another host's page from a granted address")
            .grant(["good.test:80", "good.test:443"])
            .shell(
                "curl -sfk --max-time 5 --connect-to evil.test:443:good.test:443 https://evil.test/ | grep 'page of evil'",
            )
            .denied("good.test")
            .row(),
        attempt("tunnel-sni", "asks for another host within a tunnel to a granted one")
            .grant(["good.test:443"])
            .python(
                "stream, _ = connect_through('{http_proxy}', 'good.test:443')\n\
                 stream.sendall(records(hello(b'evil.test')))\n\
                 answered(stream)",
            )
            .denied("good.test")
            .row(),
        attempt("socks-sni", "asks for another host within a SOCKS tunnel to a granted one")
            .grant(["good.test:443"])
            .python(
                "stream = socks_through('{socks_proxy}', 'good.test', 443)\n\
                 stream.sendall(records(hello(b'evil.test')))\n\
                 answered(stream)",
            )
            .denied("good.test")
            .row(),
        attempt("sni-two-names", "names the granted host and another one")
            .grant(["good.test:443"])
            .python(
                "message = records(hello(b'good.test', b'evil.test'))\n\
                 stream = dial('good.test', 443)\n\
                 stream.sendall(message)\n\
                 answered(stream)",
            )
            .denied("good.test")
            .twin_python(
                // nginx takes no such thing: that it says so shows that it got it.
                "stream = dial('good.test', 443)\n\
                 stream.sendall(records(hello(b'good.test', b'evil.test')))\n\
                 if stream.recv(100): escaped('the server itself answered')",
            ),
    ]
}

/// TLS that a protocol of its own leads up to.
fn upgrades() -> Vec<Row> {
    let row = |name: &str, what: &str, script: &str| {
        attempt(format!("postgres-{name}"), what)
            .grant(["db.test:5432"])
            .python(&format!(
                "request = b'\\0\\0\\0\\x08\\x04\\xd2\\x16\\x2f'\nstream = dial('db.test', 5432)\n{script}"
            ))
            .denied("db.test")
            .row()
    };
    let asked = "stream.sendall(request)\nassert stream.recv(1) == b'S'\n";
    vec![
        row(
            "sni-other",
            "asks a granted PostgreSQL server for another host, once TLS is agreed on",
            &format!("{asked}stream.sendall(records(hello(b'evil.test')))\nanswered(stream)"),
        ),
        row(
            "sni-missing",
            "names no host, once TLS is agreed on",
            &format!("{asked}stream.sendall(records(hello(sni=False)))\nanswered(stream)"),
        ),
        row(
            "sni-pieces",
            "asks for another host in small pieces",
            "stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
             for byte in request:\n    stream.sendall(bytes([byte])); time.sleep(0.001)\n\
             assert stream.recv(1) == b'S'\n\
             for byte in records(hello(b'evil.test'), 30):\n    stream.sendall(bytes([byte])); time.sleep(0.001)\n\
             answered(stream)",
        ),
        attempt("starttls-sni", "asks a granted mail server for another host, once TLS is agreed on")
            .grant(["mail.test:587"])
            .python(
                "stream = dial('mail.test', 587)\n\
                 read(stream, b'\\n')\n\
                 stream.sendall(b'STARTTLS\\r\\n')\n\
                 read(stream, b'\\n')\n\
                 stream.sendall(records(hello(b'evil.test')))\n\
                 answered(stream)",
            )
            .row()
            .not_a_boundary(|_| true),
    ]
}

/// A host whose TLS is terminated, by a policy file in the workspace's parent.
fn terminated(name: &str, what: &str, host: &'static str) -> Attempt {
    attempt(name, what)
        .set_up(move |_, scene| {
            scene.write("policy.toml", &HTTP_RULES.replace("{host}", host));
            vec![("{policy}".to_owned(), scene.path("policy.toml").display().to_string())]
        })
        .flags(["--policy", "{policy}"])
}

/// The client inside does not care, egress does.
fn certificates() -> Vec<Row> {
    let row = |name: &str, what: &str, host: &'static str| {
        terminated(&format!("certificate-{name}"), what, host)
            .shell(&format!("curl -sfk --max-time 8 https://{host}/ | grep 'page of {host}'"))
            .denied(host)
            .row()
    };
    vec![
        row("of-another-name", "speaks to a server with somebody else's certificate", "othername.test"),
        row("expired", "speaks to a server whose certificate is out of date", "expired.test"),
        row("self-signed", "speaks to a server that vouches for itself", "selfsigned.test"),
        row("of-a-stranger", "speaks to a server that an unknown authority vouches for", "unknown-ca.test"),
    ]
}

fn fronting() -> Vec<Row> {
    let front = "curl -sfk --max-time 8 -H 'Host: tenant-b.test' https://tenant-a.test/ | grep 'page of tenant-b.test'";
    vec![
        attempt("domain-fronting", "asks one tenant's address and server name for another tenant's page")
            .grant(["tenant-a.test:443"])
            .shell(front)
            .row()
            .not_a_boundary(|_| true),
        terminated("domain-fronting-terminated", "the same where TLS is terminated", "tenant-a.test")
            .shell(front)
            .denied("tenant-a.test")
            .row(),
        terminated("terminated-http2", "the same over HTTP/2", "tenant-a.test")
            .shell(&front.replace("curl ", "curl --http2 "))
            .denied("tenant-a.test")
            .row(),
        terminated("terminated-method", "uses a method that no rule allows", "good.test")
            .shell("curl -sfk --max-time 8 -X DELETE https://good.test/{token} | grep 'page of good.test'")
            .denied("good.test")
            .unheard()
            .row(),
        path_rule("path-plain", "https://good.test/private/{token}"),
        path_rule("path-dots", "--path-as-is https://good.test/public/../private/{token}"),
        path_rule("path-encoded-dots", "--path-as-is https://good.test/public/%2e%2e/private/{token}"),
        path_rule("path-encoded-slash", "--path-as-is https://good.test/public/..%2fprivate/{token}"),
        path_rule("path-double-encoded", "--path-as-is https://good.test/public/%252e%252e/private/{token}"),
        path_rule("path-lookalike", "https://good.test/publicity/{token}"),
    ]
}

/// Only `/public/` is allowed.
fn path_rule(name: &str, target: &str) -> Row {
    attempt(name, "asks for a path that no rule allows")
        .set_up(|_, scene| {
            let rules = HTTP_RULES.replace("{host}", "good.test").replace("[\"/\"]", "[\"/public/\"]");
            scene.write("policy.toml", &rules);
            vec![("{policy}".to_owned(), scene.path("policy.toml").display().to_string())]
        })
        .flags(["--policy", "{policy}"])
        .shell(&format!("curl -sfk --max-time 8 {target} | grep 'page of good.test'"))
        .denied("good.test")
        .unheard()
        .row()
}
