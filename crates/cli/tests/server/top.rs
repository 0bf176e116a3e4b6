//! `ringfence top`: one look at a server, at this machine, and on a terminal that it gives back.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use ringfence_testing::{ECHO_PORT, EVIL, Internet, Stage, Test, eventually};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::{scene, server};

#[test]
fn one_look_at_a_server() {
    let scene = scene();
    let server = server(&scene);
    let (ada, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
    let made = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    let run = json!({ "command": ["unshare", "-m", "true"] });
    let _ = server.ask(Some(&ada), "POST", "/v1/run", Some(&run)).status(200);
    let url = format!("http://{}", server.address());
    let look = |key: &str, more: &[&str]| {
        Test::in_scene(&scene)
            .verb(["top", "--once", "--url", &url])
            .args(more.iter().copied())
            .env("RINGFENCE_KEY", key)
            .call()
    };
    let told = look(&admin, &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.output).expect("JSON");
    assert_eq!((&told["sandboxes"][0]["id"], &told["sandboxes"][0]["user"]), (&json!(id), &json!("ada")));
    assert!(told["sandboxes"][0]["memory"].is_u64(), "{told}");
    assert_eq!(told["commands"], json!({ "failure": 1 }));
    assert!(told["denials"]["syscall"].as_u64() > Some(0) && told["requests"].as_u64() > Some(1), "{told}");
    // What only admins count is left out; the table says the same in words.
    scene.write("key", &format!("{ada}\n"));
    let file = scene.path("key").display().to_string();
    let table = look("unused", &["--key-file", &file]);
    assert_eq!(table.exit, 0, "{}", table.describe());
    assert!(table.output.contains(&id) && !table.output.contains("requests"), "{}", table.output);
    assert!(!table.output.contains('\u{1b}'), "no escapes in a pipe");
    let refused = look("rf_wrong", &[]);
    assert_eq!(refused.exit, 125);
    refused.stderr_contains("the key is not valid");
    let _ = server.ask(Some(&ada), "DELETE", &format!("/v1/sandboxes/{id}"), None).status(204);
}

#[test]
fn one_look_at_this_machine() {
    let scene = scene();
    let session = ringfence_testing::Session::create(&scene, [] as [&str; 0]);
    let told = Test::in_scene(&scene).verb(["top", "--once", "--json"]).call();
    let told: serde_json::Value = serde_json::from_str(&told.output).expect("JSON");
    assert_eq!(told["sandboxes"][0]["id"], session.name.as_str(), "{told}");
    assert!(told["server"].is_null() && told["requests"].is_null(), "{told}");
    drop(session);
    let none = Test::in_scene(&scene).verb(["top", "--once"]).call();
    none.stdout_contains("no sandbox is alive");
}

#[test]
fn a_key_goes_nowhere_in_the_clear() {
    let scene = scene();
    let none = Test::in_scene(&scene).verb(["top", "--once", "--url", "http://127.0.0.1:1"]).call();
    none.stderr_contains("RINGFENCE_KEY");
    let Some(internet) = Internet::get() else { return };
    let url = format!("http://{EVIL}:{ECHO_PORT}");
    let test =
        Test::in_scene(&scene).verb(["top", "--once", "--url", &url]).env("RINGFENCE_KEY", "rf_planted");
    let far = internet.machine.within(|| test.call());
    assert_eq!(far.exit, 125);
    far.stderr_contains("without TLS");
    assert!(!far.errors.contains("rf_planted"));
    assert!(!internet.recorder.heard("rf_planted"), "the key was sent");
}

#[test]
fn a_terminal_is_given_back_as_it_was() {
    for end in ["q", "\u{3}", "SIGTERM"] {
        let scene = scene();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("its name");
        unlockpt(&master).expect("its name");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let open = || {
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).expect("the terminal")
        };
        let side: OwnedFd = open();
        let modes = || {
            let modes = rustix::termios::tcgetattr(&side).expect("modes");
            (modes.local_modes, modes.input_modes, modes.output_modes)
        };
        let before = modes();
        let mut child = Command::new(&Stage::get().ringfence)
            .args(["top", "--every", "100ms"])
            .env_clear()
            .env("HOME", scene.home())
            .env("RINGFENCE_STATE_DIR", scene.state())
            .current_dir(scene.root())
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .expect("ringfence starts");
        let shown = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut master = std::fs::File::from(master);
        let reader = std::thread::spawn({
            let (mut from, shown) = (master.try_clone().expect("a copy"), shown.clone());
            move || {
                let mut chunk = [0; 4096];
                while let Ok(read @ 1..) = from.read(&mut chunk) {
                    shown.lock().expect("a screen").extend_from_slice(&chunk[..read]);
                }
            }
        });
        let text = || String::from_utf8_lossy(&shown.lock().expect("a screen")).into_owned();
        eventually("the table is there", || text().contains("no sandbox is alive"));
        assert!(text().contains("\u{1b}[?1049h\u{1b}[?25l"), "{:?}", text());
        assert_ne!(modes(), before, "keys come one by one");
        match end {
            "SIGTERM" => {
                let pid = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
            }
            key => master.write_all(key.as_bytes()).expect("a key"),
        }
        assert!(child.wait().expect("an end").success(), "{end:?}");
        assert_eq!(modes(), before, "after {end:?}");
        eventually("the screen is left", || text().ends_with("\u{1b}[?25h\u{1b}[?1049l"));
        drop((side, master));
        reader.join().expect("the reader ends");
    }
}
