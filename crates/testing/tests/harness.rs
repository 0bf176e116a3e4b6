//! The harness's own tests: a check that can't fail would prove nothing.

use std::process::{Command, Output};
use std::time::Duration;

use ringfence_testing::{Identity, Leftovers, Scene, Victim, closed_calls, processes_with_marker};

fn probe(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringfence-probe")).args(args).output().expect("run the probe")
}

#[test]
fn the_probe_tells_escaped_held_and_broken_apart() {
    let scene = Scene::new(Identity::User);
    let secret = scene.secret().to_string_lossy().into_owned();
    let cases: [(&[&str], i32, &str); 4] = [
        (&["read", &secret, &scene.token], 0, "escaped:"),
        (&["read", "/nonexistent", "x"], 1, "held:"),
        (&["read"], 2, ""),
        (&["no-such-attempt"], 2, ""),
    ];
    for (args, code, says) in cases {
        let output = probe(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(says), "{args:?}");
    }
}

#[test]
fn the_probe_refuses_calls_that_would_end_it() {
    // exit_group has another number on each architecture; 231 and 94 are those of x86_64 and aarch64.
    let number = if cfg!(target_arch = "x86_64") { "231" } else { "94" };
    assert_eq!(probe(&["syscall", number]).status.code(), Some(2));
}

#[test]
fn facts_are_json_and_name_the_caller() {
    let output = probe(&["facts"]);
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(facts["uid"], rustix::process::getuid().as_raw());
    assert_eq!(facts["status"]["Seccomp"], "0");
    assert!(facts["namespaces"]["net"].as_str().is_some_and(|link| link.starts_with("net:[")));
    assert!(facts["mounts"].as_array().is_some_and(|mounts| mounts.iter().any(|mount| mount["path"] == "/")));
}

#[test]
fn closed_calls_are_known_by_number() {
    let calls = closed_calls();
    assert!(calls.len() >= 50, "only {} closed calls", calls.len());
    assert!(calls.iter().any(|call| call.name == "mount"));
}

#[test]
fn leftovers_see_a_file_a_process_and_an_fd() {
    let scene = Scene::new(Identity::User);
    let before = Leftovers::before().watch(scene.state()).marker(&scene.token);
    assert_eq!(before.since_within(Duration::ZERO), Vec::<String>::new());

    scene.write("state/left", "");
    let file = std::fs::File::open(scene.secret()).expect("open a file");
    let victim = Victim::start(Identity::User, &scene.token);
    let left = before.since_within(Duration::from_millis(50)).join("\n");
    assert!(left.contains("state/left"), "{left}");
    assert!(left.contains("outside/secret"), "{left}");
    assert!(left.contains(&format!("process {}", victim.pid())), "{left}");

    assert_eq!(processes_with_marker(&scene.token).len(), 1);
    drop((file, victim));
    std::fs::remove_file(scene.path("state/left")).expect("remove the file");
    before.assert_none_since();
}

#[test]
fn a_scene_belongs_to_its_identity() {
    use std::os::unix::fs::MetadataExt;
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        for path in [scene.workspace(), scene.secret(), scene.home()] {
            assert_eq!(std::fs::metadata(path).expect("stat").uid(), identity.uid());
        }
    }
}
