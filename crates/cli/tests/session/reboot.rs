//! After the machine was started again: what is written down of a session's processes may by chance fit somebody else's. Nobody
//! is touched, and what was meant to stay is there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use ringfence_testing::{Session, Test, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::each_swept;

/// A boot that this one is not.
const ANOTHER: &str = "00000000-0000-4000-8000-000000000000";

#[test]
fn what_was_meant_to_stay_is_there_and_no_stranger_is_touched() {
    each_swept(|scene| {
        let named = ["--workspace-name", "team/kept"];
        let session = Session::create(scene, named);
        session.sh("echo of the workspace > file").code(0);
        session.call("snapshot", &["--name", "point"]).code(0);
        let process = session.detach(&[], "echo of the log").to_string();
        eventually("its output is kept", || session.call("logs", &[&process]).output == "of the log\n");
        stop_the_machine(&session);
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0);
        scene.identity.apply(&mut command);
        let mut stranger = command.spawn().unwrap();
        let before = look(stranger.id());
        write_down(&session, stranger.id(), before.1);

        let row = session.listed().expect("it is listed");
        assert_eq!(row["state"], "ended: keeper was killed", "{row}");
        let inspected = session.json("inspect", &[]);
        assert_eq!(inspected["ended"]["why"], "keeper_gone", "{inspected}");
        session.call("logs", &[&process]).code(0).stdout("of the log\n");
        session.call("rm", &["--force"]).code(0);
        assert!(session.listed().is_none());
        assert!(stranger.try_wait().unwrap().is_none(), "a process that is none of ours was ended");
        assert_eq!(look(stranger.id()), before);
        stranger.kill().unwrap();
        stranger.wait().unwrap();

        let next = Session::create(scene, named);
        next.sh("cat file").stdout("of the workspace\n");
        next.remove();
        let archive = scene.path("home/point.tar");
        let words = ["snapshot".into(), "export".into(), "point".into(), archive.clone().into_os_string()];
        Test::in_scene(scene).verb(words).call().code(0);
        let bytes = fs::read(archive).unwrap();
        assert!(bytes.windows(17).any(|window| window == b"of the workspace\n"), "it is not in the snapshot");
        Test::in_scene(scene).verb(["snapshot", "verify"]).call().code(0);
        Test::in_scene(scene).verb(["workspace", "rm", "team/kept"]).call().code(0);
    });
}

/// Nothing runs afterwards, and nobody has noticed yet.
fn stop_the_machine(session: &Session<'_>) {
    let (keeper, guard) = (session.keeper(), session.guard());
    kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
    eventually("nothing of it runs", || {
        [keeper, guard].iter().all(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']))
        })
    });
}

/// Its groups, when it began, and whether it is stopped.
fn look(pid: u32) -> (String, u64, bool) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    (groups, fields[19].parse().unwrap(), fields[0] == "T")
}

fn write_down(session: &Session<'_>, pid: u32, start: u64) {
    let path = session.place().join("session.json");
    let mut facts: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(facts["pillars"]["keeper"]["boot"].is_string(), "{}", facts["pillars"]);
    let stranger = json!({ "pid": pid, "start": start, "boot": ANOTHER });
    facts["pillars"] = json!({ "keeper": stranger, "guard": stranger });
    fs::write(path, serde_json::to_vec(&facts).unwrap()).unwrap();
}
