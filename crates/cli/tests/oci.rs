//! `ringfence oci`: a policy as a bundle that a runtime enforces by itself. The bundle is run by the runtimes themselves, as root
//! and as an ordinary user, and asked from inside what holds.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use ringfence_testing::{Identity, Leftovers, Scene, Test};

const HELD: [&str; 4] = ["--profile", "restrictive", "--waive", "filesystem.landlock"];

// A container is called after its shell's number: a runtime's cgroup on the host is called after the container, whoever's it is.
/// crun looks at the cgroups of the host, and refuses v1 beside v2: where that is so it is shown none.
const CRUN: &str = "mount -t tmpfs none /sys/fs/cgroup && exec crun --cgroup-manager=disabled --root \"$0\" run --bundle \"$1\" job-$$";
const RUNC: &str = "exec runc --root \"$0\" run --bundle \"$1\" job-$$";

fn write_bundle(scene: &Scene, flags: &[&str], command: &[&str]) -> std::path::PathBuf {
    let directory = scene.path("job");
    let mut words = vec!["oci", "bundle"];
    words.extend(HELD);
    words.extend(flags);
    let path = directory.to_string_lossy().into_owned();
    words.extend([path.as_str(), "--"]);
    words.extend(command);
    let made = Test::in_scene(scene).verb(words).call();
    assert_eq!(made.exit, 0, "{}", made.describe());
    directory
}

fn run(scene: &Scene, script: &str, bundle: &Path) -> Output {
    let state = scene.path("runtime");
    std::fs::create_dir_all(&state).expect("a place for its state");
    scene.identity.own(&state);
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(&state).arg(bundle);
    if script == CRUN {
        command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&state).arg(bundle);
    }
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("XDG_RUNTIME_DIR", &state).stdin(Stdio::null());
    scene.identity.apply(&mut command);
    command.output().expect("the runtime")
}

/// What can be asked of a bundle from inside, with the answer.
const QUESTIONS: &[(&str, &str)] = &[
    ("id -u", "0"),
    ("sed -n 's/^CapEff:\\s*//p;s/^CapBnd:\\s*//p' /proc/self/status | sort -u", "0000000000000000"),
    ("sed -n 's/^NoNewPrivs:\\s*//p' /proc/self/status", "1"),
    ("sed -n 's/^Seccomp:\\s*//p' /proc/self/status", "2"),
    ("hostname", "sandbox"),
    ("echo $$", "1"),
    ("ls /sys/class/net 2>/dev/null; sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo"),
    ("touch /x 2>/dev/null || echo read-only", "read-only"),
    ("touch /usr/x 2>/dev/null || echo read-only", "read-only"),
    ("touch /etc/x 2>/dev/null || echo read-only", "read-only"),
    ("touch /dev/x 2>/dev/null || echo read-only", "read-only"),
    ("echo 1 > /proc/sys/kernel/hostname 2>/dev/null || echo read-only", "read-only"),
    ("cat /proc/kcore | wc -c", "0"),
    ("cat /etc/shadow 2>/dev/null || echo closed", "closed"),
    ("unshare --user true 2>/dev/null || echo closed", "closed"),
    ("unshare --mount true 2>/dev/null || echo closed", "closed"),
    ("mount -t tmpfs none /tmp 2>/dev/null || echo closed", "closed"),
    ("chmod u+s /tmp/file 2>/dev/null || echo closed", "closed"),
    ("ulimit -n", "1024"),
    ("ulimit -c", "0"),
    ("pwd; echo text > file && cat file", "/workspace\ntext"),
    ("head -c 400M /dev/zero > $HOME/big 2>/dev/null || echo full", "full"),
    ("head -c 60M /dev/zero > /tmp/big 2>/dev/null || echo full", "full"),
    ("cat /dev/null && echo 1 > /dev/null && echo devices", "devices"),
];

fn script() -> String {
    let asked = QUESTIONS.iter().map(|(question, _)| format!("{{ {question}; }} 2>/dev/null; echo ---"));
    format!("touch /tmp/file; {}", asked.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_bundle_holds_by_itself() {
    for identity in Identity::all() {
        for (name, runtime) in [("runc", RUNC), ("crun", CRUN)] {
            // An ordinary user can't cover what crun looks at.
            if name == "crun" && identity == Identity::User {
                continue;
            }
            println!("{name} as {identity:?}");
            let before = Leftovers::before().without_fds();
            let scene = Scene::new(identity);
            let bundle = write_bundle(&scene, &[], &["sh", "-c", &script()]);
            let ran = run(&scene, runtime, &bundle);
            let (told, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            let answers: Vec<&str> = told.split("---\n").map(str::trim).collect();
            assert!(answers.len() > QUESTIONS.len(), "{name} as {identity:?}: {told}\n{errors}");
            for ((question, expected), answer) in QUESTIONS.iter().zip(answers) {
                assert_eq!(answer, *expected, "{name} as {identity:?}: {question}\n{errors}");
            }
            drop(scene);
            before.assert_none_since();
        }
    }
}

/// The limits are the runtime's to set, by cgroups: root's.
#[test]
fn a_bundle_has_its_limits() {
    if !Identity::Root.is_available() {
        return;
    }
    let with = |flags: &[&str], line: &str| {
        let scene = Scene::new(Identity::Root);
        let bundle = write_bundle(&scene, flags, &["bash", "-c", line]);
        let config = std::fs::read(bundle.join("config.json")).expect("the configuration");
        let config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
        (config["linux"]["resources"].clone(), run(&scene, RUNC, &bundle))
    };
    let said = |ran: &Output| String::from_utf8_lossy(&ran.stdout).into_owned();
    // tail keeps what it may have to print; its end is that of the pipeline, and bash says by what it came.
    let memory = "set -o pipefail; echo begun; head -c 200M /dev/zero | tail -c 150M | wc -c; echo ended ${PIPESTATUS[*]}";
    let (resources, ran) = with(&["--memory", "1G"], memory);
    assert_eq!(resources["memory"]["limit"], 1 << 30);
    assert_eq!(said(&ran), "begun\n157286400\nended 0 0 0\n", "without the limit: {ran:?}");
    let (resources, ran) = with(&["--memory", "32M", "--cpus", "0.5"], memory);
    assert_eq!(resources["memory"]["limit"], 32 << 20);
    assert_eq!(resources["cpu"]["quota"], 50_000);
    let killed = said(&ran);
    assert!(killed.starts_with("begun\n") && !killed.contains("157286400"), "{ran:?}");
    // 128 + SIGKILL: tail was killed for want of memory, or the shell itself was.
    let by_kill =
        killed.lines().last().is_some_and(|line| line.starts_with("ended") && line.contains(" 137 "));
    assert!(by_kill || ran.status.code() == Some(137), "{ran:?}");
    let processes =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 2 & done; echo \"$(jobs -p | wc -l) started\"; wait";
    let (resources, ran) = with(&["--pids", "64"], processes);
    assert_eq!(resources["pids"]["limit"], 64);
    assert_eq!(said(&ran), "12 started\n", "without the limit: {ran:?}");
    let (resources, ran) = with(&["--pids", "6"], processes);
    assert_eq!(resources["pids"]["limit"], 6);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("fork: "), "{ran:?}");
    assert!(!said(&ran).contains("12 started"), "{ran:?}");
}

#[test]
fn what_a_bundle_cannot_hold_is_refused_and_what_is_only_told_is_listed() {
    let scene = Scene::new(Identity::all()[0]);
    let call = |words: &[&str]| Test::in_scene(&scene).verb(words.to_vec()).call();
    let refused = call(&["oci", "spec", "--profile", "restrictive", "--", "true"]);
    assert_eq!(refused.exit, 125, "{}", refused.describe());
    assert!(refused.errors.contains("cannot enforce filesystem.landlock"), "{}", refused.describe());
    let mut words = vec!["oci", "spec"];
    words.extend(HELD);
    words.extend(["--timeout", "3s", "--", "true"]);
    let refused = call(&words);
    assert!(refused.errors.contains("cannot enforce limits.wall_time"), "{}", refused.describe());
    let mut words = vec!["oci", "spec"];
    words.extend(HELD);
    words.extend(["--", "true"]);
    let printed = call(&words);
    assert_eq!(printed.exit, 0, "{}", printed.describe());
    let config: serde_json::Value = serde_json::from_str(&printed.output).expect("a configuration");
    assert_eq!(config["process"]["args"], serde_json::json!(["true"]));
    assert!(
        printed.errors.contains("limits.wall_time = 5m is not in the configuration"),
        "{}",
        printed.describe()
    );
    assert!(printed.errors.contains("are not reported"), "{}", printed.describe());
}

#[test]
fn a_bundle_is_written_over_nothing() {
    let scene = Scene::new(Identity::all()[0]);
    scene.mkdir("full");
    scene.write("full/file", "mine");
    let path = scene.path("full").to_string_lossy().into_owned();
    let mut words = vec!["oci", "bundle"];
    words.extend(HELD);
    words.extend([path.as_str(), "--", "true"]);
    let refused = Test::in_scene(&scene).verb(words).call();
    assert_eq!(refused.exit, 125, "{}", refused.describe());
    assert!(refused.errors.contains("is not empty"), "{}", refused.describe());
    assert_eq!(scene.read("full/file").as_deref(), Some("mine"));
}
