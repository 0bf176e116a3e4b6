//! Floods from inside: whatever a command does to egress, a granted connection still works afterwards, the run ends and
//! is reported, and what was refused is counted. The twin shows that the flood is one.

use crate::attempt::attempt;
use crate::row::Row;

/// After the flood: a granted name still answers, and quickly. Only then was the flood held.
const STILL_WORKS: &str = "\nstarted = time.time()\ngot = greeted('echo.test')\n\
                           if time.time() - started > 10: escaped('a granted connection took too long')\n\
                           held('flooded, and %s' % got)";

pub(crate) fn rows() -> Vec<Row> {
    // What a flood gives back stays open while the granted connection is tried, and is what its twin shows: the very same
    // flood, on the machine without a sandbox, where nothing may fail.
    let flood = |name: &str, what: &str, grants: &[&str], script: &str, shows: &str| {
        let flood = format!("def flood():\n    {}", script.replace('\n', "\n    "));
        attempt(name, what)
            .grant(["echo.test:4242"])
            .grant(grants.iter().copied())
            .python(&format!("{flood}\ntry: kept = flood()\nexcept OSError: pass{STILL_WORKS}"))
            .shows("held: flooded, and welcome")
            .twin_python(&format!("{flood}\ngot = flood()\n{shows}"))
    };
    vec![
        flood(
            "flood-names",
            "asks for 10,000 names below a granted wildcard",
            &["*.good.test"],
            "return ask_many('{dns}', ('n%d.good.test' % n for n in range(10000)), 0.5)",
            "if got > 9900: escaped('%d have addresses' % got)",
        ),
        flood(
            "flood-ungranted-names",
            "asks for 3,000 names that are not granted",
            &[],
            "return ask_many('{dns}', ('n%d.evil.test' % n for n in range(3000)), 0.5)",
            "if got > 2900: escaped('%d have addresses' % got)",
        ),
        flood(
            "flood-unanswered",
            "sends questions without reading an answer",
            &["*.good.test"],
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             return sum(s.sendto(question(wire('q%d.good.test' % (n % 50))), ('{dns}', 53)) > 0 for n in range(20000))",
            "if got == 20000: escaped('all were sent')",
        ),
        flood(
            "flood-garbage",
            "sends garbage to the name server and the proxies",
            &[],
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             for n in range(3000): s.sendto(os.urandom(n % 700), ('{dns}', 53))\n\
             for n in range(100):\n    for to in (('{dns}', 53), proxy('{http_proxy}'), proxy('{socks_proxy}')):\n        \
             stream = dial(*to); stream.sendall(os.urandom(500)); stream.close()",
            "escaped('all was sent')",
        ),
        flood(
            "flood-half-open",
            "opens 400 connections to a granted name and says nothing",
            &["good.test"],
            "kept = []\nfor n in range(400):\n    \
             try: kept.append(dial('good.test', 443))\n    except OSError: break\nreturn kept",
            "if len(got) == 400: escaped('all are open')",
        ),
        flood(
            "flood-half-proxied",
            "opens 400 connections to the proxies and says nothing",
            &[],
            "kept = []\nfor n in range(200):\n    for to in (proxy('{http_proxy}'), proxy('{socks_proxy}')):\n        \
             try: kept.append(dial(*to))\n        except OSError: break\nreturn kept",
            "if len(got) == 400: escaped('all are open')",
        ),
        flood(
            "slow-loris",
            "sends requests to a granted host byte by byte on 100 connections",
            &["good.test"],
            "kept = [dial('good.test', 80) for n in range(100)]\n\
             for byte in b'GET / HT': \n    for stream in kept: stream.sendall(bytes([byte]))\n    time.sleep(0.05)\nreturn kept",
            "escaped('%d wait' % len(got))",
        ),
        flood(
            "slow-hello",
            "begins 100 TLS handshakes and finishes none",
            &["good.test"],
            "kept = [dial('good.test', 443) for n in range(100)]\n\
             for stream in kept: stream.sendall(records(hello(b'good.test'))[:40])\nreturn kept",
            "escaped('%d wait' % len(got))",
        ),
        flood(
            "slow-dns",
            "holds 100 TCP connections to the name server",
            &[],
            "kept = [dial('{dns}', 53) for n in range(100)]\nfor stream in kept: stream.sendall(b'\\0')\nreturn kept",
            "escaped('%d wait' % len(got))",
        ),
        // To a server that takes whatever it is sent.
        flood(
            "large-head",
            "sends a request head without end",
            &["raw.test:8080"],
            "stream = dial('raw.test', 8080)\nstream.sendall(b'GET / HTTP/1.1\\r\\nHost: raw.test:8080\\r\\n')\n\
             for n in range(4000): stream.sendall(b'X-%d: ' % n + b'y' * 1000 + b'\\r\\n')",
            "escaped('all was sent')",
        ),
        flood(
            "large-hello",
            "sends a ClientHello without end",
            &["raw.test:8080"],
            "stream = dial('raw.test', 8080)\nstream.sendall(b'\\x16\\x03\\x01\\x40\\x00\\x01\\xff\\xff\\xff')\n\
             for n in range(600): stream.sendall(b'\\x16\\x03\\x01\\x40\\x00' + bytes(16384))",
            "escaped('all was sent')",
        ),
        flood(
            "many-refused",
            "is refused 2,000 times",
            &["good.test"],
            "address, refused = socket.gethostbyname('good.test'), 0\n\
             for n in range(2000):\n    try: socket.create_connection((address, 10000 + n), 1)\n    except OSError: refused += 1\n\
             return refused",
            "if got == 2000: escaped('by the server itself, which nobody counts')",
        ),
        attempt("connection-limit", "holds more connections than the limit allows")
            .grant(["echo.test:4242"])
            .flags(["--connections", "5"])
            .python(
                "kept = []\nfor n in range(12):\n    stream = dial('echo.test', 4242)\n    kept.append(stream)\n    greeting_on(stream)\n\
                 escaped('%d at once' % len(kept))",
            )
            .denied("echo.test")
            .row(),
    ]
}
