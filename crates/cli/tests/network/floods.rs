//! Floods from inside: whatever a command does to egress, a granted connection still works afterwards, the run ends and
//! is reported, and what was refused is counted. The twin shows that the flood is one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Internet, Scene, Test};

use crate::attempt::{attempt, python};
use crate::death::egress_of;
use crate::row::Row;

/// After the flood: a granted name still answers, and quickly. Only then was the flood held.
const STILL_WORKS: &str = "\nstarted = time.time()\ngot = greeted('echo.test')\n\
                           if time.time() - started > 10: escaped('a granted connection took too long')\n\
                           held('flooded, and %s, after %d' % (got, len(did)))";

pub(crate) fn rows() -> Vec<Row> {
    // Each puts what it has done into `did`, connections too, which so stay open while the granted one is tried. `least`: so
    // much it must have done in the sandbox to be a flood. The twin is the very same flood, on the machine without a sandbox,
    // where nothing may fail.
    let flood = |name: &str, what: &str, grants: &[&str], script: &str, least: u32| {
        let flood = format!("did = []\ndef flood():\n    {}", script.replace('\n', "\n    "));
        attempt(name, what)
            .grant(["echo.test:4242"])
            .grant(grants.iter().copied())
            // More than a flood opens: what is to be seen is that egress bears it, not that it is refused.
            .flags(["--connections", "1000"])
            .python(&format!(
                "{flood}\nwhy = None\ntry: flood()\nexcept OSError as error: why = error\n\
                 if len(did) < {least}: held('no flood: %d, %r' % (len(did), why)){STILL_WORKS}"
            ))
            .shows("held: flooded, and welcome")
    };
    let twin = |script: &str, shows: &str| {
        format!("did = []\ndef flood():\n    {}\nflood()\n{shows}", script.replace('\n', "\n    "))
    };
    let row = |name: &str, what: &str, grants: &[&str], script: &str, least: u32, shows: &str| {
        flood(name, what, grants, script, least).twin_python(&twin(script, shows))
    };
    let refused =
        |name: &str, what: &str, grants: &[&str], script: &str, least: u32, said: &str, shows: &str| {
            flood(name, what, grants, script, least).said(said).twin_python(&twin(script, shows))
        };
    vec![
        refused(
            "flood-names",
            "asks for 10,000 names below a granted wildcard",
            &["*.good.test"],
            "got = ask_many('{dns}', ('n%d.good.test' % n for n in range(10000)), 0.5)\ndid.extend(got)",
            10_000,
            "different names were asked for, the most there can be",
            "if sum(did) > 9900: escaped('%d have addresses' % sum(did))",
        ),
        refused(
            "flood-ungranted-names",
            "asks for 3,000 names that are not granted",
            &[],
            "got = ask_many('{dns}', ('n%d.evil.test' % n for n in range(3000)), 0.5)\ndid.extend(got)",
            3_000,
            "no rule allows this host",
            "if sum(did) > 2900: escaped('%d have addresses' % sum(did))",
        ),
        row(
            "flood-unanswered",
            "sends questions without reading an answer",
            &["*.good.test"],
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             for n in range(20000): did.append(s.sendto(question(wire('q%d.good.test' % (n % 50))), ('{dns}', 53)))",
            20_000,
            "if len(did) == 20000: escaped('all were sent')",
        ),
        row(
            "flood-garbage",
            "sends garbage to the name server and the proxies",
            &[],
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             for n in range(3000): did.append(s.sendto(os.urandom(n % 700), ('{dns}', 53)))\n\
             for n in range(100):\n    for to in (('{dns}', 53), proxy('{http_proxy}'), proxy('{socks_proxy}')):\n        \
             stream = dial(*to); stream.sendall(os.urandom(500)); stream.close(); did.append(to)",
            3_300,
            "if len(did) == 3300: escaped('all was sent')",
        ),
        row(
            "flood-half-open",
            "opens 400 connections to a granted name and says nothing",
            &["good.test"],
            "for n in range(400): did.append(dial('good.test', 443))",
            400,
            "if len(did) == 400: escaped('all are open')",
        ),
        row(
            "flood-half-proxied",
            "opens 400 connections to the proxies and says nothing",
            &[],
            "for n in range(200):\n    for to in (proxy('{http_proxy}'), proxy('{socks_proxy}')): did.append(dial(*to))",
            400,
            "if len(did) == 400: escaped('all are open')",
        ),
        row(
            "slow-loris",
            "sends requests to a granted host byte by byte on 100 connections",
            &["good.test"],
            "for n in range(100): did.append(dial('good.test', 80))\n\
             for byte in b'GET / HT':\n    \
             for stream in did[:100]: stream.sendall(bytes([byte])); did.append(byte)\n    time.sleep(0.05)",
            // Later ones may be cut off.
            200,
            "escaped('%d wait' % len(did))",
        ),
        row(
            "slow-hello",
            "begins 100 TLS handshakes and finishes none",
            &["good.test"],
            "for n in range(100): did.append(dial('good.test', 443))\n\
             for stream in did[:100]: stream.sendall(records(hello(b'good.test'))[:40]); did.append(stream)",
            200,
            "escaped('%d wait' % len(did))",
        ),
        row(
            "slow-dns",
            "holds 100 TCP connections to the name server",
            &[],
            "for n in range(100): did.append(dial('{dns}', 53))\n\
             for stream in did[:100]: stream.sendall(b'\\0'); did.append(stream)",
            200,
            "escaped('%d wait' % len(did))",
        ),
        // To a server that takes whatever it is sent.
        refused(
            "large-head",
            "sends a request head without end",
            &["raw.test:8080"],
            "stream = dial('raw.test', 8080)\nstream.sendall(b'GET / HTTP/1.1\\r\\nHost: raw.test:8080\\r\\n')\n\
             for n in range(4000): stream.sendall(b'X-%d: ' % n + b'y' * 1000 + b'\\r\\n'); did.append(n)",
            // So many fit nowhere without being read.
            30,
            "the HTTP request is malformed",
            "if len(did) == 4000: escaped('all was sent')",
        ),
        refused(
            "large-hello",
            "sends a ClientHello without end",
            &["raw.test:8080"],
            "stream = dial('raw.test', 8080)\nstream.sendall(b'\\x16\\x03\\x01\\x40\\x00\\x01\\xff\\xff\\xff'); did.append(0)\n\
             for n in range(600): stream.sendall(b'\\x16\\x03\\x01\\x40\\x00' + bytes(16384)); did.append(n)",
            1,
            "the TLS client hello can't be read",
            "if len(did) == 601: escaped('all was sent')",
        ),
        row(
            "many-refused",
            "is refused 2,000 times",
            &["good.test"],
            "address = socket.gethostbyname('good.test')\n\
             for n in range(2000):\n    try: socket.create_connection((address, 10000 + n), 1)\n    except ConnectionRefusedError: did.append(n)",
            2_000,
            "if len(did) == 2000: escaped('by the server itself, which nobody counts')",
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

/// What a flood has egress hold while it lasts, in MiB: its own memory at its highest, and the kernel's for its
/// connections. Afterwards egress lives, and a granted name is still reached.
fn held_during(grants: &[&str], flood: &str) -> (u64, u64) {
    let internet = Internet::get().expect("a test internet");
    let scene = Scene::new(Identity::all()[0]);
    let script = format!(
        "{flood}\nopen('flooded', 'w').close()\n\
         while not os.path.exists('measured'): time.sleep(0.02)\n\
         for stream in kept[:100]: stream.close()\n\
         time.sleep(0.2)\nescaped('%d connections, and %s' % (len(kept), greeted('echo.test')))"
    );
    let mut test = Test::in_scene(&scene).args(["--timeout", "150s", "--allow-host", "echo.test:4242"]);
    for grant in grants {
        test = test.args(["--allow-host", grant]);
    }
    let mut running = internet.machine.within(|| test.spawn(python(&script)));
    let deadline = Instant::now() + Duration::from_secs(120);
    while !scene.path("ws/flooded").exists() {
        assert!(Instant::now() < deadline, "waited for the flood");
        if running.has_ended() {
            panic!("the flood failed: {}", running.wait().describe());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let egress = egress_of(running.pid());
    assert_eq!(egress.len(), 1, "egress is one process: {egress:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", egress[0])).expect("its status");
    let own = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    let own: u64 = own.trim().trim_end_matches(" kB").parse().expect("a number");
    let kernel = internet.machine.within(|| kernel_memory(running.pid()));
    scene.write("ws/measured", "");
    let outcome = running.wait();
    outcome.code(0).stdout_contains("connections, and welcome to");
    (own >> 10, kernel >> 20)
}

/// Of the TCP sockets on the machine and, on the side of egress, inside.
fn kernel_memory(owner: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{owner}/task/{owner}/children")).expect("children");
    let egress = egress_of(owner);
    let mut inside =
        children.split_whitespace().filter(|pid| !egress.iter().any(|it| it.to_string() == **pid));
    let guard = inside.next().expect("guard").to_owned();
    let sum = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().expect("ss (iproute2) starts");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let parts = text.split("skmem:(").skip(1).filter_map(|rest| rest.split(')').next());
        let held = parts.flat_map(|part| part.split(','));
        // Received, queued to be sent, and set aside for either.
        let held = held.filter_map(|part| {
            ["r", "w", "f"].iter().find_map(|kind| part.strip_prefix(kind)?.parse::<u64>().ok())
        });
        held.sum::<u64>()
    };
    let outside = sum(Command::new("ss").args(["-tmnH"]));
    let inside = sum(Command::new("nsenter").args(["-t", &guard, "-n", "ss", "-tmnH", "sport", "=", ":80"]));
    outside + inside
}

/// 900 downloads that nobody reads: egress lets the kernel hold little of each.
#[test]
fn stalled_connections_take_bounded_memory() {
    if Internet::get().is_none() {
        return;
    }
    let flood = "kept = []\nfor n in range(900):\n    \
                 stream = dial('good.test', 80, 20)\n    \
                 stream.sendall(b'GET /big HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n')\n    kept.append(stream)\n\
                 for stream in kept: assert stream.recv(1, socket.MSG_PEEK)\ntime.sleep(1)";
    let (own, kernel) = held_during(&["good.test"], flood);
    println!("{own} MiB of egress, {kernel} MiB of the kernel");
    assert!(own < 256 && kernel < 512, "{own} MiB of egress, {kernel} MiB of the kernel");
}

/// Requests of HTTP/2 with the largest heads that may be, to a host that never answers.
#[test]
fn requests_that_wait_take_bounded_memory() {
    if Internet::get().is_none() {
        return;
    }
    let flood = "def frame(kind, flags, stream, body): return struct.pack('>I', len(body))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + body\n\
                 def text(data): return bytes([127]) + varint(len(data) - 127) + data\n\
                 def varint(n):\n    out = b''\n    while n > 127: out += bytes([n & 127 | 128]); n >>= 7\n    return out + bytes([n])\n\
                 head = b'\\x82\\x86\\x84\\x01\\x0draw.test:8080'\n\
                 for name in b'abc': head += b'\\x00\\x03x-' + bytes([name]) + text(b'y' * 10000)\n\
                 def request(stream): return frame(1, 1, stream, head[:16384]) + frame(9, 4, stream, head[16384:])\n\
                 whole = b''.join(request(2 * n + 1) for n in range(60))\n\
                 kept = []\nfor n in range(150):\n    \
                 stream = dial('raw.test', 8080, 20)\n    stream.settimeout(0.5)\n    kept.append(stream)\n    \
                 try: stream.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + frame(4, 0, 0, b'') + whole)\n    \
                 except OSError: pass\ntime.sleep(1)";
    let (own, _) = held_during(&["raw.test:8080"], flood);
    println!("{own} MiB of egress");
    assert!(own < 192, "{own} MiB of egress");
}
