//! The receipt's claims, checked from inside: under each profile the probe reads its own capabilities, filters,
//! mounts, namespaces and limits, and every clause that the receipt calls enforced must agree with them.

mod policies;
mod random;
mod seen;
mod sight;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Outcome, Scene, Stage, Test, processes_with_marker};

use crate::seen::Seen;
use crate::sight::Sight;

#[test]
fn every_enforced_clause_agrees_with_what_the_probe_sees() {
    let mut failures = Vec::new();
    for identity in Identity::all() {
        for profile in ["restrictive", "moderate", "permissive"] {
            let scene = repository(identity);
            let sight = Sight::of(scene.identity, facts_of_run(&scene, profile, &[]));
            for line in sight.outcome.receipt_clauses().iter().filter(|line| line["status"] == "enforced") {
                if let Err(why) = sight.check(line) {
                    failures.push(format!("{identity:?}, {profile}, {}: {why}", line["clause"]));
                }
            }
        }
    }
    assert!(failures.is_empty(), "the receipt and the facts differ:\n  {}", failures.join("\n  "));
}

#[test]
fn every_isolation_clause_is_in_the_receipt() {
    for identity in Identity::all() {
        let scene = repository(identity);
        let outside = text(&scene.outside());
        let network = ["--allow-host", "api.example.com", "--connections", "9", "--bandwidth", "1M"];
        let flags: Vec<&str> = ["--write", &outside].into_iter().chain(network).collect();
        let outcome = facts_of_run(&scene, "restrictive", &flags);
        let clauses = outcome.receipt_clauses();
        let listed: BTreeSet<&str> = clauses.iter().filter_map(|line| line["clause"].as_str()).collect();
        let expected = ringfence_policy::Clause::ALL.iter().map(|clause| clause.as_str());
        // Restrictive shows no toolchains, and no skill is attached.
        let absent = ["filesystem.toolchains", "filesystem.attached"];
        let missing: Vec<&str> =
            expected.filter(|name| !absent.contains(name) && !listed.contains(name)).collect();
        assert!(missing.is_empty(), "not in the receipt: {missing:?}");
    }
}

#[test]
fn a_waived_clause_is_called_waived_and_is() {
    for identity in Identity::all() {
        let waived = |clause: &str| {
            let scene = repository(identity);
            let outcome = facts_of_run(&scene, "restrictive", &["--waive", clause]);
            outcome.clause(clause, "waived");
            (Sight::of(scene.identity, outcome), scene)
        };
        let (sight, _scene) = waived("syscalls");
        assert_eq!(sight.facts["status"]["Seccomp"], "0", "the filter is there although it was waived");
        let (sight, _scene) = waived("network");
        assert_eq!(sight.facts["namespaces"]["net"], sight.host["namespaces"]["net"]);
        let (sight, _scene) = waived("filesystem.landlock");
        assert_eq!(sight.facts["landlock_layers"], sight.host["landlock_layers"]);
        let (sight, _scene) = waived("limits.open_files");
        assert_eq!(sight.facts["limits"]["Max open files"][1], sight.host["limits"]["Max open files"][1]);
        let (sight, _scene) = waived("filesystem.protected");
        assert!(sight.mount("/workspace/.git/config").is_none(), "a protected file is mounted over");
    }
}

#[test]
fn what_only_the_host_can_see_agrees_too() {
    for identity in Identity::all() {
        let scene = repository(identity);
        let test = Test::in_scene(&scene).profile("restrictive").with_probe().args(["--timeout", "60s"]);
        let probe = text(&Stage::get().probe);
        let running = test.spawn([probe, "linger".to_owned(), scene.token.clone()]);
        let seen = Seen::of(&lingering(&scene, running.pid()));
        running.signal(rustix::process::Signal::TERM);
        let outcome = running.wait();
        assert!(!seen.is_root, "the command is root on the host");
        assert!(
            seen.mapped.iter().all(|id| *id != 0),
            "ids of the host that are mapped in: {:?}",
            seen.mapped
        );
        for line in outcome.receipt_clauses() {
            seen.check(&line).unwrap_or_else(|why| panic!("{identity:?}: {why}"));
        }
    }
}

/// A scene whose workspace is a repository.
fn repository(identity: Identity) -> Scene {
    let scene = Scene::new(identity);
    scene.write("ws/.git/config", "[core]\n");
    scene.mkdir("ws/.git/hooks");
    scene
}

fn facts_of_run(scene: &Scene, profile: &str, flags: &[&str]) -> Outcome {
    let test = Test::in_scene(scene).profile(profile).with_probe().workspace(scene.workspace());
    let outcome = test
        .env("API_TOKEN", "secret")
        .args(["--hide".to_owned(), text(&scene.path("ws/.git/hooks"))])
        .args(flags.iter().copied())
        .run([text(&Stage::get().probe), "facts".to_owned()]);
    outcome.code(0);
    outcome
}

/// The process with the scene's token that isn't `ringfence` itself.
fn lingering(scene: &Scene, ringfence: u32) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = processes_with_marker(&scene.token);
        if let Some(process) =
            found.iter().find(|p| p.pid != ringfence && p.name.starts_with("ringfence-prob"))
        {
            return process.pid.to_string();
        }
        assert!(Instant::now() < deadline, "the command did not start: {found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
