//! Sessions by the library alone, sync and async, as root and as an ordinary user. Only a process without threads makes one:
//! so this is a program without the usual harness, and each drill a process of its own.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::{ProfileName, merge};
use ringfence_sandbox::overlay::prepare_layers;
use ringfence_sandbox::snapshots::{SnapshotLimits, SnapshotStore};
use ringfence_sandbox::{
    AsyncSandbox, Attached, Claim, Exec, ExecStdio, ForkError, Host, Links, ListLimit, Parents, ProcessEnd,
    Refusal, Request, Sandbox, SessionError, SessionSpec, Stream, WorkspaceLayers, plan_for,
};
use ringfence_testing::{Identity, Leftovers, Scene};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DRILL: &str = "RINGFENCE_TEST_SESSION_DRILL";
type Drill = (&'static str, fn(&Path));

const DRILLS: &[Drill] =
    &[("a_session_by_the_library", in_order), ("a_session_by_the_library_and_a_runtime", in_a_runtime)];

fn main() {
    if let Ok(task) = std::env::var(DRILL) {
        let (name, state) = task.split_once(' ').expect("a drill and a place");
        let (_, drill) = DRILLS.iter().find(|(known, _)| *known == name).expect("a drill that there is");
        return drill(Path::new(state));
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") {
        // None of them is ignored. What stands behind `--format` is no filter.
        DRILLS.iter().filter(|_| !has("--ignored")).for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| *filter == name);
    for (name, _) in DRILLS.iter().filter(|(name, _)| wanted(name)) {
        for identity in Identity::all() {
            as_identity(name, identity);
        }
        println!("test {name} ... ok");
    }
}

fn as_identity(name: &str, identity: Identity) {
    let scene = Scene::new(identity);
    let before = Leftovers::before().without_fds().marker(&scene.token);
    let program = scene.path("worker");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.env(DRILL, format!("{name} {}", scene.state().display())).env("HOME", scene.home());
    command.env_remove("RINGFENCE_FAULT").current_dir(scene.workspace()).stdin(Stdio::null());
    identity.apply(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{name} as {identity:?}: {text}");
    before.assert_none_since();
}

fn spec(state: &Path, claim: Claim, layers: Option<WorkspaceLayers>) -> Result<SessionSpec, Refusal> {
    let request = Request {
        image: None,
        policy: merge(ProfileName::Restrictive, &[]).unwrap(),
        argv: Vec::new(),
        directory: None,
        attached: Attached::default(),
        workspace_layers: layers,
        stream: Stream::Session,
        trace: false,
        learn: false,
        strict: false,
        state: state.to_path_buf(),
        secrets: state.join("secrets"),
    };
    let plan = plan_for(&request, &Host::look(&request)?)?;
    Ok(SessionSpec { ttl: Some(Duration::from_secs(300)), ..SessionSpec::new(claim, request, plan) })
}

fn forked(state: &Path, claim: Claim, layers: WorkspaceLayers) -> Result<SessionSpec, ForkError> {
    prepare_layers(&layers, Path::new("")).unwrap();
    Ok(spec(state, claim, Some(layers))?)
}

fn shell(script: &str) -> Exec {
    Exec { argv: ["sh", "-c", script].map(Into::into).to_vec(), ..Exec::default() }
}

/// What a script prints, and how it ended.
fn run(sandbox: &Sandbox, script: &str) -> (String, ProcessEnd) {
    let mut process = sandbox.exec(shell(script)).unwrap();
    drop(process.stdin.take());
    let mut text = String::new();
    process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    (text, process.wait().unwrap().end)
}

fn in_order(state: &Path) {
    let sessions = state.join("sessions");
    let store = SnapshotStore::open(&state.join("snapshots"), SnapshotLimits::default()).unwrap();
    let claim = Claim::new(&sessions, Some("one")).unwrap();
    let sandbox = Sandbox::create(spec(state, claim, None).unwrap()).unwrap();
    let mut process = sandbox.exec(shell("cat; echo error >&2; exit 3")).unwrap();
    process.stdin.take().unwrap().write_all(b"typed").unwrap();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    process.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((stdout.as_str(), stderr.as_str()), ("typed", "error\n"));
    assert_eq!(process.wait().unwrap().end, ProcessEnd::Exited { code: 3 });

    let terminal = ExecStdio::Terminal { rows: 10, columns: 20 };
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut process = sandbox.exec(Exec { stdio: terminal, ..shell(script) }).unwrap();
    let mut shown = Vec::new();
    let mut byte = [0; 1];
    let mut screen = process.terminal.as_ref().unwrap().try_clone().unwrap();
    while !shown.ends_with(b"ready") {
        assert_eq!(screen.read(&mut byte).unwrap(), 1);
        shown.extend(byte);
    }
    process.resize(30, 40).unwrap();
    assert_eq!(process.wait().unwrap().end, ProcessEnd::Exited { code: 0 });
    let _ = screen.read_to_end(&mut shown);
    assert!(String::from_utf8_lossy(&shown).contains("30 40"), "{}", String::from_utf8_lossy(&shown));

    let mut process = sandbox.exec(shell("sleep 1000")).unwrap();
    process.signal(15).unwrap();
    assert_eq!(process.wait().unwrap().end, ProcessEnd::Signaled { signal: 15 });

    let file = Path::new("/workspace/file");
    sandbox.files().unwrap().make_directory(Path::new("/workspace/dir"), 0o755, Parents::Exist).unwrap();
    assert_eq!(run(&sandbox, "test -d dir && echo one > file; echo of-home > ~/kept").1.exit_code(), 0);
    assert_eq!(sandbox.files().unwrap().stat(file, Links::Keep).unwrap().0.size, 4);
    assert!(sandbox.stats().unwrap().processes < 3);

    let fork = sandbox.fork(&store, Some("two"), |claim, layers| forked(state, claim, layers)).unwrap();
    assert_eq!(run(&fork, "cat file ~/kept; echo two > file").0, "one\nof-home\n");
    assert_eq!(run(&sandbox, "cat file").0, "one\n", "the fork wrote to the first one");
    let saved = sandbox.snapshot(&store, "point", &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    run(&sandbox, "echo other > file");
    sandbox.rollback(&store, saved.id).unwrap();
    assert_eq!(run(&sandbox, "cat file").0, "one\n");
    // A fork that can't be made leaves nothing.
    let refused: Result<Sandbox, ForkError> = sandbox.fork(&store, Some("three"), |_, _| {
        Err(Refusal::BadRequest { what: "not this one".into(), fix: String::new() }.into())
    });
    assert!(refused.unwrap_err().to_string().contains("not this one"));
    assert!(!sessions.join("three").exists());
    for session in [fork, sandbox] {
        session.destroy().unwrap();
        assert!(matches!(session.stats(), Err(SessionError::Ended { .. })));
    }
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 0);
}

fn in_a_runtime(state: &Path) {
    let sessions = state.join("sessions");
    let store = Arc::new(SnapshotStore::open(&state.join("snapshots"), SnapshotLimits::default()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let claim = Claim::new(&sessions, Some("one")).unwrap();
        let sandbox = AsyncSandbox::create(spec(state, claim, None).unwrap()).unwrap();
        let fork = sandbox.fork(&store, Some("two"), |claim, layers| forked(state, claim, layers)).unwrap();
        let say = async |sandbox: &AsyncSandbox, script: &str| {
            let mut process = sandbox.exec(shell(script)).await.unwrap();
            // A command that reads nothing may have ended by then.
            let typed = process.stdin.take().unwrap().write_all(b"typed\n").await;
            assert!(typed.is_ok() || !script.starts_with("cat;"), "{script}: {typed:?}");
            let mut text = String::new();
            process.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
            (text, process.wait().await.unwrap().end.exit_code())
        };
        // Both at once, each with its own.
        let (one, two) = tokio::join!(say(&sandbox, "cat; echo one > file"), say(&fork, "cat; exit 4"));
        assert_eq!((one, two), (("typed\n".into(), 0), ("typed\n".into(), 4)));
        let saved = sandbox.snapshot(store.clone(), "point").await.unwrap();
        assert_eq!(say(&sandbox, "echo other > file").await.1, 0);
        sandbox.rollback(store.clone(), saved.id).await.unwrap();
        assert_eq!(say(&sandbox, "cat file").await.0, "one\n");
        let mut files = sandbox.files().await.unwrap();
        let listed =
            files.with(|files| files.list(Path::new("/workspace"), ListLimit(10)).unwrap()).await.unwrap();
        assert_eq!(listed.len(), 1);
        drop(files);
        let mut process = sandbox.exec(shell("sleep 1000")).await.unwrap();
        sandbox.pause().await.unwrap();
        assert!(sandbox.status().await.unwrap().paused);
        sandbox.resume().await.unwrap();
        sandbox.extend(Some(Duration::from_secs(60)), None).await.unwrap();
        sandbox.signal(process.id(), 9, true).await.unwrap();
        assert_eq!(process.wait().await.unwrap().end, ProcessEnd::Signaled { signal: 9 });
        // What was killed, and the worker that nobody asks any more, are gone a moment later.
        let mut left = sandbox.stats().await.unwrap().processes;
        for _ in 0..1_000 {
            if left < 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            left = sandbox.stats().await.unwrap().processes;
        }
        assert!(left < 2, "{left} processes stay");
        assert!(sandbox.processes().await.unwrap().len() >= 4);
        for session in [fork, sandbox] {
            session.destroy().await.unwrap();
            assert!(matches!(session.status().await, Err(SessionError::Ended { .. })));
        }
    });
}
