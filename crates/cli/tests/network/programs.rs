//! Unmodified programs, each where it is granted and where it is not. Granted, they work as on the machine itself. Not
//! granted, they fail at once with an ordinary error, and the result says what was refused, to whom, and what would
//! allow it.

use ringfence_testing::{Identity, Internet, Outcome, Scene, Services, Test};

struct Program {
    name: &'static str,
    /// What is granted, and what the denial names where it is not.
    host: &'static str,
    port: u16,
    script: &'static str,
    expects: &'static str,
}

const fn program(
    name: &'static str,
    host: &'static str,
    port: u16,
    script: &'static str,
    expects: &'static str,
) -> Program {
    Program { name, host, port, script, expects }
}

const WEB: &[Program] = &[
    program("curl http", "good.test", 80, "curl -sS http://good.test/", "page of good.test"),
    program("curl https", "good.test", 443, "curl -sS https://good.test/", "by HTTP/2.0"),
    program("curl 1.1", "good.test", 443, "curl -sS --http1.1 https://good.test/", "by HTTP/1.1"),
    program("curl ipv4", "good.test", 443, "curl -4sS https://good.test/", "page of good.test"),
    program("curl ipv6", "good.test", 443, "curl -6sS https://good.test/", "page of good.test"),
    program(
        "curl large",
        "good.test",
        443,
        "test $(curl -sS https://good.test/big | wc -c) = 8388608 && echo whole",
        "whole",
    ),
    program(
        "curl idn",
        "xn--mnchen-3ya.test",
        80,
        "curl -sS http://xn--mnchen-3ya.test/",
        "page of xn--mnchen",
    ),
    program(
        "curl h2c",
        "good.test",
        8082,
        "curl -sS --http2-prior-knowledge http://good.test:8082/",
        "by HTTP/2.0",
    ),
    program("wget", "good.test", 443, "wget -q -O- -t1 https://good.test/", "page of good.test"),
    program("busybox wget", "good.test", 80, "busybox wget -q -O- http://good.test/", "page of good.test"),
    program(
        "urllib",
        "good.test",
        443,
        "/usr/bin/python3 -c \"import urllib.request as r; print(r.urlopen('https://good.test/', timeout=10).read().decode())\"",
        "page of good.test",
    ),
    program(
        "requests",
        "good.test",
        443,
        "/usr/bin/python3 -c \"import requests; print(requests.get('https://good.test/', timeout=10).text)\"",
        "page of good.test",
    ),
    program(
        "asyncio",
        "good.test",
        443,
        "/usr/bin/python3 -c \"
import asyncio
async def main():
    reader, writer = await asyncio.open_connection('good.test', 443, ssl=True)
    writer.write(b'GET / HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n')
    print((await reader.read()).decode())
asyncio.run(main())\"",
        "page of good.test",
    ),
    program(
        "node fetch",
        "good.test",
        443,
        "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt node -e \"fetch('https://good.test/').then(r => r.text()).then(console.log, e => { console.error(e.cause); process.exit(1) })\"",
        "page of good.test",
    ),
    program(
        "static ipv4",
        "good.test",
        80,
        "{probe} http-get 4 good.test 80 / 'page of good.test'",
        "escaped: 198.18.",
    ),
    program(
        "static ipv6",
        "good.test",
        80,
        "{probe} http-get 6 good.test 80 / 'page of good.test'",
        "escaped: fd72:",
    ),
];

const SERVICES: &[Program] = &[
    program(
        "git https",
        "git.test",
        443,
        "git clone -q https://git.test/git/project.git got && cat got/hello.txt",
        "hello from git",
    ),
    program(
        "git https push",
        "git.test",
        443,
        "git clone -q https://git.test/git/project.git pushed && cd pushed && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more && git push -q origin HEAD:refs/heads/branch-$RANDOM && echo pushed",
        "pushed",
    ),
    program("ssh", "ssh.test", 22, "{ssh} rfserver@ssh.test echo from the server", "from the server"),
    program(
        "git ssh",
        "git.test",
        22,
        "GIT_SSH_COMMAND='{ssh}' git clone -q rfserver@git.test:{repository} got && cat got/hello.txt",
        "hello from git",
    ),
    program("psql", "db.test", 5432, "psql -h db.test -U tester -d postgres -Atc 'select 6*7'", "42"),
    program("redis-cli", "redis.test", 6379, "redis-cli -h redis.test ping", "PONG"),
    program(
        "smtplib",
        "mail.test",
        25,
        "/usr/bin/python3 -c \"
import smtplib
server = smtplib.SMTP('mail.test', 25, timeout=10)
server.sendmail('a@b', ['c@d'], 'Subject: x\\n\\n{token}')
print(server.quit())\"",
        "221",
    ),
    program(
        "server speaks first",
        "mail.test",
        25,
        "exec 3<>/dev/tcp/mail.test/25 && head -1 <&3",
        "220 mail.test",
    ),
    program(
        "websocket",
        "ws.test",
        80,
        "/usr/bin/python3 -c \"
import asyncio, websockets
async def main():
    async with websockets.connect('ws://ws.test/ws') as ws:
        await ws.send('hi'); print(await ws.recv())
asyncio.run(main())\"",
        "echo hi",
    ),
    program(
        "websocket tls",
        "ws.test",
        443,
        "/usr/bin/python3 -c \"
import asyncio, websockets
async def main():
    async with websockets.connect('wss://ws.test/ws') as ws:
        await ws.send('hi'); print(await ws.recv())
asyncio.run(main())\"",
        "echo hi",
    ),
    program(
        "literal",
        "192.0.2.22",
        4242,
        "exec 3<>/dev/tcp/192.0.2.22/4242 && head -1 <&3",
        "welcome to 192.0.2.22",
    ),
    program(
        "literal ipv6",
        "[2001:db8::22]",
        4242,
        "/usr/bin/python3 -c \"import socket; print(socket.create_connection(('2001:db8::22', 4242), 10).recv(99))\"",
        "welcome to 2001:db8::22",
    ),
];

fn run(internet: &Internet, scene: &Scene, program: &Program, flags: &[&str]) -> Outcome {
    let home = scene.workspace().display().to_string();
    let script = program
        .script
        .replace("{probe}", &ringfence_testing::Stage::get().probe.to_string_lossy())
        .replace(
            "{ssh}",
            &format!(
                "ssh -F none -o ConnectTimeout=10 -o UserKnownHostsFile={home}/known_hosts -i {home}/key"
            ),
        )
        .replace("{repository}", &Services::repository())
        .replace("{token}", &scene.token);
    let test = Test::in_scene(scene).with_probe().args(["--timeout", "30s"]).args(flags.iter().copied());
    internet.machine.within(|| test.run(["bash", "-c", &script]))
}

fn scene(internet: &Internet, identity: Identity, needs_ssh: bool) -> Scene {
    let scene = Scene::new(identity);
    if needs_ssh {
        let access = internet.services.ssh();
        scene.write("ws/key", &access.key);
        scene.write("ws/known_hosts", &format!("* {}\n", access.server_key));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(scene.path("ws/key"), mode).expect("chmod the key");
    }
    scene
}

/// Every failure at once: one line of a table must not hide the others.
fn all(programs: &[Program], identity: Identity, needs_ssh: bool) {
    let Some(internet) = Internet::get() else { return };
    if !identity.is_available() {
        return;
    }
    let mut failures = Vec::new();
    for program in programs {
        let rule = format!("{}:{}", program.host, program.port);
        let granted = scene(internet, identity, needs_ssh);
        let outcome = run(internet, &granted, program, &["--allow-host", &rule]);
        if outcome.exit != 0 || !outcome.output.contains(program.expects) {
            failures.push(format!("{}, granted\n{}", program.name, outcome.describe()));
        }
        let other = scene(internet, identity, needs_ssh);
        let outcome = run(internet, &other, program, &["--allow-host", "other.good.test:1"]);
        if let Err(why) = refused(&outcome, program) {
            failures.push(format!("{}, not granted: {why}\n{}", program.name, outcome.describe()));
        }
    }
    assert!(failures.is_empty(), "{} failures as {identity:?}\n\n{}", failures.len(), failures.join("\n\n"));
}

fn refused(outcome: &Outcome, program: &Program) -> Result<(), String> {
    if outcome.exit == 0
        || outcome.exit >= 124 && outcome.exit != 128
        || outcome.output.contains(program.expects)
    {
        return Err(format!("it ended with {}", outcome.exit));
    }
    let host = program.host.trim_matches(['[', ']']);
    let denials =
        outcome.json.as_ref().and_then(|json| json["denials"].as_array().cloned()).unwrap_or_default();
    let found = denials.iter().find(|denial| {
        denial["kind"] == "network" && denial["what"].as_str().is_some_and(|what| what.contains(host))
    });
    let denial = found.ok_or("no denial names the host")?;
    if !denial["flag"].as_str().is_some_and(|flag| flag.contains("--allow-host") && flag.contains(host)) {
        return Err(format!("the denial names no flag: {denial}"));
    }
    if denial["rule"].as_str().is_none_or(str::is_empty) {
        return Err(format!("the denial names no rule: {denial}"));
    }
    if denial["process"].as_str().is_none_or(str::is_empty) {
        return Err(format!("the denial names no process: {denial}"));
    }
    Ok(())
}

fn services() {
    if let Some(internet) = Internet::get() {
        internet.services.git();
        internet.services.postgres();
        internet.services.redis();
        internet.web.websocket();
    }
}

#[test]
fn web_clients_as_root() {
    all(WEB, Identity::Root, false);
}

#[test]
fn web_clients_as_user() {
    all(WEB, Identity::User, false);
}

#[test]
fn other_clients_as_root() {
    services();
    all(SERVICES, Identity::Root, true);
}

#[test]
fn other_clients_as_user() {
    services();
    all(SERVICES, Identity::User, true);
}

/// The port is part of the grant, and so is what a wildcard leaves out.
#[test]
fn rules_are_what_they_say() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let try_it = |flags: &[&str], script: &str| {
            let scene = Scene::new(identity);
            let test = Test::in_scene(&scene).args(["--timeout", "30s"]).args(flags.iter().copied());
            internet.machine.within(|| test.run(["bash", "-c", script]))
        };
        // Without a port: 80 and 443.
        for address in ["http://good.test/", "https://good.test/", "https://GOOD.test./"] {
            try_it(&["--allow-host", "good.test"], &format!("curl -sSf {address}")).code(0).no_denials();
        }
        try_it(&["--allow-host", "good.test"], "curl -sSf http://good.test:8080/").denial("good.test");
        try_it(&["--allow-host", "*.good.test"], "curl -sSf https://a.good.test/").code(0);
        try_it(&["--allow-host", "*.good.test"], "curl -sSf http://a.b.c.good.test/").code(0);
        try_it(&["--allow-host", "m\u{fc}nchen.test"], "curl -sSf http://xn--mnchen-3ya.test/").code(0);
        try_it(&["--allow-host", "by-hosts-file.test"], "curl -sSf http://by-hosts-file.test/").code(0);
        let private = ["--allow-host", "private-10.evil.test", "--allow-private", "10.1.2.0/24"];
        try_it(&private, "curl -sSf http://private-10.evil.test/").code(0).stdout_contains("at 10.1.2.3");
        try_it(&["--allow-host", "10.1.2.3:80"], "curl -sSf http://10.1.2.3/").code(0);
        let no_sni = ["--allow-host", "good.test", "--allow-no-sni", "good.test"];
        let handshake =
            "openssl s_client -connect good.test:443 -noservername </dev/null 2>&1 | grep -q 'BEGIN CERT'";
        try_it(&no_sni, handshake).code(0);
        let port = crate::addresses::loopback_server(internet).to_string();
        for loopback in ["127.0.0.1", "::1", "localhost"] {
            let script = format!(
                "/usr/bin/python3 -c \"import socket; print(socket.create_connection(('{loopback}', {port}), 5).recv(99))\""
            );
            try_it(&["--allow-local", &port], &script).code(0).stdout_contains("the machine itself");
        }
        try_it(&["--network", "open"], "curl -sSf https://good.test/ && curl -sSf http://192.0.2.66/")
            .code(0);
        try_it(&["--network", "open"], "curl -sSf6 https://good.test/ && curl -sSf 'http://[2001:db8::66]/'")
            .code(0);
    }
}

/// Programs inside keep their own ports: what egress listens on is none of theirs.
#[test]
fn programs_inside_speak_to_each_other() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let script = "cd /tmp && echo mine > index.html; /usr/bin/python3 -m http.server 8099 --bind 0.0.0.0 >/dev/null 2>&1 & \
                      for n in $(seq 100); do curl -s http://127.0.0.1:8099/index.html && break; sleep 0.05; done; \
                      curl -sSf https://good.test/; kill $!";
        let test =
            Test::in_scene(&scene).args(["--allow-host", "good.test", "--allow-host", "good.test:8099"]);
        let outcome = internet.machine.within(|| test.run(["bash", "-c", script]));
        outcome.stdout_contains("mine").stdout_contains("page of good.test");
    }
}

/// An HTTP client that is refused is told why, in words.
#[test]
fn a_refused_request_says_why() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let test = Test::in_scene(&scene).args(["--allow-host", "good.test"]);
        let script = "curl -s -w '%{http_code}\\n' -H 'Host: evil.test' http://good.test/; \
                      curl -s -w '%{http_code}\\n' -x http://198.18.0.2:3128 http://evil.test/; \
                      curl -sv -x http://198.18.0.2:3128 https://evil.test/ 2>&1 | grep '< HTTP'";
        let outcome = internet.machine.within(|| test.run(["bash", "-c", script]));
        let text = &outcome.output;
        assert_eq!(text.matches("403").count(), 3, "{}", outcome.describe());
        assert!(text.contains("--allow-host evil.test"), "{}", outcome.describe());
    }
}
