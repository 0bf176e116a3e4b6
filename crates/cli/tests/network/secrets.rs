//! Secrets that never enter: the value is planted outside, the whole sandbox is searched for it while it is used, and the
//! server did get it.

use std::fs;

use ringfence_testing::{Identity, Internet, Keyring, Outcome, Scene, Server, Session, Test};
use serde_json::json;

use crate::death::egress_of;

/// A value that occurs nowhere else.
fn planted(scene: &Scene) -> String {
    format!("sEcReT-{}", scene.token)
}

fn each(check: impl Fn(&Internet, &Scene, &str)) {
    each_of(&Identity::all(), check);
}

fn each_of(identities: &[Identity], check: impl Fn(&Internet, &Scene, &str)) {
    let Some(internet) = Internet::get() else { return };
    for &identity in identities {
        let scene = Scene::new(identity);
        let value = planted(&scene);
        check(internet, &scene, &value);
    }
}

/// `API_TOKEN` for good.test, from the caller's environment.
fn with_secret(scene: &Scene, value: &str) -> Test {
    Test::in_scene(scene)
        .args([
            "--timeout",
            "40s",
            "--allow-host",
            "good.test",
            "--allow-host",
            "api.test",
            "--allow-host",
            "echo.test:4242",
        ])
        .args(["--secret", "API_TOKEN=env:API_TOKEN@good.test"])
        .env("API_TOKEN", value)
}

fn run(internet: &Internet, test: Test, script: &str) -> Outcome {
    internet.machine.within(|| test.run(["bash", "-c", script]))
}

/// Nothing that came back, and nothing that was written on the way, holds the value.
fn is_nowhere(scene: &Scene, outcome: &Outcome, value: &str) {
    let everything = format!(
        "{}{}{}",
        outcome.output,
        outcome.errors,
        outcome.json.as_ref().map_or(String::new(), ToString::to_string)
    );
    assert!(!everything.contains(value), "the value is in the result");
    let mut found = Vec::new();
    search(scene.root(), value.as_bytes(), &mut found);
    assert!(found.is_empty(), "the value is in {found:?}");
}

fn search(dir: &std::path::Path, value: &[u8], found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => search(&path, value, found),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                if bytes.windows(value.len()).any(|window| window == value) {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn the_server_gets_it_and_the_sandbox_does_not() {
    each(|internet, scene, value| {
        let script = "test -n \"$API_TOKEN\" || exit 9; echo inside: $API_TOKEN; \
             curl -sSf -H \"X-Token: $API_TOKEN\" -H \"Authorization: Bearer $API_TOKEN\" https://good.test/first; \
             curl -sSf --http1.1 -u \"user:$API_TOKEN\" https://good.test/basic";
        let outcome = run(internet, with_secret(scene, value), script);
        outcome.code(0).no_denials();
        is_nowhere(scene, &outcome, value);
        let requests = internet.web.requests();
        let of = |uri: &str| {
            requests.iter().rev().find(|request| request["uri"] == uri).cloned().expect("a request")
        };
        assert_eq!(of("/first")["token"], value);
        assert_eq!(of("/first")["authorization"], format!("Bearer {value}"));
        let basic = base64(&format!("user:{value}"));
        assert_eq!(of("/basic")["authorization"], format!("Basic {basic}"));
    });
}

#[test]
fn what_the_server_echoes_is_masked() {
    each(|internet, scene, value| {
        let script = "curl -sSf -i -H \"X-Token: $API_TOKEN\" https://good.test/echo; \
                      curl -sSf --http1.1 -i -H \"X-Token: $API_TOKEN\" https://good.test/echo; echo placeholder $API_TOKEN";
        let outcome = run(internet, with_secret(scene, value), script);
        outcome.code(0);
        is_nowhere(scene, &outcome, value);
        let placeholder = outcome.output.rsplit("placeholder ").next().unwrap_or_default().trim().to_owned();
        assert!(!placeholder.is_empty());
        // In the body and in the header, of both requests.
        assert!(outcome.output.matches(&placeholder).count() >= 5, "{}", outcome.describe());
    });
}

/// Other granted hosts, other ports, clear text and other protocols see the placeholder, and nothing else.
#[test]
fn nobody_else_gets_it() {
    each(|internet, scene, value| {
        let script = "curl -sS -H \"X-Token: $API_TOKEN\" https://api.test/other-host; \
             curl -sS -H \"X-Token: $API_TOKEN\" http://good.test/in-clear; \
             curl -sS --max-time 5 -H \"X-Token: $API_TOKEN\" -H 'Host: api.test' https://good.test/other-vhost; \
             exec 3<>/dev/tcp/echo.test/4242; echo $API_TOKEN >&3; head -2 <&3; true";
        let outcome = run(internet, with_secret(scene, value), script);
        outcome.code(0);
        is_nowhere(scene, &outcome, value);
        let requests = internet.web.requests();
        let told =
            |uri: &str| requests.iter().any(|request| request["uri"] == uri && request["token"] == value);
        for uri in ["/other-host", "/in-clear", "/other-vhost"] {
            assert!(!told(uri), "{uri} got the value");
        }
        assert!(!internet.recorder.heard(value));
    });
}

/// Every process inside, their environments, all their memory and every file, while the process that used the secret lives,
/// with its connection and all that it sent and read.
#[test]
fn it_is_nowhere_inside() {
    check_inside(&Identity::all());
}

pub(crate) fn check_inside(identities: &[Identity]) {
    each_of(identities, |internet, scene, value| {
        let script = format!("sleep 30 & {}{}", client("os.environ[\"API_TOKEN\"]"), searching(value));
        let outcome = run(internet, with_secret(scene, value), &script);
        outcome.code(0).stdout_contains("searched").stdout_contains("read client");
        assert!(!outcome.output.contains("FOUND"), "{}", outcome.describe());
        is_nowhere(scene, &outcome, value);
        let got = internet.web.requests().iter().any(|request| request["token"] == value);
        assert!(got, "the server did not get it");
        // The twin: a client that has the value only in its heap is found by the same search, there and nowhere else.
        let (first, second) = value.split_at(value.len() / 2);
        let script =
            format!("{}{}", client(&format!("\"\".join([\"{first}\", \"{second}\"])")), searching(value));
        let test = Test::in_scene(scene).args(["--timeout", "40s", "--allow-host", "good.test"]);
        let outcome = run(internet, test, &script);
        outcome.code(0).stdout_contains("read client").stdout_contains("FOUND client memory");
        let elsewhere = |line: &&str| line.starts_with("FOUND") && !line.starts_with("FOUND client memory");
        assert!(!outcome.output.lines().any(|line| elsewhere(&line)), "{}", outcome.describe());
    });
}

/// Starts a client that sends a token, given as an expression, gets it back, and keeps everything; goes on when it has it.
fn client(token: &str) -> String {
    format!(
        "rm -f client; /usr/bin/python3 - >client.log 2>&1 <<'EOF' &\n{CLIENT}\nEOF\n\
         for n in $(seq 150); do test -s client && break; sleep 0.1; done; test -s client || {{ cat client.log; exit 8; }}\n"
    )
    .replace("{token}", token)
}

const CLIENT: &str = r#"
import ctypes, http.client, os, time
# Where Yama lets only parents look, this one lets anybody.
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
token = {token}
server = http.client.HTTPSConnection("good.test", timeout=20)
server.request("GET", "/echo", headers={"X-Token": token})
answer = server.getresponse()
body = answer.read()
assert token.encode() in body, body
with open("client.new", "w") as file: file.write(str(os.getpid()))
os.rename("client.new", "client")
time.sleep(60)
"#;

/// The searcher must not hold what it looks for, so it gets it in two halves.
fn searching(value: &str) -> String {
    let (first, second) = value.split_at(value.len() / 2);
    format!("/usr/bin/python3 - <<'EOF'\n{SEARCH}\nEOF\n")
        .replace("{first}", first)
        .replace("{second}", second)
}

/// In a session the placeholder is used by one command after the other, what they leave is kept in logs and snapshots, and
/// the keeper lives as long: none of it has the value, but egress.
#[test]
fn it_is_nowhere_in_a_session_its_logs_and_its_snapshots() {
    each(|internet, scene, value| {
        let session = Session::named(scene);
        let workspace = scene.workspace().display().to_string();
        let made = session
            .make(["--workspace", &workspace, "--allow-host", "good.test"])
            .args(["--secret", "API_TOKEN=env:API_TOKEN@good.test"])
            .env("API_TOKEN", value);
        internet.machine.within(|| made.call()).code(0);
        let uri = format!("/session-{}", scene.token);
        let script = format!(
            "env > variables; curl -sSf -i -H \"X-Token: $API_TOKEN\" https://good.test/echo | tee got; \
             curl -sSf -H \"X-Token: $API_TOKEN\" https://good.test{uri} -o more; cp got \"$HOME\"/got"
        );
        let outcomes =
            [session.sh(&script), session.exec(["bash", "-c", &format!("sleep 60 & {}", searching(value))])];
        outcomes[0].code(0);
        outcomes[1].code(0).stdout_contains("searched");
        assert!(!outcomes[1].output.contains("FOUND"), "{}", outcomes[1].describe());
        let process = session.detach(&[], &format!("{script}; env; cat got; sleep 60"));
        ringfence_testing::eventually("it is in the log", || {
            session.call("logs", &[process.to_string()]).output.contains("API_TOKEN=")
        });
        session.call("snapshot", &["--name", "with-it"]).code(0);
        session.call("diff", &["--since", "with-it"]).code(0);
        let archive = scene.path("exported.tar").display().to_string();
        let export = ["snapshot", "export", "with-it", &archive];
        let exported = Test::in_scene(scene).verb(export).call();
        exported.code(0);
        // Processes, seen from outside: all but egress.
        let keeper = session.keeper();
        let below = below(keeper);
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let egress: Vec<u32> =
            below.iter().copied().filter(|pid| namespace(*pid) == namespace(keeper)).collect();
        assert_eq!(egress.len(), 1, "{below:?}");
        assert!(holds(egress[0], value), "the search finds it where it is");
        assert!(below.len() > 4, "{below:?}");
        for pid in below.iter().chain([&keeper]).filter(|pid| **pid != egress[0]) {
            assert!(
                !holds(*pid, value),
                "process {pid} ({:?}) has it",
                fs::read_to_string(format!("/proc/{pid}/comm"))
            );
        }
        let inspected = session.call("inspect", &["--json"]);
        let logs = session.call("logs", &[process.to_string()]);
        for outcome in outcomes.iter().chain([&inspected, &logs, &exported]) {
            is_nowhere(scene, outcome, value);
        }
        // The server did get it, each time.
        let requests = internet.web.requests();
        let got =
            requests.iter().filter(|request| request["uri"] == uri.as_str() && request["token"] == value);
        assert!(got.count() >= 2, "the server did not get it");
        // The twin: what is planted in the workspace is found, in the session, in its log and in its snapshot.
        fs::write(scene.path("ws/planted"), value).unwrap();
        scene.identity.own(&scene.path("ws/planted"));
        session.exec(["bash", "-c", &searching(value)]).stdout_contains("FOUND");
        let twin = session.detach(&[], "cat planted");
        session.call("wait", &[twin.to_string()]).code(0);
        session.call("snapshot", &["--name", "planted"]).code(0);
        fs::remove_file(scene.path("ws/planted")).unwrap();
        let mut found = Vec::new();
        search(scene.root(), value.as_bytes(), &mut found);
        for part in ["/snapshots/objects/", "/logs/"] {
            let is_there = found.iter().any(|path| path.to_string_lossy().contains(part));
            assert!(is_there, "the search does not see {part}: {found:?}");
        }
        session.remove();
    });
}

/// A server writes down what it is asked and what came of it: not the value of a variable that it could be asked for.
#[test]
fn it_is_in_no_audit() {
    let Some(internet) = Internet::get() else { return };
    let scene = Scene::new(Identity::Root);
    let value = &*planted(&scene);
    let secret = json!([{ "name": "API_TOKEN", "from": "env:API_TOKEN", "hosts": ["good.test"] }]);
    let network = json!({ "mode": "allow", "allow": ["good.test"], "secrets": secret });
    let policy = "[roles.admin.ceiling]\nprofile = 'moderate'\n[roles.admin.ceiling.network]\nmode = 'allow'\n\
         allow = ['good.test']\n[[roles.admin.ceiling.network.secrets]]\nname = 'API_TOKEN'\nfrom = 'env:API_TOKEN'\n\
         hosts = ['good.test']\n[[actions.rules]]\nthen = 'allow'\n";
    scene.write("server.toml", policy);
    let config = scene.path("server.toml").display().to_string();
    let uri = format!("/served-{}", scene.token);
    internet.machine.within(|| {
        let server = Server::start_with(&scene, ["--config", &config], &[("API_TOKEN", value)]);
        let admin = server.key("root", "admin");
        let script =
            format!("curl -sSf -H \"X-Token: $API_TOKEN\" https://good.test/echo https://good.test{uri}");
        let body = json!({ "command": ["bash", "-c", script], "policy": { "network": network } });
        let done = server.ask(Some(&admin), "POST", "/v1/run", Some(&body)).status(200).json();
        assert_eq!(done["exit_code"], 0, "{done}");
        assert!(!done.to_string().contains(value), "the answer has it");
        // A word that is planted as an argument is found by the same search.
        let twin = json!({ "command": ["echo", format!("planted-{}", scene.token)] });
        let _ = server.ask(Some(&admin), "POST", "/v1/run", Some(&twin)).status(200);
        let said = server.stop();
        assert!(!format!("{}{}", said.output, said.errors).contains(value), "the server's log has it");
    });
    let got = internet
        .web
        .requests()
        .iter()
        .any(|request| request["uri"] == uri.as_str() && request["token"] == value);
    assert!(got, "the server did not get it");
    let audit = Test::in_scene(&scene).verb(["audit", "export"]).call();
    audit.code(0).stdout_contains(&format!("planted-{}", scene.token));
    is_nowhere(&scene, &audit, value);
}

/// Says of each process whether its memory could be read: guard can't be looked into.
const SEARCH: &str = r#"
import os
needle = "".join(["{first}", "{second}"]).encode()
mine, count, PART, MOST = str(os.getpid()), 0, 16 << 20, 1 << 30
client = open("client").read() if os.path.exists("client") else None

def found(memory, low, high):
    """How much of a map could be read, and whether it is there."""
    end, at = b"", low
    while at < min(high, low + MOST):
        memory.seek(at)
        part = memory.read(min(PART, high - at))
        if not part: break
        if needle in end + part: return at - low, True
        end, at = part[-len(needle):], at + len(part)
    return at - low, False

for pid in filter(str.isdigit, os.listdir("/proc")):
    who = "client" if pid == client else pid
    for name in ("environ", "cmdline"):
        try:
            if needle in open("/proc/%s/%s" % (pid, name), "rb").read(): print("FOUND", who, name)
            count += 1
        except OSError: pass
    if pid == mine: continue
    size, unread = 0, []
    try:
        maps, memory = open("/proc/%s/maps" % pid), open("/proc/%s/mem" % pid, "rb", buffering=0)
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            try:
                length, is_there = found(memory, low, high)
                if is_there: print("FOUND", who, "memory", line.strip())
                size += length
                count += 1
            except (OSError, ValueError, OverflowError): unread.append(line.split()[-1])
    except OSError as why: print("unread", who, why)
    # The heap of a Python is larger than this, and what the kernel shows nobody is not memory of the program's.
    anonymous = [name for name in unread if not name.startswith(("/", "[v"))]
    if size > 4 << 20 and not anonymous: print("read", who, size, unread)
    else: print("unread", who, size, unread)
for root in ("/etc", "/run", "/tmp", "/dev/shm", "/var/tmp", os.environ["HOME"], os.getcwd()):
    for directory, _, files in os.walk(root):
        for name in files:
            path = os.path.join(directory, name)
            try:
                if os.path.isfile(path) and needle in open(path, "rb").read(): print("FOUND", path)
                count += 1
            except OSError: pass
print("searched", count)
"#;

/// Outside, only egress knows it: not the owner, which passes the caller's environment on, and not guard.
#[test]
fn the_owner_and_guard_do_not_have_it() {
    check_outside(&Identity::all());
}

pub(crate) fn check_outside(identities: &[Identity]) {
    each_of(identities, |internet, scene, value| {
        scene.write("token", value);
        let file = format!("API_TOKEN=file:{}@good.test", scene.path("token").display());
        let test = Test::in_scene(scene).plain().args(["--allow-host", "good.test", "--secret", &file]);
        let script = "curl -sSf -H \"X-Token: $API_TOKEN\" https://good.test/file-secret >/dev/null; touch used; sleep 60";
        let running = internet.machine.within(|| test.spawn(["bash", "-c", script]));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !scene.path("ws/used").exists() {
            assert!(std::time::Instant::now() < deadline, "the command did not start");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let (owner, below) = (running.pid(), below(running.pid()));
        let egress = egress_of(owner);
        assert_eq!(egress.len(), 1, "{below:?}");
        assert!(holds(egress[0], value), "the search finds it where it is");
        for pid in below.iter().chain([&owner]).filter(|pid| **pid != egress[0]) {
            assert!(
                !holds(*pid, value),
                "process {pid} ({:?}) has it",
                fs::read_to_string(format!("/proc/{pid}/comm"))
            );
        }
        let used = internet
            .web
            .requests()
            .iter()
            .any(|request| request["uri"] == "/file-secret" && request["token"] == value);
        assert!(used);
        // Nor can the caller's own other processes read it out of egress, nor a core dump: what can't be dumped belongs to
        // root, whoever runs it.
        assert_ne!(runs_as(egress[0]), 0, "egress is root");
        assert_eq!(belongs_to(egress[0]), (0, 0), "egress can be dumped");
        if scene.identity == Identity::User {
            let can_be_dumped = |pid: &&u32| runs_as(**pid) != 0 && belongs_to(**pid).0 == runs_as(**pid);
            assert!(below.iter().any(|pid| can_be_dumped(&pid)), "the same is said of every process");
        }
        let limits = fs::read_to_string(format!("/proc/{}/limits", egress[0])).unwrap_or_default();
        assert!(
            limits.lines().any(|line| line.starts_with("Max core file size") && line.contains(" 0 ")),
            "{limits}"
        );
    });
}

/// Its effective user.
fn runs_as(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("its users");
    line.split_whitespace().nth(1).and_then(|uid| uid.parse().ok()).expect("an effective user")
}

/// Who may open what `/proc` has of it.
fn belongs_to(pid: u32) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let environ = fs::metadata(format!("/proc/{pid}/environ")).expect("its environment");
    (environ.uid(), environ.gid())
}

fn below(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let own: Vec<u32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    own.iter().flat_map(|&child| std::iter::once(child).chain(below(child))).collect()
}

/// Whether the memory, environment or arguments of a process hold these words. The tests are root.
fn holds(pid: u32, words: &str) -> bool {
    use std::os::unix::fs::FileExt;
    let contains = |bytes: &[u8]| bytes.windows(words.len()).any(|window| window == words.as_bytes());
    if ["environ", "cmdline"]
        .iter()
        .any(|name| fs::read(format!("/proc/{pid}/{name}")).is_ok_and(|bytes| contains(&bytes)))
    {
        return true;
    }
    let (Ok(maps), Ok(memory)) =
        (fs::read_to_string(format!("/proc/{pid}/maps")), fs::File::open(format!("/proc/{pid}/mem")))
    else {
        return false;
    };
    maps.lines().any(|line| {
        let Some((low, high)) = line.split(' ').next().and_then(|range| range.split_once('-')) else {
            return false;
        };
        let (Ok(low), Ok(high)) = (u64::from_str_radix(low, 16), u64::from_str_radix(high, 16)) else {
            return false;
        };
        let writable = line.split(' ').nth(1).is_some_and(|flags| flags.starts_with("rw"));
        let mut bytes = vec![0; usize::try_from(high - low).unwrap_or(0).min(64 << 20)];
        writable && memory.read_at(&mut bytes, low).is_ok_and(|length| contains(&bytes[..length]))
    })
}

/// Use `API_TOKEN` from this source once: the server gets the value.
fn arrives(internet: &Internet, scene: &Scene, source: &str, value: &str) -> Outcome {
    let (secret, uri) =
        (format!("API_TOKEN={source}@good.test"), format!("/{}-{}", source.len(), scene.token));
    let test = Test::in_scene(scene).args(["--allow-host", "good.test", "--secret", &secret]);
    let script = format!("curl -sSf -H \"X-Token: $API_TOKEN\" https://good.test{uri} >/dev/null");
    let outcome = run(internet, test, &script);
    outcome.code(0);
    let requests = internet.web.requests();
    let request = requests.iter().find(|request| request["uri"] == uri.as_str());
    assert_eq!(request.map(|request| request["token"].clone()), Some(value.into()), "{source}");
    outcome
}

#[test]
fn every_source_works() {
    each(|internet, scene, value| {
        scene.write("token", value);
        let path = scene.path("token").display().to_string();
        arrives(internet, scene, &format!("file:{path}"), value);
        arrives(internet, scene, &format!("cmd:cat {path}"), value);
        let ringfence = |words: &[&str], input: &str| {
            let test = Test::in_scene(scene).verb(words.iter().copied()).stdin(input);
            internet.machine.within(|| test.call())
        };
        ringfence(&["secret", "set", "STORED", "--from-stdin"], value).code(0);
        ringfence(&["secret", "ls"], "").code(0).stdout_contains("STORED");
        fs::remove_file(scene.path("token")).unwrap();
        let outcome = arrives(internet, scene, "store:STORED", value);
        // At rest it is sealed.
        is_nowhere(scene, &outcome, value);
        ringfence(&["secret", "rm", "STORED"], "").code(0);
        let secret = ["--secret", "API_TOKEN=store:STORED@good.test"];
        let test = Test::in_scene(scene).args(["--allow-host", "good.test"]).args(secret);
        run(internet, test, "true").refused("STORED");
    });
}

/// The key of the store is in a real keyring: nothing on disk opens what is stored, and without the keyring nothing does.
#[test]
fn a_stored_secret_is_opened_with_the_keyrings_key_and_not_without_it() {
    let Some(internet) = Internet::get() else { return };
    // A message bus wants its user to have a name, which the tests' ordinary one has not.
    let scene = &Scene::new(Identity::Root);
    let value = &*planted(scene);
    let Some(keyring) = Keyring::start(scene) else { return };
    let with_keyring =
        |test: Test| keyring.environment.iter().fold(test, |test, (name, value)| test.env(name, value));
    let call = |words: &[&str], input: &str| {
        let test = with_keyring(Test::in_scene(scene).verb(words.iter().copied()).stdin(input));
        internet.machine.within(|| test.call())
    };
    let stored = call(&["secret", "set", "STORED", "--from-stdin"], value);
    stored.code(0).stdout_contains("the desktop's keyring");
    call(&["secret", "ls", "--json"], "").code(0).stdout_contains("\"keyring\"");
    assert!(!scene.state().join("secrets/secrets.key").exists(), "the key is in a file too");
    let uri = format!("/keyring-{}", scene.token);
    let flags = ["--allow-host", "good.test", "--secret", "API_TOKEN=store:STORED@good.test"];
    let script = format!("curl -sSf -H \"X-Token: $API_TOKEN\" https://good.test{uri} >/dev/null");
    let outcome = run(internet, with_keyring(Test::in_scene(scene).args(flags)), &script);
    outcome.code(0);
    is_nowhere(scene, &outcome, value);
    let requests = internet.web.requests();
    let request = requests.iter().find(|request| request["uri"] == uri.as_str());
    assert_eq!(request.map(|request| request["token"].clone()), Some(value.into()));
    // Another caller of the same state directory has the sealed value only.
    run(internet, Test::in_scene(scene).args(flags), "true").refused("keyring");
    // As has one whose keyring is gone.
    let environment = keyring.environment.clone();
    drop(keyring);
    let test = environment
        .iter()
        .fold(Test::in_scene(scene).args(flags), |test, (name, value)| test.env(name, value));
    run(internet, test, "true").refused("unlock the keyring");
}

#[test]
fn a_secret_for_a_host_that_is_not_granted_is_refused() {
    each(|internet, scene, value| {
        let secret = ["--secret", "API_TOKEN=env:API_TOKEN@good.test"];
        let outcome = run(internet, Test::in_scene(scene).args(secret).env("API_TOKEN", value), "true");
        outcome.refused("--allow-host");
        is_nowhere(scene, &outcome, value);
        // As is one that has no value.
        let test = Test::in_scene(scene).args(["--allow-host", "good.test"]).args(secret);
        run(internet, test, "true").refused("API_TOKEN");
    });
}

/// Bodies are searched where the rule says so, and only there.
#[test]
fn bodies_are_swapped_where_asked_for() {
    each(|internet, scene, value| {
        for body in [true, false] {
            let policy = format!(
                "[network]\nmode = \"allow\"\nallow = [\"good.test\"]\n\n[[network.secrets]]\nname = \"API_TOKEN\"\n\
                 from = \"env:API_TOKEN\"\nhosts = [\"good.test\"]\nbody = {body}\n"
            );
            scene.write("policy.toml", &policy);
            let file = scene.path("policy.toml").display().to_string();
            let test = Test::in_scene(scene).args(["--policy", &file]).env("API_TOKEN", value);
            let script =
                "curl -sSf --data \"first=1&token=$API_TOKEN&last=2\" https://good.test/body >/dev/null";
            let outcome = run(internet, test, script);
            outcome.code(0);
            is_nowhere(scene, &outcome, value);
            assert_eq!(internet.recorder.heard(&format!("first=1&token={value}&last=2")), body);
            if body {
                internet.recorder.forget();
            }
        }
    });
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let group =
            chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let index = (group >> (18 - 6 * place)) & 63;
            coded.push(if place > chunk.len() { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    coded
}
