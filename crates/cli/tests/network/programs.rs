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
    program("curl http", "good.test", 80, "curl -sSf http://good.test/", "page of good.test"),
    program("curl https", "good.test", 443, "curl -sSf https://good.test/", "by HTTP/2.0"),
    program("curl 1.1", "good.test", 443, "curl -sSf --http1.1 https://good.test/", "by HTTP/1.1"),
    program("curl ipv4", "good.test", 443, "curl -4sSf https://good.test/", "page of good.test"),
    program(
        "curl ipv6",
        "good.test",
        443,
        "curl -6sSf --noproxy '*' https://good.test/",
        "page of good.test",
    ),
    program(
        "curl large",
        "good.test",
        443,
        "test $(curl -sSf https://good.test/big | wc -c) = 8388608 && echo whole",
        "whole",
    ),
    program(
        "curl idn",
        "xn--mnchen-3ya.test",
        80,
        "curl -sSf http://xn--mnchen-3ya.test/",
        "page of xn--mnchen",
    ),
    program(
        "curl h2c",
        "good.test",
        8082,
        "curl -sSf --noproxy '*' --http2-prior-knowledge http://good.test:8082/",
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
    // With TLS or not at all: a refused handshake must not be followed by one in clear that works.
    program(
        "psql",
        "db.test",
        5432,
        "PGSSLMODE=require psql -h db.test -U tester -d postgres -Atc 'select 6*7'",
        "42",
    ),
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
    program("websocket", "ws.test", 80, "{websocket} ws://ws.test/ws", "echo hi"),
    program("websocket tls", "ws.test", 443, "{websocket} wss://ws.test/ws", "echo hi"),
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
        "/usr/bin/python3 -c \"import socket; print(socket.create_connection(('2001:db8::22', 4242), 10).makefile().readline())\"",
        "welcome to 2001:db8::22",
    ),
];

/// Says `hi` to the address that it is given, and prints the answer.
const WEBSOCKET: &str = "/usr/bin/python3 -c \"
import asyncio, sys, websockets
async def main():
    async with websockets.connect(sys.argv[1]) as ws:
        await ws.send('hi'); print(await ws.recv())
asyncio.run(main())\"";

/// Whether programs see the variables that lead to the sandbox's own proxies.
#[derive(Clone, Copy, Debug)]
enum Way {
    Transparent,
    Proxied,
}

fn run(internet: &Internet, scene: &Scene, program: &Program, way: Way, rules: &[String]) -> Outcome {
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
        .replace("{websocket}", WEBSOCKET)
        .replace("{repository}", &Services::repository())
        .replace("{token}", &scene.token);
    let unset = if let Way::Transparent = way { crate::attempt::WITHOUT_PROXIES } else { "" };
    let granted = rules.iter().flat_map(|rule| ["--allow-host", rule]);
    let test = Test::in_scene(scene).with_probe().args(["--timeout", "30s"]).args(granted);
    internet.machine.within(|| test.run(["bash", "-c", &format!("{unset} {script}")]))
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
    for (program, way) in programs.iter().flat_map(|one| [(one, Way::Transparent), (one, Way::Proxied)]) {
        let name = format!("{} ({way:?})", program.name);
        let rule = format!("{}:{}", program.host, program.port);
        let outcome = run(internet, &scene(internet, identity, needs_ssh), program, way, &[rule]);
        if outcome.exit != 0 || !outcome.output.contains(program.expects) {
            failures.push(format!("{name}, granted\n{}", outcome.describe()));
        }
        if outcome.denials().iter().any(|denial| denial.kind == "network") {
            failures.push(format!("{name}, granted, and something was refused\n{}", outcome.describe()));
        }
        let other = || scene(internet, identity, needs_ssh);
        if let Err(why) = proposed(program, |rules| run(internet, &other(), program, way, rules)) {
            failures.push(format!("{name}, not granted: {why}"));
        }
    }
    assert!(failures.is_empty(), "{} failures as {identity:?}\n\n{}", failures.len(), failures.join("\n\n"));
}

/// Refused, and what the denial proposes is enough. A name that is refused before anybody knows its port may need another
/// one than the usual two: that is said, and the refusal after it has the port.
fn proposed(program: &Program, run: impl Fn(&[String]) -> Outcome) -> Result<(), String> {
    let mut rules = vec!["other.good.test:1".to_owned()];
    let mut outcome = run(&rules);
    for _ in 0..2 {
        let why = |why: String| format!("{why} (granted: {rules:?})\n{}", outcome.describe());
        let denial = refused(&outcome, program).map_err(why)?;
        let rule = denial["flag"].as_str().and_then(|flag| flag.strip_prefix("--allow-host "));
        let rule = rule.ok_or_else(|| why(format!("the denial names no flag: {denial}")))?.trim_matches('\'');
        if rules.iter().any(|had| had == rule) {
            return Err(why(format!("the denial proposes what is granted: {denial}")));
        }
        let has_port = rule.ends_with(&format!(":{}", program.port));
        let remedy = denial["remedy"].as_str().unwrap_or_default();
        let says_ports = remedy.contains("ports 80 and 443") && remedy.contains(&format!("`{rule}:PORT`"));
        if !has_port && !says_ports {
            return Err(why(format!("the denial does not say what the flag opens: {denial}")));
        }
        rules.push(rule.to_owned());
        outcome = run(&rules);
        if has_port || outcome.exit == 0 {
            break;
        }
    }
    if outcome.exit == 0 && outcome.output.contains(program.expects) {
        return Ok(());
    }
    Err(format!("what was proposed, {rules:?}, is not enough\n{}", outcome.describe()))
}

/// A program that waits for its own timeout, of ten seconds in most, was not refused but left hanging.
const FAST: u64 = 10_000;

/// It failed at once, and this is the denial that says why.
fn refused(outcome: &Outcome, program: &Program) -> Result<serde_json::Value, String> {
    if [0, 124, 125, 126, 127].contains(&outcome.exit) || outcome.output.contains(program.expects) {
        return Err(format!("it ended with {}", outcome.exit));
    }
    let took = outcome.json.as_ref().and_then(|json| json["duration_ms"].as_u64());
    if took.is_none_or(|took| took >= FAST) {
        return Err(format!("it took {took:?} ms to fail"));
    }
    let host = program.host.trim_matches(['[', ']']);
    let denials =
        outcome.json.as_ref().and_then(|json| json["denials"].as_array().cloned()).unwrap_or_default();
    let found = denials.iter().find(|denial| {
        denial["kind"] == "network" && denial["what"].as_str().is_some_and(|what| what.contains(host))
    });
    let denial = found.ok_or("no denial names the host")?.clone();
    if !denial["flag"].as_str().is_some_and(|flag| flag.contains("--allow-host") && flag.contains(host)) {
        return Err(format!("the denial names no flag: {denial}"));
    }
    if denial["rule"].as_str().is_none_or(str::is_empty) {
        return Err(format!("the denial names no rule: {denial}"));
    }
    Ok(denial)
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

/// Where TLS ends in egress, programs trust its authority by whatever way they look for one.
#[test]
fn clients_trust_the_authority() {
    let Some(internet) = Internet::get() else { return };
    services();
    let rule = |host: &str| {
        format!("[[network.http]]\nhost = \"{host}\"\nmethods = [\"GET\", \"POST\"]\npaths = [\"/\"]\n")
    };
    let policy = format!(
        "[network]\nmode = \"allow\"\nallow = [\"good.test:443\", \"git.test:443\", \"ws.test:443\"]\n\n{}{}{}",
        rule("good.test"),
        rule("git.test"),
        rule("ws.test")
    );
    let ends_in_egress = |program: &&Program| program.port == 443 && program.name != "git https push";
    let mut failures = Vec::new();
    for identity in Identity::all() {
        for program in WEB.iter().chain(SERVICES).filter(ends_in_egress) {
            let scene = Scene::new(identity);
            scene.write("policy.toml", &policy);
            let file = scene.path("policy.toml").display().to_string();
            // Without what the script sets itself.
            let script = program
                .script
                .replace("NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt ", "")
                .replace("{websocket}", WEBSOCKET);
            let test = Test::in_scene(&scene).args(["--timeout", "30s", "--policy", &file]);
            let outcome = internet.machine.within(|| test.run(["bash", "-c", &script]));
            if outcome.exit != 0 || !outcome.output.contains(program.expects) {
                failures.push(format!("{}\n{}", program.name, outcome.describe()));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n\n{}", failures.len(), failures.join("\n\n"));
}
