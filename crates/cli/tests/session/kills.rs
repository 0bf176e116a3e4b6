//! Keepers and clients killed at random moments: nothing is left of the first, nothing happens to the session of the
//! second. Small here, in full by `./test soak` (`RINGFENCE_SOAK_SESSION_KILLS`).

use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Leftovers, Running, Scene, Session, Test, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::{each, each_swept, mark, nobody_remains};

fn kills() -> u32 {
    std::env::var("RINGFENCE_SOAK_SESSION_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// The same moments for the same seed, which is printed.
struct Moments(u64);

impl Moments {
    fn new(what: &str, identity: Identity) -> Self {
        let seed = std::process::id();
        println!("{what} as {identity:?}: {} kills, seed {seed}", kills());
        Self(u64::from(seed) | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn pass(&mut self, most: Duration) {
        std::thread::sleep(Duration::from_micros(self.below(most.as_micros() as u64)));
    }
}

/// A command that leaves processes everywhere.
fn busy(scene: &Scene) -> String {
    format!("setsid sleep 1000 & (trap '' TERM; sleep 1000) & echo on; yes; : {}", mark(scene))
}

/// How a session is made before its keeper is killed.
#[derive(Clone, Copy, Debug)]
enum Made {
    Plain,
    /// With egress, whom nobody asks for anything.
    WithEgress,
    Overlay,
    /// In a workspace of a size: an image on a loop device. Only root makes those.
    SizedWorkspace,
    WithPort,
}

impl Made {
    fn of(scene: &Scene, moments: &mut Moments) -> Self {
        match moments.below(5) {
            0 => Self::Plain,
            1 => Self::WithEgress,
            2 => Self::Overlay,
            3 if scene.identity == Identity::Root => Self::SizedWorkspace,
            3 => Self::Plain,
            _ => Self::WithPort,
        }
    }

    fn make<'a>(self, scene: &'a Scene) -> Session<'a> {
        let mut flags = vec!["--output-limit".to_owned(), "1M".into()];
        match self {
            Self::Plain | Self::WithPort => {}
            Self::WithEgress => flags.extend(["--allow-host", "nobody.invalid"].map(str::to_owned)),
            Self::Overlay => {
                flags.extend(["--overlay", "--workspace"].map(str::to_owned));
                flags.push(scene.workspace().display().to_string());
            }
            Self::SizedWorkspace => flags.extend(["--workspace-name", SIZED].map(str::to_owned)),
        }
        let session = Session::create(scene, flags);
        if matches!(self, Self::WithPort) {
            session.call("expose", &["-d", "8000", "--listen", "127.0.0.1:0"]).code(0);
        }
        session
    }
}

const SIZED: &str = "sized";

#[test]
fn a_killed_keeper_takes_its_sandbox_with_it() {
    each_swept(|scene| {
        let mut moments = Moments::new("keepers", scene.identity);
        if scene.identity == Identity::Root {
            let made = Test::in_scene(scene).verb(["workspace", "create", SIZED, "--size", "16M"]).call();
            made.code(0);
        }
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..kills() {
            let before = Leftovers::before().without_fds().watch(scene.workspace()).marker(&scene.token);
            let loops = loop_devices(scene);
            let made = Made::of(scene, &mut moments);
            *counts.entry(format!("{made:?}")).or_insert(0) += 1;
            // Its own name: the old one's files stay until they are removed.
            let session = made.make(scene);
            assert_eq!(matches!(made, Made::SizedWorkspace), loop_devices(scene) != loops, "{made:?}");
            let keeper = Pid::from_raw(session.keeper() as i32).unwrap();
            let clients: Vec<Running> =
                (0..3).map(|_| start_something(scene, &session, &mut moments)).collect();
            moments.pass(Duration::from_millis(60));
            kill_process(keeper, Signal::KILL).unwrap();
            // Each notices, whatever it was doing.
            for client in clients {
                let _ = client.wait();
            }
            nobody_remains(&mark(scene));
            let row = session.listed().expect("it is listed");
            assert_eq!(row["state"], "ended: keeper was killed", "{row}");
            session.remove();
            // Egress and whoever carries a port are processes of the session, or nobody's: both are looked for.
            let mut left = Vec::new();
            let deadline = Instant::now() + Duration::from_secs(60);
            while Instant::now() < deadline {
                left = before.since_within(Duration::from_millis(200));
                left.extend(loop_devices(scene).into_iter().filter(|device| !loops.contains(device)));
                if left.is_empty() {
                    break;
                }
                // What the killed one could not take away itself, the next sandbox does.
                Test::in_scene(scene)
                    .profile("restrictive")
                    .workspace(scene.workspace())
                    .run(["true"])
                    .code(0);
            }
            assert!(left.is_empty(), "{made:?} left behind:\n  {}", left.join("\n  "));
        }
        println!("made as {:?}: {counts:?}", scene.identity);
    });
}

/// Those that hold a file of the scene.
fn loop_devices(scene: &Scene) -> Vec<String> {
    let root = scene.root().display().to_string();
    let of = |device: std::fs::DirEntry| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        file.contains(&root).then(|| format!("{} of {}", device.path().display(), file.trim_end()))
    };
    std::fs::read_dir("/sys/block").into_iter().flatten().flatten().filter_map(of).collect()
}

fn start_something(scene: &Scene, session: &Session<'_>, moments: &mut Moments) -> Running {
    let script = busy(scene);
    match moments.below(4) {
        0 => session.exec_test(&["-d"]).plain().spawn(["bash", "-c", &script]),
        1 => session.exec_test(&["--timeout", "30ms"]).spawn(["bash", "-c", &script]),
        2 => session.exec_test(&[]).spawn(["bash", "-c", &script]),
        _ => session.exec_test(&[]).spawn(["true"]),
    }
}

#[test]
fn a_killed_client_changes_nothing_for_the_session() {
    each(|scene| {
        let mut moments = Moments::new("clients", scene.identity);
        let session = Session::create(scene, ["--output-limit", "1M"]);
        let kept = session.detach(&[], &format!("yes; : {}kept", scene.token));
        for _ in 0..kills() {
            let script = busy(scene);
            let detached = moments.below(4) == 3;
            let client = match moments.below(3) {
                _ if detached => session.exec_test(&["-d"]).plain().spawn(["bash", "-c", &script]),
                0 => session.exec_test(&[]).spawn(["bash", "-c", &script]),
                1 => session.exec_test(&[]).plain().spawn(["bash", "-c", &script]),
                _ => session.test("logs", &["--follow", &kept.to_string()]).spawn_call(),
            };
            moments.pass(Duration::from_millis(40));
            client.signal(Signal::KILL);
            drop(client);
            if detached {
                end_all_but(&session, kept);
            }
            nobody_remains(&mark(scene));
            session.assert_answers();
        }
        assert_eq!(ringfence_testing::processes_with_marker(&format!("{}kept", scene.token)).len(), 1);
        session.remove();
    });
}

/// A detached process whose client was killed runs, if it was started at all.
fn end_all_but(session: &Session<'_>, kept: u32) {
    eventually("all others have ended", || {
        let processes = session.json("ps", &[]);
        let left: Vec<String> = processes
            .as_array()
            .unwrap()
            .iter()
            .filter(|info| info["process"] != kept && info["gone"] == false)
            .map(|info| info["process"].to_string())
            .collect();
        for process in &left {
            let _ = session.call("signal", &["--tree", process, "KILL"]);
        }
        left.is_empty()
    });
}

#[test]
fn a_create_that_is_killed_makes_a_whole_session_or_none() {
    each_swept(|scene| {
        let mut moments = Moments::new("creates", scene.identity);
        let mut made = 0;
        for _ in 0..kills() {
            let session = Session::named(scene);
            let running = session.make(["--profile", "moderate"]).spawn_call();
            moments.pass(Duration::from_millis(60));
            running.signal(Signal::KILL);
            drop(running);
            // The keeper may be at work still.
            let mut whole = false;
            eventually("it is whole or there is none", || {
                whole = session.answers();
                whole || is_nothing(&session)
            });
            if whole {
                made += 1;
                session.remove();
            } else {
                // What a sweep takes away only after a minute.
                let _ = std::fs::remove_dir_all(session.place());
            }
        }
        println!("{made} were made all the same");
    });
}

/// Nobody holds it, and nobody is told of it.
fn is_nothing(session: &Session<'_>) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let is_unheld = match std::fs::File::open(session.place().join("lock")) {
        Ok(lock) => flock(lock, FlockOperation::NonBlockingLockShared).is_ok(),
        Err(_) => true,
    };
    is_unheld && session.listed().is_none()
}
