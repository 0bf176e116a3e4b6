//! What the result says of the network: connections and bytes for each process and name, what was tried, and the rules
//! that `--learn` finds.

use ringfence_testing::{Identity, Internet, Outcome, Scene, Server, Session, Test, eventually};
use serde_json::{Value, json};

fn each(flags: &[&str], script: &str, check: impl Fn(&Outcome)) {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let test = Test::in_scene(&scene).args(["--timeout", "40s"]).args(flags.iter().copied());
        check(&internet.machine.within(|| test.run(["bash", "-c", script])));
    }
}

fn connections(outcome: &Outcome) -> Vec<Value> {
    let json = outcome.json.as_ref().expect("a JSON object");
    json["network"]["connections"].as_array().cloned().unwrap_or_default()
}

#[test]
fn connections_are_counted_for_each_process_and_name() {
    each(
        &["--allow-host", "good.test", "--allow-host", "echo.test:4242"],
        "curl -sSf https://good.test/big -o /dev/null && for n in 1 2 3; do wget -qO- http://good.test/; done",
        |outcome| {
            outcome.code(0);
            let found = connections(outcome);
            let of = |process: &str, port: u16| {
                let same =
                    |c: &&Value| c["process"] == process && c["port"] == port && c["host"] == "good.test";
                found.iter().find(same).cloned().unwrap_or_else(|| panic!("{process}: {found:?}"))
            };
            let (curl, wget) = (of("curl", 443), of("wget", 80));
            assert_eq!(curl["count"], 1, "{curl}");
            assert!(curl["received"].as_u64().is_some_and(|bytes| bytes > 8 << 20), "{curl}");
            assert!(curl["sent"].as_u64().is_some_and(|bytes| bytes > 100), "{curl}");
            assert_eq!(wget["count"], 3, "{wget}");
            let address = curl["address"].as_str().unwrap_or_default();
            assert!(["192.0.2.10", "2001:db8::10"].contains(&address), "{curl}");
        },
    );
}

/// `run --stats`: the same for people, on stderr.
#[test]
fn stats_say_what_each_process_did() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let script = "set -e; curl -sSf https://good.test/big -o /dev/null; for n in 1 2 3; do wget -qO /dev/null http://good.test/; done; \
                      exec 3<>/dev/tcp/192.0.2.22/4242; head -1 <&3 >/dev/null; curl -s http://good.test:9/ -o /dev/null || true";
        let script = format!("{} {script}", crate::attempt::WITHOUT_PROXIES);
        let granted = ["good.test", "good.test:9", "192.0.2.22:4242"].map(|host| ["--allow-host", host]);
        let test =
            Test::in_scene(&scene).plain().args(["--timeout", "40s", "--stats"]).args(granted.as_flattened());
        let outcome = internet.machine.within(|| test.run(["bash", "-c", &script]));
        outcome.code(0).stdout("");
        let rows: Vec<Vec<&str>> = outcome.errors.lines().map(|line| line.split('\t').collect()).collect();
        let of = |first: &str, second: &str| {
            let row =
                rows.iter().find(|row| row[0] == first && (row.len() == 2 || row.get(1) == Some(&second)));
            row.unwrap_or_else(|| panic!("no row for {first} {second}\n{}", outcome.describe())).clone()
        };
        assert!(of("time", "")[1].ends_with(" ms") && of("memory", "")[1].ends_with('B'), "{rows:?}");
        // Process, host, way, connections, sent, received, errors.
        let curl = of("curl", "good.test:443");
        assert_eq!((curl[2], curl[3], curl[6]), ("direct", "1", "0"), "{curl:?}");
        assert!(curl[4].ends_with('B') && curl[5].starts_with("8.") && curl[5].ends_with(" MiB"), "{curl:?}");
        let wget = of("wget", "good.test:80");
        assert_eq!((wget[2], wget[3], wget[6]), ("direct", "3", "0"), "{wget:?}");
        assert_eq!(of("bash", "192.0.2.22:4242")[3], "1", "{rows:?}");
        assert_eq!(of("curl", "good.test:9")[6], "1", "{rows:?}");
    }
}

/// Where everything is granted everything is recorded: by name and by address, whichever way the program takes.
#[test]
fn an_open_network_records_every_connection() {
    let script = "curl -sSf https://good.test/ -o /dev/null; curl -sSf http://192.0.2.10/ -o /dev/null; \
                  curl -gsSf 'http://[2001:db8::10]/' -o /dev/null; exec 3<>/dev/tcp/192.0.2.22/4242; head -1 <&3; \
                  exec 3>&-; exec 3<>/dev/tcp/echo.test/4242; head -1 <&3; exec 3>&-";
    for unset in ["", crate::attempt::WITHOUT_PROXIES] {
        each(&["--network", "open"], &format!("set -e; {unset} {script}"), |outcome| {
            outcome.code(0).no_denials();
            let found = connections(outcome);
            for (process, host, port) in [
                ("curl", "good.test", 443),
                ("curl", "192.0.2.10", 80),
                ("curl", "2001:db8::10", 80),
                ("bash", "192.0.2.22", 4242),
                ("bash", "echo.test", 4242),
            ] {
                let same = |c: &&Value| c["process"] == process && c["host"] == host && c["port"] == port;
                let one = found.iter().find(same);
                let one = one.unwrap_or_else(|| panic!("{unset:?} {process} {host}:{port}: {found:#?}"));
                assert_eq!(one["count"], 1, "{one}");
                assert!(one["received"].as_u64().is_some_and(|bytes| bytes > 10), "{one}");
            }
            assert_eq!(found.len(), 5, "{found:#?}");
        });
    }
}

/// In a session each command has its own: what another one did at the same time, or before, is not among it. The session's
/// sums are right at once.
#[test]
fn a_command_of_a_session_has_the_connections_of_its_processes() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        internet.machine.within(|| {
            let session = Session::create(&scene, ["--allow-host", "good.test", "--allow-host", "api.test"]);
            let beside =
                session.detach(&[], "for n in $(seq 40); do curl -sSf http://api.test/ -o /dev/null; done");
            let first = session.sh(
                "(setsid curl -sSf https://good.test/big -o /dev/null) & wait; wget -qO- http://good.test/",
            );
            first.code(0);
            let found = connections(&first);
            assert!(found.iter().all(|connection| connection["host"] == "good.test"), "{found:#?}");
            let curl = found.iter().find(|connection| connection["process"] == "curl").expect("curl's");
            assert_eq!(curl["count"], 1, "{curl}");
            assert!(curl["received"].as_u64().is_some_and(|bytes| bytes > 8 << 20), "{curl}");
            let wget = found.iter().find(|connection| connection["process"] == "wget").expect("wget's");
            assert_eq!(wget["count"], 1, "{wget}");
            let _ = session.json("wait", &[&beside.to_string()]);
            let (mut before, mut sent) = (session.json("stats", &[])["connections"].as_u64().unwrap(), 0);
            assert_eq!(before, 42);
            for _ in 0..10 {
                let next = session.sh("curl -sSf http://good.test/ -o /dev/null");
                let found = connections(&next);
                assert_eq!(found.len(), 1, "{found:#?}");
                assert_eq!(found[0]["count"], 1, "{found:#?}");
                assert!(found[0]["received"].as_u64().is_some_and(|bytes| bytes > 100), "{found:#?}");
                let stats = session.json("stats", &[]);
                assert_eq!(stats["connections"], before + 1, "{stats}");
                assert!(stats["sent"].as_u64() > Some(sent), "{stats}");
                (before, sent) = (before + 1, stats["sent"].as_u64().unwrap());
            }
            let denied = session.sh("curl -s --max-time 5 https://evil.test/; true");
            let json = denied.json.as_ref().unwrap();
            assert!(json["network"]["tried"].to_string().contains("evil.test"), "{json}");
            let none = session.sh("true");
            assert_eq!(none.json.as_ref().unwrap()["network"], json!({ "connections": [], "tried": [] }));
        });
    }
}

/// Programs end their connections in many ways, some of them with a reset. What worked is not counted as an error.
#[test]
fn what_worked_has_no_errors() {
    let script = "for n in 1 2 3; do curl -sSf https://good.test/ https://good.test/; curl -sSf --http1.1 https://good.test/; \
                  curl -sSf http://good.test/big -o /dev/null; curl -sSf https://good.test/big -o /dev/null; \
                  wget -qO- https://good.test/; wget -qO- http://good.test/; exec 3<>/dev/tcp/echo.test/4242; head -1 <&3; \
                  exec 3>&-; /usr/bin/python3 -c \"import urllib.request as r; r.urlopen('https://good.test/', timeout=10).read()\"; done";
    let granted = ["--allow-host", "good.test", "--allow-host", "echo.test:4242"];
    for unset in ["", crate::attempt::WITHOUT_PROXIES] {
        each(&granted, &format!("{unset} {script}"), |outcome| {
            outcome.code(0).no_denials();
            let found = connections(outcome);
            assert!(found.len() >= 6, "{found:#?}");
            assert!(found.iter().all(|connection| connection["errors"] == 0), "{found:#?}");
        });
    }
    // A server that can't be reached is one.
    each(&["--allow-host", "good.test:9"], "curl -s --max-time 5 http://good.test:9/; true", |outcome| {
        let found = connections(outcome);
        assert!(found.iter().any(|connection| connection["errors"] == 1), "{found:#?}");
    });
}

/// One datagram, sent from a socket that is connected or not.
fn datagram(connected: bool, host: &str, port: u16) -> String {
    let send = match connected {
        true => "s.connect(to); s.send(b'x')",
        false => "s.sendto(b'x', to)",
    };
    format!(
        "/usr/bin/python3 -c \"import socket\nkind, _, _, _, to = socket.getaddrinfo('{host}', {port}, 0, socket.SOCK_DGRAM)[0]\n\
         s = socket.socket(kind, socket.SOCK_DGRAM)\ntry: {send}\nexcept OSError: pass\"; "
    )
}

fn denial(outcome: &Outcome, what: &str) -> Value {
    let json = outcome.json.as_ref().expect("a JSON object");
    let denials = json["denials"].as_array().cloned().unwrap_or_default();
    let found = denials.into_iter().find(|denial| denial["what"] == what);
    found.unwrap_or_else(|| panic!("no denial of {what}\n{}", outcome.describe()))
}

#[test]
fn a_refused_datagram_is_an_exact_denial() {
    let is_udp = |denial: &Value, process: Value| {
        assert!(
            denial["remedy"].as_str().is_some_and(|text| text.contains("UDP is not carried")),
            "{denial}"
        );
        assert_eq!(denial["flag"], Value::Null, "{denial}");
        assert_eq!(denial["process"], process, "{denial}");
    };
    // Where a way leads the kernel tells of what was sent, and the owner knows who connected.
    let script = datagram(true, "good.test", 443)
        + &datagram(true, "192.0.2.66", 4242)
        + &datagram(true, "2001:db8::66", 4242)
        + &datagram(false, "echo.test", 4242);
    each(&["--allow-host", "good.test", "--allow-host", "echo.test:4242"], &script, |outcome| {
        for what in ["good.test:443", "192.0.2.66:4242", "[2001:db8::66]:4242"] {
            is_udp(&denial(outcome, what), "python3".into());
        }
        is_udp(&denial(outcome, "echo.test:4242"), Value::Null);
        assert_eq!(outcome.denials().len(), 4, "{}", outcome.describe());
    });
    each(&["--network", "open"], &script, |outcome| {
        for what in ["good.test:443", "192.0.2.66:4242", "[2001:db8::66]:4242"] {
            is_udp(&denial(outcome, what), "python3".into());
        }
        is_udp(&denial(outcome, "echo.test:4242"), Value::Null);
    });
    // No call waits for the owner to be sent: where no way leads, what is not connected is only counted.
    let script = datagram(false, "192.0.2.66", 4242).repeat(2);
    each(&["--allow-host", "good.test"], &script, |outcome| {
        let denial = denial(outcome, "datagrams");
        is_udp(&denial, Value::Null);
        assert_eq!(denial["count"], 2, "{denial}");
    });
}

#[test]
fn a_datagram_where_there_is_no_network_says_so() {
    let script = datagram(true, "192.0.2.66", 4242) + &datagram(true, "192.0.2.53", 53);
    each(&[], &script, |outcome| {
        let first = denial(outcome, "192.0.2.66:4242");
        assert_eq!(first["rule"], "network.mode", "{first}");
        assert_eq!(first["flag"], "--allow-host 192.0.2.66:4242", "{first}");
        assert_eq!(first["process"], "python3", "{first}");
        let name_server = denial(outcome, "192.0.2.53:53");
        assert_eq!((&name_server["rule"], &name_server["flag"]), (&"network.mode".into(), &Value::Null));
        assert!(name_server["remedy"].as_str().is_some_and(|text| text.contains("`--allow-host NAME`")));
    });
}

/// Programs look which way addresses lie by connecting datagram sockets, and speak to each other by UDP.
#[test]
fn datagrams_that_stay_inside_are_no_denials() {
    let script = format!("{}{}{}", datagram(true, "127.0.0.1", 9), datagram(false, "127.0.0.1", 9), {
        "/usr/bin/python3 -c \"import socket; print(socket.getaddrinfo('good.test', 443))\"; curl -sSf https://good.test/"
    });
    each(&["--allow-host", "good.test"], &script, |outcome| {
        outcome.code(0).no_denials();
    });
}

#[test]
fn a_run_without_a_network_has_no_record() {
    each(&[], "true", |outcome| {
        let json = outcome.json.as_ref().unwrap();
        assert!(json.get("network").is_none_or(Value::is_null), "{}", json["network"]);
    });
}

#[test]
fn refusals_are_counted_once_each() {
    each(
        &["--allow-host", "good.test"],
        "for n in 1 2 3; do curl -s --max-time 5 https://evil.test/; done; true",
        |outcome| {
            outcome.code(0);
            let denials: Vec<_> =
                outcome.denials().into_iter().filter(|denial| denial.what.contains("evil.test")).collect();
            assert_eq!(denials.len(), 1, "{}", outcome.describe());
            assert!(denials[0].count >= 3, "{denials:?}");
        },
    );
}

/// Nothing more is granted, and the rules that come of it are the least that the program needs.
#[test]
fn learn_says_what_a_program_tried() {
    let script = "curl -s --max-time 5 https://evil.test/; curl -s --max-time 5 http://api.test:8080/; \
                  exec 3<>/dev/tcp/192.0.2.22/4242; curl -sf https://good.test/";
    each(&["--allow-host", "good.test", "--learn"], script, |outcome| {
        outcome.stdout_contains("page of good.test");
        let json = outcome.json.as_ref().unwrap().to_string();
        for rule in ["evil.test:443", "api.test:8080", "192.0.2.22:4242"] {
            assert!(json.contains(rule), "{rule} was not learnt: {}", outcome.describe());
        }
        assert!(!outcome.output.contains("page of evil.test"));
    });
}

/// A name that was only looked up needs no rule, but is worth knowing; ports are those that were tried, and no others.
#[test]
fn what_is_learnt_is_minimal() {
    let script = "getent hosts evil.test; getent hosts good.test; curl -s --max-time 5 http://api.test/; \
                  curl -s --max-time 5 https://api.test/; exec 3<>/dev/tcp/api.test/22; \
                  exec 3<>/dev/tcp/echo.test/4242; \
                  curl -s --max-time 5 -x http://198.18.0.2:3128 https://ws.test/; \
                  exec 3<>/dev/tcp/198.18.0.2/3128; printf 'GET / HTTP/1.1\r\nHost: a\r\n\r\n' >&3; cat <&3; \
                  curl -s --max-time 5 https://denied.good.test/; "
        .to_owned()
        + &datagram(true, "api.test", 9999)
        + &datagram(true, "192.0.2.66", 9999)
        + "true";
    let flags = ["--learn", "--allow-host", "good.test", "--deny-host", "denied.good.test"];
    each(&flags, &script, |outcome| {
        outcome.code(0);
        let learned = &outcome.json.as_ref().unwrap()["learned"];
        let flags = ["api.test", "api.test:22", "echo.test:4242", "ws.test:443"];
        let flags: Vec<Value> = flags.iter().map(|rule| format!("--allow-host {rule}").into()).collect();
        assert_eq!(learned["flags"], Value::Array(flags), "{learned:#}");
        assert_eq!(learned["looked_up"], serde_json::json!(["evil.test"]), "{learned:#}");
    });
}

#[test]
fn what_was_learnt_is_enough() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let script =
            "curl -sf --max-time 5 https://api.test/ && exec 3<>/dev/tcp/echo.test/4242 && head -1 <&3";
        let learn = Test::in_scene(&scene).plain().args(["--learn"]);
        // Each run finds what the one before it was stopped at.
        let mut flags: Vec<String> = Vec::new();
        let text = internet.machine.within(|| learn.run(["bash", "-c", script])).errors;
        flags.extend(learnt(&text));
        let again = Test::in_scene(&scene).plain().args(["--learn"]).args(flags.clone());
        flags.extend(learnt(&internet.machine.within(|| again.run(["bash", "-c", script])).errors));
        let last = Test::in_scene(&scene).args(flags.clone());
        let outcome = internet.machine.within(|| last.run(["bash", "-c", script]));
        outcome.code(0).stdout_contains("page of api.test").stdout_contains("welcome to").no_denials();
    }
}

/// The flags that a text proposes.
fn learnt(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let hosts = words
        .windows(2)
        .filter(|pair| pair[0] == "--allow-host")
        .map(|pair| pair[1].trim_matches(['`', '\'', ',']));
    hosts.flat_map(|host| ["--allow-host".to_owned(), host.to_owned()]).collect()
}

#[test]
fn bandwidth_is_bounded() {
    // 8 MiB at 4 MiB a second take at least a second, which the program inside measures itself.
    let script = "s=$(date +%s%N); curl -sSf http://good.test/big -o /dev/null; e=$(date +%s%N); echo $(( (e - s) / 1000000 ))";
    each(&["--allow-host", "good.test", "--bandwidth", "4M"], script, |outcome| {
        outcome.code(0);
        let took: u64 = outcome.output.trim().parse().expect("milliseconds");
        assert!(took >= 800, "8 MiB at 4 MiB/s took {took} ms");
    });
}

/// Runs what is between, and prints how many milliseconds it took.
fn timed(script: &str) -> String {
    format!("s=$(date +%s%N); {script}; e=$(date +%s%N); echo $(( (e - s) / 1000000 ))")
}

/// Only lower bounds: a machine with other work is slower, never faster.
#[test]
fn bandwidth_is_bounded_on_every_way() {
    let get = "curl -sSf http://good.test/big -o /dev/null";
    let by = |proxy: &str| format!("curl -sSf --noproxy '' -x {proxy} http://good.test/big -o /dev/null");
    // The server answers when it has all of it.
    let put = "curl -sSf --data-binary @up http://good.test/body -o /dev/null";
    for (way, script, least) in [
        ("down", get.to_owned(), 800),
        ("down through the HTTP proxy", by("http://198.18.0.2:3128"), 800),
        ("down through the SOCKS proxy", by("socks5h://198.18.0.2:1080"), 800),
        ("up", put.to_owned(), 800),
        (
            "up through the HTTP proxy",
            put.replace("curl", "curl --noproxy '' -x http://198.18.0.2:3128"),
            800,
        ),
        // They have one rate: both together take as long as one after the other.
        ("two at once", format!("{get} & {get} & wait"), 2400),
    ] {
        let unset = crate::attempt::WITHOUT_PROXIES;
        let script = format!("{unset} head -c 8388608 /dev/zero > up; {}", timed(&script));
        let flags = ["--allow-host", "good.test", "--bandwidth", "4M"];
        each(&flags, &script, |outcome| {
            outcome.code(0).no_denials();
            let last = outcome.output.lines().last().unwrap_or_default();
            let took: u64 = last.trim().parse().expect("milliseconds");
            assert!(took >= least, "{way}: it took {took} ms, less than {least}");
        });
    }
}

#[test]
fn the_receipt_names_the_clauses() {
    each(&["--allow-host", "good.test", "--connections", "9", "--bandwidth", "100M"], "true", |outcome| {
        outcome.code(0);
        outcome
            .clause("network", "enforced")
            .clause("limits.connections", "enforced")
            .clause("limits.bandwidth", "enforced");
    });
    // A profile's own, where there is a network.
    each(&["--allow-host", "good.test"], "true", |outcome| {
        outcome.code(0);
        outcome.clause("limits.connections", "enforced");
    });
}

/// What the sandboxes of a server sent and received is in its counts by host: each byte once, also after they have ended, and
/// nothing again of what another server counted.
#[test]
fn the_traffic_of_a_servers_sandboxes_is_in_its_metrics() {
    let Some(internet) = Internet::get() else { return };
    let scene = Scene::new(Identity::Root);
    internet.machine.within(|| {
        let mut server = Server::start(&scene, [] as [&str; 0]);
        let admin = server.key("root", "admin");
        let count = |server: &Server<'_>, name: &str| -> u64 {
            let text = server.ask(Some(&admin), "GET", "/v1/metrics", None).status(200).body;
            let text = String::from_utf8(text).expect("text");
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
            line.trim().parse().expect("a number")
        };
        let connections = "ringfence_connections_total{host=\"good.test\"}";
        let received = "ringfence_network_bytes_total{direction=\"in\",host=\"good.test\"}";
        let wanted = json!({ "policy": { "network": { "mode": "allow", "allow": ["good.test"] } } });
        let made = server.ask(Some(&admin), "POST", "/v1/sandboxes", Some(&wanted)).status(201).json();
        let at = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
        let exec = format!("{at}/exec");
        let fetch = |server: &Server<'_>, times: usize| {
            let script = "for n in $(seq $0); do curl -sSf http://good.test/big -o /dev/null || exit 1; done";
            let body = json!({ "command": ["bash", "-c", script, times.to_string()] });
            let done = server.ask(Some(&admin), "POST", &exec, Some(&body)).status(200).json();
            assert_eq!(done["exit_code"], 0, "{done}");
        };
        assert_eq!(count(&server, connections), 0);
        fetch(&server, 2);
        // Egress tells of a connection's end when it has seen it.
        eventually("both are counted", || count(&server, received) > 16 << 20);
        assert_eq!(count(&server, connections), 2);
        assert_eq!(count(&server, connections), 2, "it was counted twice");
        server.kill();
        let server = Server::start(&scene, [] as [&str; 0]);
        assert_eq!(count(&server, connections), 0, "what the other server counted");
        fetch(&server, 1);
        // Deleted before anybody looked.
        let _ = server.ask(Some(&admin), "DELETE", &at, None).status(204);
        assert_eq!(count(&server, connections), 1);
        assert!(count(&server, received) > 8 << 20);
        drop(server);
    });
}
