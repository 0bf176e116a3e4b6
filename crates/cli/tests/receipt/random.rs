//! Policies by chance: under every provider each is enforced, clause by clause as it is seen from inside and from the host, or
//! refused before anything has run. Never a third thing. A few here, a thousand by `./test soak` (`RINGFENCE_SOAK_POLICIES`);
//! `RINGFENCE_SOAK_SEED` chooses others.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ringfence_testing::{
    Identity, Leftovers, Outcome, Running, Scene, Stage, Test, has_docker, processes_with_marker,
    with_provider,
};
use serde_json::Value;

use crate::policies::{Chance, RandomPolicy, Reach, furnish, random};
use crate::seen::Seen;
use crate::sight::{Sight, bytes, facts_of_host};
use crate::text;

/// The probe's facts, then what can be read and written, then wait for the end of the input. `$0` is the probe.
const LOOK: &str = r#"
"$0" facts
for path in "$@"; do
    reads=- writes=-
    head -c 1 -- "$path" 2>/dev/null | grep -q . && reads=r
    [ -e "$path" ] && ( : >>"$path" ) 2>/dev/null && writes=w
    echo "$reads$writes $path"
done
cat >/dev/null"#;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn by_native() {
    hold("native");
}

#[test]
fn by_bwrap() {
    hold("bwrap");
}

#[test]
fn by_crun() {
    hold("oci:crun");
}

#[test]
fn by_runc() {
    hold("oci:runc");
}

#[test]
fn by_docker() {
    if has_docker() {
        hold("docker");
    }
}

/// What came of one policy.
enum Verdict {
    Enforced,
    Refused,
}

fn hold(provider: &'static str) {
    let (count, seed) = (number("RINGFENCE_SOAK_POLICIES", 20), number("RINGFENCE_SOAK_SEED", 7));
    for identity in Identity::all() {
        let host = facts_of_host(identity);
        let before = Leftovers::before().without_fds();
        let (mut enforced, mut refused, mut failures) = (0, 0, Vec::new());
        for policy_number in 0..count {
            let scene = Scene::new(identity);
            furnish(&scene);
            let policy = random(&scene, &mut Chance::new(seed, policy_number));
            match with_provider(provider, || verdict(&scene, &policy, &host)) {
                Ok(Verdict::Enforced) => enforced += 1,
                Ok(Verdict::Refused) => refused += 1,
                Err(why) => {
                    failures.push(format!("seed {seed}, policy {policy_number}: {why}\n{}", policy.file))
                }
            }
        }
        before.assert_none_since();
        println!(
            "{provider} as {identity:?}: {enforced} enforced, {refused} refused, {} neither",
            failures.len()
        );
        assert!(failures.is_empty(), "{provider} as {identity:?}:\n{}", failures.join("\n\n"));
        assert!(enforced * 3 >= count, "only {enforced} of {count} were enforced: the rest shows nothing");
    }
}

fn verdict(scene: &Scene, policy: &RandomPolicy, host: &Value) -> Result<Verdict, String> {
    let file = scene.path("policy.json");
    std::fs::write(&file, policy.file.to_string()).map_err(|error| error.to_string())?;
    scene.identity.own(&file);
    let (from, mut to) = std::io::pipe().map_err(|error| error.to_string())?;
    let paths = policy.expected.iter().map(|(path, _)| path.clone());
    let look = ["sh".to_owned(), "-c".to_owned(), LOOK.to_owned(), text(&Stage::get().probe)];
    let mut running = Test::in_scene(scene)
        .args(["--policy".to_owned(), text(&file)])
        .with_probe()
        .stdin_file(File::from(OwnedFd::from(from)))
        .spawn(look.into_iter().chain(paths).chain([scene.token.clone()]));
    let seen = inside(scene, &mut running).map(|pid| Seen::of(&pid));
    let _ = to.flush();
    drop(to);
    let outcome = running.wait();
    match seen {
        None if outcome.exit == 125 => refusal(&outcome).map(|()| Verdict::Refused),
        None => Err(format!("it was not seen to run\n{}", outcome.describe())),
        Some(_) if outcome.exit == 125 => Err(format!("refused after it ran\n{}", outcome.describe())),
        Some(seen) => enforcement(policy, outcome, &seen, host).map(|()| Verdict::Enforced),
    }
}

/// The shell that looks, once it is there; nothing, if the run ends first.
fn inside(scene: &Scene, running: &mut Running) -> Option<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let found = processes_with_marker(&scene.token);
        if let Some(shell) = found.iter().find(|process| process.pid != running.pid() && process.name == "sh")
        {
            return Some(shell.pid.to_string());
        }
        if running.has_ended() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    None
}

/// A clause that is named, why, and what to do: a step that failed on the way is no decision.
fn refusal(outcome: &Outcome) -> Result<(), String> {
    let error = outcome.json.as_ref().map(|json| json["error"].clone()).unwrap_or_default();
    let has = |key: &str| error[key].as_str().is_some_and(|text| !text.is_empty());
    let decided = ["not_enforceable", "bad_request", "bad_policy"].iter().any(|code| error["code"] == *code);
    if decided && has("message") && has("hint") {
        return Ok(());
    }
    Err(format!("not refused in words\n{}", outcome.describe()))
}

fn enforcement(policy: &RandomPolicy, mut outcome: Outcome, seen: &Seen, host: &Value) -> Result<(), String> {
    let described = outcome.describe();
    if outcome.exit != 0 {
        return Err(format!("it ran, and ended otherwise\n{described}"));
    }
    let (facts, looks) =
        outcome.output.split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap_or_default();
    let mut wrong = files(policy, &looks);
    outcome.output = facts;
    let mut sight = Sight::with_host(outcome, host.clone());
    sight.variables.clone_from(&policy.variables);
    if seen.is_root || seen.mapped.contains(&0) {
        wrong.push(format!("root of the host is inside: {:?}", seen.mapped));
    }
    let lines = sight.outcome.receipt_clauses();
    for line in &lines {
        let clause = line["clause"].as_str().unwrap_or_default();
        let said = match line["status"].as_str().unwrap_or_default() {
            // What is shown of files is looked at by itself.
            "enforced" if clause.starts_with("filesystem.") && !BY_FACTS.contains(&clause) => Ok(()),
            "enforced"
                if clause == "hostname" && policy.hostname.is_some_and(|name| line["value"] != name) =>
            {
                Err("another name".to_owned())
            }
            "enforced" => sight.check(line).and_then(|()| seen.check(line)),
            "waived" if policy.waived.contains(&clause) => Ok(()),
            "unenforced" if clause.starts_with("limits.") && !asks(policy, clause) => Ok(()),
            other => Err(format!("it is {other}")),
        };
        wrong.extend(said.err().map(|why| format!("{clause}: {why}")));
    }
    for (name, value) in &policy.limits {
        let clause = format!("limits.{name}");
        let line = lines.iter().find(|line| line["clause"] == clause.as_str());
        // Without a network there are no connections to count.
        let is_moot = ["connections", "bandwidth"].contains(&name.as_str()) && line.is_none();
        if !is_moot && !line.is_some_and(|line| line["status"] == "enforced" && same(&line["value"], value)) {
            wrong.push(format!("{clause} = {value} was asked for: {line:?}"));
        }
    }
    for clause in &policy.waived {
        let line = lines.iter().find(|line| line["clause"] == *clause);
        if line.is_some_and(|line| line["status"] != "waived") {
            wrong.push(format!("{clause} was waived: {line:?}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}\n{described}", wrong.join("; "))) }
}

const BY_FACTS: [&str; 4] =
    ["filesystem.host", "filesystem.toolchains", "filesystem.tmp", "filesystem.landlock"];

fn asks(policy: &RandomPolicy, clause: &str) -> bool {
    policy.limits.iter().any(|(name, _)| clause.strip_prefix("limits.") == Some(name))
}

/// A receipt writes values in its own way: `1G` for 1024M, `1m` for 60 s.
fn same(told: &Value, asked: &Value) -> bool {
    let told = told.as_str().unwrap_or_default();
    match asked {
        Value::Number(number) => told.parse::<f64>().ok() == number.as_f64(),
        Value::String(text) if text.ends_with(['M', 'G']) => {
            bytes(told.trim_end_matches("/s")) == bytes(text)
        }
        Value::String(text) if text == "60s" => ["60s", "1m"].contains(&told),
        other => other == told,
    }
}

/// Which files could be read and written, against what the policy says of them.
fn files(policy: &RandomPolicy, looks: &str) -> Vec<String> {
    let found: Vec<(&str, &str)> = looks.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut wrong = Vec::new();
    for (path, Reach { reads, writes }) in &policy.expected {
        let expected = format!("{}{}", if *reads { 'r' } else { '-' }, if *writes { 'w' } else { '-' });
        let shown = found.iter().find(|(_, of)| of == path).map_or("nothing", |(reach, _)| *reach);
        if shown != expected {
            wrong.push(format!("{path} is {shown} instead of {expected}"));
        }
    }
    wrong
}
