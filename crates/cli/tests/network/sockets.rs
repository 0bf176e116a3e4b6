//! Ways past the names: datagrams, ICMP, raw and packet sockets, other families, the namespace's own devices and routes,
//! and the listeners that egress answers on.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::attempt::attempt;
use crate::row::Row;

const GRANTED: [&str; 3] = ["good.test", "echo.test:4242", "192.0.2.22:4242"];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = datagrams();
    rows.extend(other_ways());
    rows.extend(namespace());
    rows.extend(listeners());
    rows
}

fn datagrams() -> Vec<Row> {
    let udp = |name: &str, target: &str| {
        attempt(format!("udp-{name}"), format!("sends a datagram to {target}"))
            .grant(GRANTED)
            .probe(["udp-from-anywhere", target, "{token}", "welcome"])
            .unheard()
            .row()
    };
    let flavour = |name: &str, what: &str, script: &str| {
        attempt(format!("udp-{name}"), what).grant(GRANTED).python(script).unheard().row()
    };
    vec![
        udp("v4", "192.0.2.66:4242"),
        udp("v6", "[2001:db8::66]:4242"),
        flavour(
            "connected",
            "connects a datagram socket and writes",
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(2)\ns.connect(('192.0.2.66', 4242))\n\
             s.send(b'{token}')\nif s.recv(100): escaped('it was answered')",
        ),
        flavour(
            "sendmsg",
            "sends a datagram by sendmsg",
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(2)\n\
             s.sendmsg([b'{token}'], [], 0, ('192.0.2.66', 4242))\nif s.recv(100): escaped('it was answered')",
        ),
        flavour(
            "quic",
            "sends a datagram to port 443 of a granted name",
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(2)\n\
             s.sendto(b'{token}', (socket.gethostbyname('echo.test'), 4242))\n\
             s.sendto(b'{token}', ('192.0.2.66', 4242))\nif s.recv(100): escaped('it was answered')",
        ),
    ]
}

fn other_ways() -> Vec<Row> {
    vec![
        attempt("icmp", "pings")
            .grant(GRANTED)
            .python(
                "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)\ns.settimeout(2)\n\
                 packet = struct.pack('>BBHHH', 8, 0, 0, 0, 1) + b'{token}'\n\
                 total = sum(struct.unpack('>%dH' % (len(packet + b'\\0') // 2), (packet + b'\\0')[:len(packet + b'\\0') // 2 * 2]))\n\
                 s.sendto(packet, ('192.0.2.66', 0))\nif s.recv(200): escaped('it was answered')",
            )
            .row(),
        attempt("icmp-v6", "pings over IPv6")
            .grant(GRANTED)
            .python(
                "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6)\ns.settimeout(2)\n\
                 s.sendto(struct.pack('>BBHHH', 128, 0, 0, 0, 1) + b'{token}', ('2001:db8::66', 0))\n\
                 if s.recv(200): escaped('it was answered')",
            )
            .row(),
        attempt("fast-open", "connects by sending data in the first packet, without connect")
            .grant(GRANTED)
            .python(
                "s = socket.socket()\n\
                 s.sendto(b'{token}\\n', socket.MSG_FASTOPEN, ('192.0.2.66', 4242))\n\
                 if b'welcome' in s.recv(100): escaped('it was answered')",
            )
            .unheard()
            .row(),
        attempt("multipath", "connects by multipath TCP")
            .grant(GRANTED)
            .python(
                "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)\ns.settimeout(5)\n\
                 s.connect(('192.0.2.66', 4242))\nif b'welcome' in s.recv(100): escaped('it was answered')",
            )
            .row(),
        attempt("non-blocking", "connects without waiting, and looks later")
            .grant(GRANTED)
            .python(
                "import select\ns = socket.socket()\ns.setblocking(False)\ns.connect_ex(('192.0.2.66', 4242))\n\
                 select.select([s], [], [], 3)\nif b'welcome' in s.recv(100): escaped('it was answered')",
            )
            .row(),
        attempt("abstract-name", "connects to an abstract socket of the machine")
            .set_up(|internet, scene| {
                let name = format!("rf-{}", scene.token);
                let address = SocketAddr::from_abstract_name(&name).expect("an abstract name");
                let listener = internet.machine.within(|| UnixListener::bind_addr(&address)).expect("bind");
                std::thread::spawn(move || {
                    use std::io::Write;
                    while let Ok((mut stream, _)) = listener.accept() {
                        let _ = stream.write_all(b"welcome");
                    }
                });
                Vec::new()
            })
            .grant(GRANTED)
            .python(
                "s = socket.socket(socket.AF_UNIX)\ns.settimeout(3)\ns.connect('\\0rf-{token}')\n\
                 if s.recv(10) == b'welcome': escaped('it was answered')",
            )
            .row(),
        closed_family("vsock", "40, 1, 0"),
        closed_family("raw", "2, 3, 1"),
        closed_family("raw-v6", "10, 3, 58"),
        closed_family("packet", "17, 3, 768"),
        closed_family("netfilter", "16, 3, 12"),
        closed_family("xdp", "44, 3, 0"),
        closed_family("alg", "38, 5, 0"),
    ]
}

/// A socket that must not be had. The twin has every capability, in namespaces of its own: the kernel may still have no
/// such family, which is its own affair.
fn closed_family(name: &str, numbers: &str) -> Row {
    attempt(format!("family-{name}"), "makes a socket that is closed also where there is a network")
        .grant(GRANTED)
        .python(&format!(
            "try: socket.socket({numbers})\n\
             except PermissionError as why:\n    if why.errno == 1: held('not permitted')\n\
             except OSError as why: escaped('the kernel decided: %r' % why)\n\
             escaped('it was made')"
        ))
        .twin_python(&format!(
            "import subprocess\n\
             line = 'import socket\\ntry: socket.socket({numbers})\\nexcept OSError as why: raise SystemExit(why.errno == 1)'\n\
             own = ['unshare', '--user', '--map-root-user', '--net', '/usr/bin/python3', '-c', line]\n\
             if subprocess.run(own).returncode == 0: escaped('the kernel decided')"
        ))
}

fn namespace() -> Vec<Row> {
    let ip = |name: &str, what: &str, line: &str| {
        attempt(format!("netlink-{name}"), what).grant(GRANTED).shell(line).twin_python(&format!(
            "import subprocess\n\
             line = ['unshare', '--user', '--map-root-user', '--net', 'sh', '-ec', 'ip link set lo up; {line}']\n\
             if subprocess.run(line).returncode == 0: escaped('it worked in a namespace of its own')"
        ))
    };
    vec![
        ip("address", "gives itself an address", "ip addr add 192.0.2.66/32 dev lo"),
        ip("route", "gives itself a route", "ip route add local 192.0.2.0/24 dev lo"),
        ip("link", "makes a device", "ip link add rf9 type veth peer name rf8"),
        ip("rule", "changes how routes are chosen", "ip rule add pref 5 lookup 100"),
        attempt("only-loopback", "finds another device than loopback")
            .grant(GRANTED)
            .probe(["only-loopback"])
            .row(),
        attempt("has-route", "finds a route out").grant(GRANTED).probe(["has-route"]).row(),
        attempt("bind-to-device", "binds a socket to the machine's device")
            .grant(GRANTED)
            .python(
                "s = socket.socket()\ns.settimeout(3)\ns.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth0\\0')\n\
                 s.connect(('192.0.2.66', 4242))\nif b'welcome' in s.recv(100): escaped('it was answered')",
            )
            .row(),
    ]
}

/// What egress listens on is inside: nobody there may take it over.
fn listeners() -> Vec<Row> {
    let take = |name: &str, kind: &str, address: &str, port: u16| {
        attempt(format!("take-over-{name}"), format!("binds {address}:{port}, where egress listens"))
            .grant(GRANTED)
            .python(&format!(
                "s = socket.socket(socket.AF_INET, socket.{kind})\n\
                 for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT): s.setsockopt(socket.SOL_SOCKET, option, 1)\n\
                 s.bind(('{address}', {port}))\n\
                 if socket.{kind} == socket.SOCK_STREAM: s.listen()\n\
                 escaped('it was bound')"
            ))
            .twin_python(&format!(
                "s = socket.socket(socket.AF_INET, socket.{kind})\n\
                 for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT): s.setsockopt(socket.SOL_SOCKET, option, 1)\n\
                 s.bind(('127.0.0.1', {unprivileged}))\nescaped('it was bound')",
                unprivileged = port + 20000
            ))
    };
    vec![
        take("dns", "SOCK_DGRAM", "198.18.0.1", 53),
        take("dns-tcp", "SOCK_STREAM", "198.18.0.1", 53),
        take("http-proxy", "SOCK_STREAM", "198.18.0.2", 3128),
        take("socks-proxy", "SOCK_STREAM", "198.18.0.2", 1080),
        take("literal", "SOCK_STREAM", "192.0.2.22", 4242),
        attempt("take-over-name", "binds the address of a granted name after it was asked for")
            .grant(GRANTED)
            .python(
                "address = socket.gethostbyname('echo.test')\ns = socket.socket()\n\
                 for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT): s.setsockopt(socket.SOL_SOCKET, option, 1)\n\
                 s.bind((address, 4242))\ns.listen()\nescaped('it was bound')",
            )
            .twin_python("s = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nescaped('it was bound')"),
        attempt("steal-listener", "takes a listener from PID 1 by its descriptor number")
            .grant(GRANTED)
            .python(
                "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n\
                 fd = libc.syscall(434, 1, 0)\nif fd < 0: raise OSError(ctypes.get_errno(), 'pidfd_open')\n\
                 for number in range(64):\n    \
                 got = libc.syscall(438, fd, number, 0)\n    \
                 if got >= 0: escaped('descriptor %d' % number)\n\
                 raise OSError(ctypes.get_errno(), 'pidfd_getfd')",
            )
            .twin_python(
                "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfd = libc.syscall(434, os.getpid(), 0)\n\
                 if libc.syscall(438, fd, 1, 0) >= 0: escaped('a descriptor')",
            ),
        attempt("listeners-in-proc", "opens the descriptors of PID 1")
            .grant(GRANTED)
            .python(
                "found = os.listdir('/proc/1/fd')\n\
                 for number in found:\n    os.open('/proc/1/fd/' + number, os.O_RDONLY)\nescaped('%d of them' % len(found))",
            )
            .twin_python("escaped('%d of them' % len(os.listdir('/proc/self/fd')))"),
        attempt("egress-in-proc", "finds egress among the processes")
            .grant(GRANTED)
            .python(
                "names = [open('/proc/%s/cmdline' % pid).read() for pid in os.listdir('/proc') if pid.isdigit() and pid != '1']\n\
                 if any('ringfence' in name and 'python' not in name for name in names): escaped(names)\nheld('it is not there')",
            )
            .twin_python(
                "import subprocess\nchild = subprocess.Popen(['sleep', '5'])\n\
                 for _ in range(100):\n    \
                 if 'sleep' in open('/proc/%d/cmdline' % child.pid).read(): escaped('a neighbour is seen')\n    \
                 time.sleep(0.02)",
            ),
    ]
}
