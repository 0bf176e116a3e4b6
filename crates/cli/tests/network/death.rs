//! Egress dies: the sandbox loses its network at once, and nothing opens it again.

use std::fs;
use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Internet, Leftovers, Scene, Session, Test};
use rustix::process::{Pid, Signal, kill_process};

const GONE: &str = "the process that carries the network has ended";

/// The children of `ringfence` that are in its own PID namespace, and are no other program (which makes the sandbox): egress.
pub(crate) fn egress_of(owner: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{owner}/task/{owner}/children")).unwrap_or_default();
    let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let is_alike = |pid: u32| namespace(pid) == namespace(owner) && program(pid) == program(owner);
    children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .filter(|pid| is_alike(*pid) && lives(*pid))
        .collect()
}

/// Not a zombie either, which holds nothing.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn killed(signal: Signal, identities: &[Identity]) {
    let Some(internet) = Internet::get() else { return };
    for &identity in identities {
        let scene = Scene::new(identity);
        let before = Leftovers::before().without_fds();
        // One connection is open when egress dies, more are tried afterwards, by every way there is.
        let script = "exec 3<>/dev/tcp/echo.test/4242; head -1 <&3; touch started; until test -e killed; do sleep 0.02; done; \
             echo late >&3; timeout 5 cat <&3 && echo closed; \
             for n in 1 2 3; do \
               curl -sS --max-time 5 http://good.test/ ; curl -sS --max-time 5 -x http://198.18.0.2:3128 http://good.test/; \
               curl -sS --max-time 5 -x socks5h://198.18.0.2:1080 http://good.test/; curl -sS --max-time 5 http://192.0.2.10/; \
               timeout 5 getent hosts good.test; timeout 5 bash -c 'exec 4<>/dev/tcp/192.0.2.22/4242 && head -1 <&4'; done; echo end";
        let test = Test::in_scene(&scene)
            .args(["--timeout", "60s", "--allow-host", "good.test", "--allow-host", "echo.test:4242"])
            .args(["--allow-host", "192.0.2.22:4242"]);
        let running = internet.machine.within(|| test.spawn(["bash", "-c", script]));
        wait_until("the command to start", || scene.path("ws/started").exists());
        let egress = egress_of(running.pid());
        assert_eq!(egress.len(), 1, "egress is one process: {egress:?}");
        let pid = Pid::from_raw(egress[0] as i32).expect("a pid");
        kill_process(pid, signal).expect("kill egress");
        wait_until("egress to die", || egress_of(running.pid()).is_empty());
        scene.write("ws/killed", "");
        let outcome = running.wait();
        let text = &outcome.output;
        assert!(text.starts_with("welcome to "), "{}", outcome.describe());
        assert_eq!(text.matches("welcome").count(), 1, "{}", outcome.describe());
        assert!(!text.contains("page of"), "{}", outcome.describe());
        assert!(!internet.recorder.heard("late"), "the open connection outlived egress");
        // It is said, and the owner lives to say it.
        assert!(outcome.json.is_some() && outcome.exit != 125, "{}", outcome.describe());
        assert!(format!("{:?}", outcome.json).contains(GONE), "{}", outcome.describe());
        before.assert_none_since();
    }
}

#[test]
fn a_killed_egress_takes_the_network_with_it() {
    killed(Signal::KILL, &Identity::all());
}

#[test]
fn so_does_one_that_is_told_to_stop() {
    killed(Signal::TERM, &Identity::all());
}

/// A session outlives its egress, without a network: nothing that it starts afterwards has one either.
#[test]
fn a_session_whose_egress_was_killed_has_no_network_any_more() {
    killed_in_a_session(&Identity::all());
}

pub(crate) fn killed_in_a_session(identities: &[Identity]) {
    let Some(internet) = Internet::get() else { return };
    for &identity in identities {
        let scene = Scene::new(identity);
        let before = Leftovers::before().without_fds().marker(&scene.token);
        let session = internet.machine.within(|| {
            let workspace = scene.workspace().display().to_string();
            let flags = ["--allow-host", "good.test", "--allow-host", "echo.test:4242", "--workspace"];
            Session::create(&scene, flags.into_iter().chain([&*workspace]))
        });
        let keeper = session.keeper();
        session
            .exec(["curl", "-sS", "--max-time", "20", "http://good.test/"])
            .code(0)
            .stdout_contains("page of");
        // Its figures are the session's too.
        wait_until("it is counted", || {
            let stats = session.json("stats", &[]);
            stats["connections"] == 1
                && stats["received"].as_u64() > Some(0)
                && stats["sent"].as_u64() > Some(0)
        });
        let network = session.json("inspect", &[])["status"]["network"]["connections"].clone();
        assert!(network[0]["host"] == "good.test" && network[0]["process"] == "curl", "{network}");
        let look = "import socket; print(socket.getaddrinfo('good.test', 80, socket.AF_INET)[0][4][0])";
        let known = session.exec(["/usr/bin/python3", "-c", look]).code(0).output.trim().to_owned();
        let held = "exec 3<>/dev/tcp/echo.test/4242; head -1 <&3; touch started; until test -e killed; do sleep 0.02; done; \
             echo outlived >&3; timeout 5 cat <&3; echo end";
        let process = session.detach(&[], held);
        wait_until("the connection", || scene.path("ws/started").exists());
        let egress = egress_of(keeper);
        assert_eq!(egress.len(), 1, "egress is one process: {egress:?}");
        kill_process(Pid::from_raw(egress[0] as i32).expect("a pid"), Signal::KILL).expect("kill egress");
        wait_until("egress to die", || egress_of(keeper).is_empty());
        scene.write("ws/killed", "");
        session.call("wait", &[process.to_string()]).code(0);
        assert!(!internet.recorder.heard("outlived"), "the open connection outlived egress");
        for _ in 0..3 {
            let again = session.exec(["curl", "-sS", "--max-time", "5", "http://good.test/"]);
            assert_ne!(again.exit, 0, "{}", again.describe());
            let ways = "curl -sS --max-time 5 -x http://198.18.0.2:3128 http://good.test/; \
                 curl -sS --max-time 5 -x socks5h://198.18.0.2:1080 http://good.test/; \
                 timeout 5 getent hosts good.test; timeout 5 bash -c 'exec 4<>/dev/tcp/192.0.2.22/4242 && head -1 <&4'; true";
            let outcome = session.sh(ways);
            assert!(
                !outcome.output.contains("page of") && !outcome.output.contains("welcome"),
                "{}",
                outcome.describe()
            );
            assert!(egress_of(keeper).is_empty(), "somebody started egress again");
        }
        // It is said at once, and again of what was granted and is known by its address.
        let address = session.sh(&format!("exec 3<>/dev/tcp/{known}/80"));
        assert_ne!(address.exit, 0, "{}", address.describe());
        let denials = session.json("inspect", &[])["status"]["denials"].to_string();
        assert!(denials.matches(GONE).count() >= 2, "{denials}\n{}", address.describe());
        session.assert_answers();
        assert_eq!(session.keeper(), keeper);
        session.remove();
        before.assert_none_since();
    }
}

/// Nothing is started for a network that is off, nor for one that is waived.
#[test]
fn without_a_network_there_is_no_egress() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        for (flags, count) in
            [(["--network", "off"], 0), (["--waive", "network"], 0), (["--allow-host", "good.test"], 1)]
        {
            let scene = Scene::new(identity);
            let script = "touch started; until test -e seen; do sleep 0.02; done";
            let test = Test::in_scene(&scene).args(["--timeout", "60s"]).args(flags);
            let running = internet.machine.within(|| test.spawn(["bash", "-c", script]));
            wait_until("the command to start", || scene.path("ws/started").exists());
            let egress = egress_of(running.pid());
            assert_eq!(egress.len(), count, "{flags:?}: {egress:?}");
            scene.write("ws/seen", "");
            running.wait().code(0);
        }
    }
}

/// A stopped egress answers nobody, and opens nothing either.
#[test]
fn a_stopped_egress_is_no_way_out() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let script = "touch started; until test -e stopped; do sleep 0.02; done; curl -sS --max-time 2 http://192.0.2.66/; \
                      curl -sS --max-time 2 http://good.test/";
        let test = Test::in_scene(&scene).args(["--timeout", "30s", "--allow-host", "good.test"]);
        let running = internet.machine.within(|| test.spawn(["bash", "-c", script]));
        wait_until("the command to start", || scene.path("ws/started").exists());
        let egress = egress_of(running.pid());
        let pid = Pid::from_raw(egress[0] as i32).expect("a pid");
        kill_process(pid, Signal::STOP).expect("stop egress");
        scene.write("ws/stopped", "");
        let outcome = running.wait();
        assert!(!outcome.output.contains("page of"), "{}", outcome.describe());
        wait_until("egress to go with its owner", || {
            !std::path::Path::new(&format!("/proc/{}", egress[0])).exists()
        });
    }
}

/// `kill -9` of `ringfence` itself ends egress and everything inside.
#[test]
fn egress_dies_with_its_owner() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let before = Leftovers::before().without_fds();
        let script = format!(
            "touch started; while sleep 0.05; do bash -c 'exec 3<>/dev/tcp/echo.test/4242; echo {} >&3'; done",
            scene.token
        );
        let test = Test::in_scene(&scene).plain().args(["--allow-host", "echo.test:4242"]);
        let running = internet.machine.within(|| test.spawn(["bash", "-c", &script]));
        wait_until("the command to start", || scene.path("ws/started").exists());
        let egress = egress_of(running.pid());
        assert_eq!(egress.len(), 1, "{egress:?}");
        running.signal(Signal::KILL);
        let _ = running.wait();
        wait_until("egress to go", || !lives(egress[0]));
        let count = || {
            internet
                .recorder
                .contacts()
                .iter()
                .filter(|c| String::from_utf8_lossy(&c.said).contains(&scene.token))
                .count()
        };
        std::thread::sleep(Duration::from_millis(300));
        let then = count();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(count(), then, "somebody still sends");
        before.assert_none_since();
    }
}
