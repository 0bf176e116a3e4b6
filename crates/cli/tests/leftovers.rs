//! What a test leaves behind is seen, and what a killed one would leave is ended: the harness's own promises, kept with the
//! real command.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use ringfence_testing::{Identity, Leftovers, Scene, Server, Session, Test, eventually};

/// A session has an owner that lives, its keeper. It is left behind all the same if it is the test's own.
#[test]
fn leftovers_see_a_session_that_lives_on_with_all_that_is_in_it() {
    for identity in Identity::all() {
        let before = Leftovers::before().without_fds();
        let scene = Scene::new(identity);
        let session = Session::create(&scene, ["--profile", "restrictive"]);
        let (keeper, guard) = (session.keeper(), session.guard());
        let left = before.since_within(Duration::from_millis(50)).join("\n");
        assert!(left.contains(&format!("session {} (keeper {keeper})", session.name)), "{left}");
        assert!(left.contains(&format!("process {guard} ")), "{left}");
        let has_cgroup =
            std::fs::read_to_string(format!("/proc/{guard}/cgroup")).unwrap().contains("ringfence-");
        assert!(!has_cgroup || left.contains(&format!("ringfence-{keeper}-")), "{left}");
        session.remove();
        before.assert_none_since();
    }
}

/// A test that forgets one fails, and the session ends all the same.
#[test]
fn a_scene_with_a_session_that_lives_fails_its_test_and_ends_the_session() {
    let before = Leftovers::before().without_fds();
    let scene = Scene::new(Identity::User);
    let elsewhere = Scene::new(Identity::User);
    let kept =
        Test::in_scene(&scene).verb(["session", "create", "--name", "nameless"]).cwd(elsewhere.home()).call();
    assert_eq!(kept.exit, 0, "{}", kept.describe());
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(scene)));
    let said = dropped.expect_err("a session is left").downcast::<String>().expect("words");
    assert!(said.contains("sessions are left behind") && said.contains("nameless"), "{said}");
    before.assert_none_since();
}

/// The second process of the next test.
const STARTS_A_SERVER: &str = "RINGFENCE_TEST_STARTS_A_SERVER";

/// A test that is killed can't end its server itself: the kernel does.
#[test]
fn a_server_dies_with_a_test_that_is_killed() {
    if std::env::var_os(STARTS_A_SERVER).is_some() {
        let scene = Scene::new(Identity::User);
        let server = Server::start(&scene, [] as [&str; 0]);
        println!("server {} in {}", server.pid(), scene.root().display());
        loop {
            std::thread::park();
        }
    }
    let mut test = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "a_server_dies_with_a_test_that_is_killed", "--nocapture"])
        .env(STARTS_A_SERVER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("start a second test");
    let said = BufReader::new(test.stdout.take().expect("its stdout")).lines().map_while(Result::ok);
    let line = said.filter_map(|line| line.split_once("server ").map(|(_, rest)| rest.to_owned())).next();
    let line = line.expect("it starts a server");
    let (server, root) = line.split_once(" in ").expect("a pid and a place");
    let status = format!("/proc/{server}/status");
    let lives = || {
        std::fs::read_to_string(&status)
            .is_ok_and(|status| status.contains("ringfence") && !status.contains("(zombie)"))
    };
    assert!(lives(), "there is no server {server}");
    test.kill().expect("kill it");
    let _ = test.wait();
    eventually("its server is gone", || !lives());
    // What the killed test could not remove.
    assert!(root.contains("rftest-"), "{root}");
    std::fs::remove_dir_all(root).expect("remove its scene");
}
