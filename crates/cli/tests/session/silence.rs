//! A keeper that does not answer: stopped, or without its socket. Nobody takes its session for ended, nothing is taken away
//! under it, and `rm --force` ends all of it.

use std::os::unix::fs::MetadataExt;

use ringfence_testing::{Scene, Session, Stage, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::ends::kill_keeper;
use crate::{each_swept, mark, marked, nobody_remains};

fn busy(scene: &Scene) -> Session<'_> {
    let session = Session::create(scene, ["--workspace", &scene.workspace().display().to_string()]);
    session.detach(&[], &format!("setsid sleep 1000 & (sleep 1000 &); sleep 1000; : {}", mark(scene)));
    eventually("it runs", || marked(scene) > 0);
    session
}

/// What is said of it, and what is not done to it.
fn is_told_of(session: &Session<'_>) {
    assert_eq!(session.listed().expect("it is there")["state"], "not answering");
    let inspected = session.json("inspect", &[]);
    assert!(inspected["silent"] == true && inspected["ended"].is_null(), "{inspected}");
    assert!(session.place().exists(), "its directory is gone");
}

fn is_ended_by_force(scene: &Scene, session: Session<'_>) {
    let guard = session.json("inspect", &[])["pillars"]["guard"]["pid"].clone();
    let place = session.place();
    session.call("rm", &["--force"]).code(0).stderr_contains("did not answer and was killed");
    // At once: `rm` has waited for it.
    assert_eq!(marked(scene), 0, "something of it runs");
    // Or has only not been waited for yet, by whoever adopts what is left on this machine.
    let stat = std::fs::read_to_string(format!("/proc/{guard}/stat")).unwrap_or_default();
    assert!(stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z')), "guard is there: {stat}");
    assert!(!place.exists(), "its directory is there");
    nobody_remains(&mark(scene));
}

#[test]
fn a_stopped_keeper_does_not_answer_and_is_ended_by_force() {
    each_swept(|scene| {
        let session = busy(scene);
        kill_keeper(&session, Signal::STOP);
        is_told_of(&session);
        session.call::<&str>("rm", &[]).refused("does not answer");
        assert!(session.place().exists() && marked(scene) > 0, "it was ended all the same");
        is_ended_by_force(scene, session);
    });
}

#[test]
fn a_stopped_keeper_that_goes_on_is_as_it_was() {
    each_swept(|scene| {
        let session = busy(scene);
        let keeper = Pid::from_raw(session.keeper() as i32).unwrap();
        kill_process(keeper, Signal::STOP).unwrap();
        is_told_of(&session);
        kill_process(keeper, Signal::CONT).unwrap();
        session.assert_answers();
        assert_eq!(session.listed().unwrap()["state"], "alive");
    });
}

/// `rm` took such a session for ended, and its files away while it ran.
#[test]
fn a_keeper_without_its_socket_does_not_answer_and_is_ended_by_force() {
    each_swept(|scene| {
        let session = busy(scene);
        std::fs::remove_file(session.place().join("socket")).unwrap();
        is_told_of(&session);
        session.exec(["true"]).refused("does not answer");
        session.call::<&str>("rm", &[]).refused("does not answer");
        assert!(session.place().exists() && marked(scene) > 0, "it was ended all the same");
        is_ended_by_force(scene, session);
    });
}

/// One that answers is asked, also with `--force`: its end check is made.
#[test]
fn force_asks_whoever_answers() {
    each_swept(|scene| {
        let session = busy(scene);
        let outcome = session.call("rm", &["--force"]);
        outcome.code(0);
        assert!(!outcome.errors.contains("was killed"), "{}", outcome.describe());
        nobody_remains(&mark(scene));
        let ended = Session::create(scene, ["--read", &Stage::get().probe_dir().display().to_string()]);
        kill_keeper(&ended, Signal::KILL);
        ended.call("rm", &["-f"]).code(0);
        assert!(!ended.place().exists());
    });
}

/// A stand-in at a keeper's door, that speaks the version after this one. It ends with what this gives.
struct Newer(std::process::Child);

impl Newer {
    fn at(session: &Session<'_>, scene: &Scene) -> Self {
        const STAND_IN: &str = "import json, os, socket, sys\n\
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
            os.chdir(sys.argv[1])\n\
            s.bind('new')\n\
            os.chmod('new', 0o600)\n\
            s.listen(64)\n\
            os.rename('new', 'socket')\n\
            while True:\n    c, _ = s.accept()\n    if c.recv(65536):\n        c.send(json.dumps({'answer': 'refused', 'version': 2, 'fix': 'use that one',\n            'why': \"this session's keeper speaks version 2, you speak 1\"}).encode())\n    c.close()\n";
        let door = session.place().join("socket");
        let inode = |path: &std::path::Path| std::fs::metadata(path).map(|facts| facts.ino()).ok();
        let before = inode(&door);
        let mut command = std::process::Command::new("/usr/bin/python3");
        command.args(["-c", STAND_IN]).arg(session.place());
        scene.identity.apply(&mut command);
        let child = command.spawn().unwrap();
        eventually("it is at the door", || inode(&door) != before);
        Self(child)
    }
}

impl Drop for Newer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// After an upgrade. It is no session that does not answer, and `rm` does what the refusal says.
#[test]
fn a_keeper_of_another_version_is_told_of_as_such_and_removed() {
    each_swept(|scene| {
        for flags in [&[][..], &["--force"]] {
            let session = busy(scene);
            let newer = Newer::at(&session, scene);
            assert_eq!(session.listed().expect("it is there")["state"], "of another version");
            let inspected = session.json("inspect", &[]);
            assert!(inspected["other_version"] == true && inspected["silent"] == false, "{inspected}");
            session.exec(["true"]).refused("speaks version 2");
            let place = session.place();
            session.call("rm", flags).code(0);
            assert!(marked(scene) == 0 && !place.exists(), "something is left of it");
            drop(newer);
        }
    });
}
