//! The network: each address family, and every listening socket of the host that a program might reach. All of it
//! on loopback or in a network namespace that the test makes.

use std::rc::Rc;

use ringfence_testing::{Greeter, Identity, Running, Scene, Session, Stage, Test, Victim};

use crate::attempt::{Props, Twin, attempt};
use crate::row::{InSession, Row, Shown, drill};

/// Family, type, protocol: all that the kernel knows but unix, TCP, UDP and route netlink.
const FAMILIES: &[(&str, u32, u32, u32)] = &[
    ("ax25", 3, 5, 0),
    ("ipx", 4, 2, 0),
    ("appletalk", 5, 2, 0),
    ("netrom", 6, 5, 0),
    ("atmpvc", 8, 2, 0),
    ("x25", 9, 5, 0),
    ("rose", 11, 5, 0),
    ("key", 15, 3, 2),
    ("packet", 17, 3, 768),
    ("packet-dgram", 17, 2, 768),
    ("atmsvc", 20, 2, 0),
    ("rds", 21, 5, 0),
    ("pppox", 24, 2, 0),
    ("llc", 26, 1, 0),
    ("ib", 27, 3, 0),
    ("mpls", 28, 3, 0),
    ("can", 29, 3, 1),
    ("tipc", 30, 5, 0),
    ("bluetooth", 31, 3, 1),
    ("iucv", 32, 1, 0),
    ("rxrpc", 33, 2, 2),
    ("isdn", 34, 3, 0),
    ("phonet", 35, 2, 0),
    ("ieee802154", 36, 2, 0),
    ("caif", 37, 5, 0),
    ("alg", 38, 5, 0),
    ("nfc", 39, 5, 0),
    ("vsock", 40, 1, 0),
    ("vsock-dgram", 40, 2, 0),
    ("kcm", 41, 2, 0),
    ("qipcrtr", 42, 2, 0),
    ("smc", 43, 1, 0),
    ("xdp", 44, 3, 0),
    ("mctp", 45, 2, 0),
    ("raw-icmp", 2, 3, 1),
    ("raw-ip", 2, 3, 255),
    ("raw-icmp6", 10, 3, 58),
    ("sctp", 2, 1, 132),
    ("udplite", 2, 2, 136),
    ("dccp", 2, 6, 33),
    ("netlink-diag", 16, 3, 4),
    ("netlink-xfrm", 16, 3, 6),
    ("netlink-audit", 16, 3, 9),
    ("netlink-netfilter", 16, 3, 12),
    ("netlink-uevent", 16, 3, 15),
    ("netlink-generic", 16, 3, 16),
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = FAMILIES
        .iter()
        .map(|(name, family, kind, protocol)| {
            attempt(format!("family-{name}"), "makes a socket of a closed family or protocol")
                .probe(["socket".to_owned(), family.to_string(), kind.to_string(), protocol.to_string()])
                .denied("socket")
                .twin(Twin::ReachesKernel)
        })
        .collect();
    rows.extend(loopback());
    rows.extend(unix());
    rows.extend(laters());
    rows.push(other_network());
    rows
}

fn loopback() -> Vec<Row> {
    let tcp = |name: &str, address: &'static str| {
        attempt(name, "connects to a server on the host's loopback")
            .set_up(move |scene| Props::default().var("address", Greeter::tcp(address, &scene.token)))
            .probe(["tcp", "{address}", "{token}"])
            .twin(Twin::Host)
    };
    let udp = |name: &str, address: &'static str| {
        attempt(name, "asks a server on the host's loopback")
            .set_up(move |scene| Props::default().var("address", Greeter::udp(address, &scene.token)))
            .probe(["udp", "{address}", "{token}"])
            .twin(Twin::Host)
    };
    vec![
        tcp("tcp-loopback", "127.0.0.1:0"),
        tcp("tcp6-loopback", "[::1]:0"),
        tcp("tcp-other-loopback", "127.0.0.2:0"),
        udp("udp-loopback", "127.0.0.1:0"),
        udp("udp6-loopback", "[::1]:0"),
        attempt("tcp-waived", "connects to the host's loopback unless the network clause is waived")
            .set_up(|scene| Props::default().var("address", Greeter::tcp("127.0.0.1:0", &scene.token)))
            .probe(["tcp", "{address}", "{token}"])
            .twin_with(["--waive", "network"]),
    ]
}

fn unix() -> Vec<Row> {
    let path = |name: &str, what: &str, place: &'static str| {
        attempt(name, what)
            .set_up(move |scene| {
                // Next to the scene: a socket's path must be short.
                let path = scene.path(place);
                Greeter::unix(&path, &scene.token);
                Props::default().var("socket", path.display())
            })
            .probe(["unix", "{socket}", "{token}"])
    };
    vec![
        path("unix-outside", "connects to a unix socket outside", "outside/socket").twin(Twin::Host),
        path("unix-home", "connects to a unix socket in the caller's home", "home/socket").twin(Twin::Host),
        path("unix-permissive", "connects to a unix socket of the host", "outside/socket")
            .profile("permissive")
            .twin(Twin::Host),
        path("unix-workspace", "connects to a unix socket of the host in the workspace", "ws/socket")
            .profile("moderate")
            .twin(Twin::Host),
        path("unix-read", "connects to a unix socket of the host where --read was given", "outside/socket")
            .flags(["--read", "{outside}"])
            .twin(Twin::Host),
        path(
            "unix-read-private",
            "connects to a unix socket where --read was given, without a workspace",
            "outside/socket",
        )
        .own_workspace()
        .flags(["--read", "{outside}"])
        .twin(Twin::Host),
        path("unix-two-paths", "connects to a unix socket in the workspace by its other path", "ws/socket")
            .profile("moderate")
            .shell("d=/workspace; test -d $d || d={W}; {probe} unix $d/socket {token}")
            .twin(Twin::Host),
        served("unix-relative", "connects to a unix socket that was bound by a relative path", |_| {}),
        served("unix-renamed", "connects to a unix socket that was moved after it was bound", |scene| {
            std::fs::rename(scene.path("ws/socket"), scene.path("ws/moved")).expect("rename the socket");
            scene.symlink("moved", "ws/socket");
        }),
        attempt("unix-abstract", "connects to an abstract socket of the host")
            .set_up(|scene| {
                Greeter::abstract_name(&scene.token, &scene.token);
                Props::default()
            })
            .probe(["abstract", "{token}", "{token}"])
            .twin(Twin::Host),
        attempt("unix-abstract-listed", "finds the abstract sockets of the host")
            .set_up(|scene| {
                Greeter::abstract_name(&scene.token, &scene.token);
                Props::default()
            })
            .probe(["scan-abstract", "{token}"])
            .twin(Twin::Host),
    ]
}

/// A socket that a process of the caller has bound in the workspace, by a relative path.
fn served(name: &str, what: &str, then: fn(&Scene)) -> Row {
    attempt(name, what)
        .profile("moderate")
        .set_up(move |scene| {
            let server = Victim::serve_unix(scene.identity, &scene.workspace(), "socket", &scene.token);
            then(scene);
            Props::default().keep(server)
        })
        .probe(["unix", "socket", "{token}"])
        .twin(Twin::Host)
}

/// A host program makes a socket in the workspace once the command runs; `attack` is tried when it is there.
fn later(name: &'static str, what: &'static str, serve: Serve, attack: fn(&Scene) -> String) -> Row {
    let script = move |scene: &Scene| {
        format!("touch started; until test -e listening; do sleep 0.01; done; {}", attack(scene))
    };
    // A socket's name is there before it listens: the command is told when it does.
    let serve = move |scene: &Scene| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !scene.path("ws/started").exists() {
            assert!(std::time::Instant::now() < deadline, "the command did not start");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let path = scene.path("ws/socket").to_string_lossy().into_owned();
        let server = serve(scene.identity, &scene.workspace(), &path, &scene.token);
        std::fs::write(scene.path("ws/listening"), "").expect("tell the command");
        server
    };
    let attacked = move |scene: &Scene, running: Running| {
        let _server = serve(scene);
        let outcome = running.wait();
        let held = outcome.output.contains("held:") && outcome.exit != 124;
        if held && !outcome.output.contains("escaped:") { Ok(()) } else { Err(outcome.describe()) }
    };
    let in_session = move |identity| {
        let scene = Scene::new(identity);
        let probe = Stage::get().probe_dir().display().to_string();
        let session = Session::create(&scene, ["--profile", "moderate", "--read", &probe]);
        crate::hostile::first_command(&session, name);
        let running = session.exec_test(&["--timeout", "60s"]).spawn(["bash", "-c", &script(&scene)]);
        attacked(&scene, running).map(|()| Shown::Yes("as it must".into()))
    };
    drill(
        name,
        what,
        InSession::Held(Rc::new(in_session)),
        move |identity| {
            let scene = Scene::new(identity);
            let test = Test::in_scene(&scene).profile("moderate").with_probe();
            attacked(&scene, test.args(["--timeout", "60s"]).spawn(["bash", "-c", &script(&scene)]))
        },
        move |identity| {
            let scene = Scene::new(identity);
            let line = ["bash".to_owned(), "-c".to_owned(), script(&scene)];
            let text = std::thread::scope(|scope| {
                let client = scope.spawn(|| crate::stdio::on_host(&scene, &line, |_| {}));
                let _server = serve(&scene);
                client.join().unwrap_or_default()
            });
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}

type Serve = fn(Identity, &std::path::Path, &str, &str) -> Victim;

fn laters() -> Vec<Row> {
    let probe = |scene: &Scene| format!("{} unix socket {}", Stage::get().probe.display(), scene.token);
    vec![
        later(
            "unix-later",
            "connects to a unix socket that the host makes in the workspace during the run",
            Victim::serve_unix,
            probe,
        ),
        later(
            "unix-later-absolute",
            "connects to such a socket by its absolute path and through a symlink",
            Victim::serve_unix,
            |scene| {
                let probe = Stage::get().probe.display();
                let (place, token) = (scene.workspace(), &scene.token);
                let place = place.display();
                format!(
                    "ln -s {place}/socket link; {probe} unix {place}/socket {token}; {probe} unix link {token}"
                )
            },
        ),
        later(
            "unix-later-swap",
            "swaps the address for such a socket's while a connect to a socket of the sandbox's own is looked at",
            Victim::serve_unix,
            |scene| python(include_str!("swap.py"), &scene.token),
        ),
        later(
            "unix-later-datagram",
            "sends a datagram to a socket that the host makes in the workspace during the run",
            Victim::serve_unix_datagram,
            |scene| python(include_str!("datagram.py"), &scene.token),
        ),
    ]
}

/// A script for `python3 -c`, with the token as its argument.
fn python(script: &str, token: &str) -> String {
    format!("python3 -c '{script}' {token}")
}

/// An address that is not loopback, in a network namespace made for this: `ringfence` runs inside it too.
fn other_network() -> Row {
    let script = |scene: &Scene, attempt: &str| {
        let probe = Stage::get().probe.display().to_string();
        format!(
            "set -e; ip link set lo up; ip link add rf0 type veth peer name rf1; ip addr add 10.99.7.1/24 dev rf0; \
             ip link set rf0 up; ip link set rf1 up; \
             {probe} tcp-serve 10.99.7.1:4242 {token} >ready & trap \"kill $!\" EXIT; \
             until grep -q ready ready 2>/dev/null; do sleep 0.01; done; {attempt}",
            token = scene.token,
        )
    };
    let run = move |scene: &Scene, attempt: String| {
        let user: &[&str] = match scene.identity {
            Identity::Root => &[],
            Identity::User => &["--user", "--map-current-user", "--keep-caps"],
        };
        let command = [&["unshare", "--net"], user, &["bash", "-c"]].concat();
        let command: Vec<String> =
            command.iter().map(|s| (*s).to_owned()).chain([script(scene, &attempt)]).collect();
        crate::stdio::on_host(scene, &command, |_| {})
    };
    let line = |scene: &Scene| format!("{} tcp 10.99.7.1:4242 {}", Stage::get().probe.display(), scene.token);
    drill(
        "other-network",
        "connects to an address of the host's network",
        "the network namespace is that of the rows beside it, which a session holds",
        move |identity| {
            let scene = Scene::new(identity);
            let stage = Stage::get();
            let daemon = ringfence_testing::provider_environment();
            let by_daemon = daemon.is_some();
            let text = run(
                &scene,
                format!(
                    "{} RINGFENCE_STATE_DIR={} {} run {} --profile restrictive --read {} -- {}",
                    daemon.map(|(name, value)| format!("{name}={value}")).unwrap_or_default(),
                    scene.state().display(),
                    stage.ringfence.display(),
                    ringfence_testing::provider_flags().join(" "),
                    stage.probe_dir().display(),
                    line(&scene)
                ),
            );
            // From a user namespace that is not the daemon's, the container can't be looked at: refused.
            let refused = by_daemon && text.contains("the container is not as it was asked for");
            let held = text.contains("held:") || (refused && identity == Identity::User);
            if held && !text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let text = run(&scene, line(&scene));
            if text.contains("escaped:") { Ok(()) } else { Err(text) }
        },
    )
}
