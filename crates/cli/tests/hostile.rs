//! A hostile workspace against the owner of a sandbox, which reads and mends it with the caller's own rights: attacks
//! that once worked, each as root and as an ordinary user.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Leftovers, Outcome, Scene, Stage, Test};

fn each(attack: impl Fn(&Scene)) {
    for identity in Identity::all() {
        attack(&Scene::new(identity));
    }
}

fn run(scene: &Scene, script: &str) -> Outcome {
    Test::in_scene(scene).cwd(scene.workspace()).plain().run(["sh", "-c", script])
}

#[test]
fn pipes_in_place_of_files_hold_nobody_up() {
    each(|scene| {
        run(scene, "mkdir -p r/.git q; mkfifo r/.git/config q/.git .envrc2").code(0);
        run(scene, "mkfifo .git/x 2>/dev/null; true").code(0);
        run(scene, "true").code(0);
    });
}

#[test]
fn a_repository_that_lost_its_head_gets_it_back_and_a_planted_one_is_named() {
    each(|scene| {
        scene.write("ws/.git/HEAD", "ref: refs/heads/main\n");
        scene.write("ws/.git/config", "[core]\n");
        let plant =
            "rm .git/HEAD; mkdir objects refs; echo x > HEAD; printf '[core]\\nfsmonitor = evil\\n' > config";
        let outcome = run(scene, plant);
        outcome
            .stderr_contains(".git/HEAD was removed")
            .stderr_contains("config core.fsmonitor of the workspace");
        assert_eq!(scene.read("ws/.git/HEAD").as_deref(), Some("ref: refs/heads/main\n"));
    });
}

#[test]
fn hiding_a_path_through_a_link_hides_it() {
    each(|scene| {
        scene.write("ws/key", &scene.token);
        symlink(scene.workspace(), scene.path("link")).unwrap();
        let hidden = scene.path("link/key").display().to_string();
        Test::in_scene(scene)
            .cwd(scene.workspace())
            .args(["--hide", &hidden])
            .run(["sh", "-c", "cat key /workspace/key"])
            .stdout("");
    });
}

#[test]
fn a_linked_file_of_the_home_is_not_written_from_the_set_up() {
    each(|scene| {
        scene.write("outside/ignore", "mine\n");
        scene.mkdir("home/.config/git");
        symlink(scene.path("outside/ignore"), scene.path("home/.config/git/ignore")).unwrap();
        Test::in_scene(scene).profile("permissive").cwd(scene.workspace()).run(["true"]).code(0);
        assert_eq!(scene.read("outside/ignore").as_deref(), Some("mine\n"));
    });
}

#[test]
fn names_that_are_not_text_leave_nothing_behind() {
    each(|scene| {
        let odd = scene.workspace().join(OsStr::from_bytes(b"n\xff\r"));
        fs::create_dir_all(odd.join(".git")).unwrap();
        let before = Leftovers::before().watch(scene.workspace());
        run(scene, "true").code(0);
        before.assert_none_since();
    });
}

#[test]
fn dangling_links_at_protected_names_do_not_stop_the_next_run() {
    each(|scene| {
        scene.mkdir("ws/sub/.git");
        symlink("../../nodir/x", scene.path("ws/sub/.git/hooks")).unwrap();
        symlink("nowhere", scene.path("ws/.envrc")).unwrap();
        symlink("nowhere", scene.path("ws/.bashrc")).unwrap();
        run(scene, "mkdir nodir; echo x > nowhere").code(2).stderr_contains("Read-only");
        run(scene, "true").code(0);
        assert!(!scene.path("ws/nowhere").exists() && !scene.path("ws/nodir").exists());
    });
}

#[test]
fn a_reader_that_stalls_does_not_stop_the_deadline() {
    each(|scene| {
        let mut command = Command::new(&Stage::get().ringfence);
        command.args(["run", "-t", "--timeout", "1s", "--", "sh", "-c", "yes"]);
        command
            .current_dir(scene.workspace())
            .env("HOME", scene.home())
            .env("RINGFENCE_STATE_DIR", scene.state());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        scene.identity.apply(&mut command);
        let mut child = command.spawn().unwrap();
        // Nobody reads the pipe, which is soon full.
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.and_then(|status| status.code()), Some(124));
    });
}

/// The file that a secret is read from is not shown, wherever it lies and by whatever clause it would be.
#[test]
fn the_file_of_a_secret_stays_outside() {
    each(|scene| {
        scene.write("home/token", "s3cret-at-home");
        let (home, workspace) = (scene.home(), scene.workspace());
        let (at_home, in_workspace) = (home.join("token"), workspace.join("d/token"));
        let cases = [
            (&in_workspace, "s3cret-here", vec![]),
            (&at_home, "s3cret-at-home", vec!["--read".to_owned(), home.display().to_string()]),
            (&at_home, "s3cret-at-home", vec!["--profile".to_owned(), "permissive".to_owned()]),
        ];
        for (file, value, flags) in cases {
            scene.write("ws/d/token", "s3cret-here");
            let script = format!(
                "cat {0}; cat d/token /workspace/d/token; cp -r d f && cat f/token; mv d e && cat e/token; mv e d; \
                 mv d/token d/x; cat d/x; mv d/x d/token; true",
                file.display()
            );
            let with = |secret: &[&str]| {
                let test = Test::in_scene(scene).cwd(&workspace).plain().args(flags.clone());
                test.args(secret.iter().copied()).run(["sh", "-c", &script])
            };
            let source = format!("TOKEN=file:{}@api.example.com", file.display());
            let outcome = with(&["--allow-host", "api.example.com", "--secret", &source]);
            outcome.code(0);
            assert!(!outcome.output.contains(value), "{}", outcome.describe());
            assert_eq!(fs::read_to_string(file).expect("it is there outside"), value);
            // The twin: without the secret it is an ordinary file.
            with(&[]).stdout_contains(value);
            run(scene, "rm -rf d e f").code(0);
        }
    });
}

/// What the owner holds, a variable with a secret among it, is in no core file that a sandbox could find.
#[test]
fn the_owner_leaves_no_core_file() {
    each(|scene| {
        let test =
            Test::in_scene(scene).cwd(scene.workspace()).plain().env("API_TOKEN", "s3cret-in-the-owner");
        let running = test.spawn(["sh", "-c", "touch ready; sleep 300"]);
        ringfence_testing::eventually("it runs", || scene.workspace().join("ready").exists());
        let limits = fs::read_to_string(format!("/proc/{}/limits", running.pid())).expect("its limits");
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).expect("the line");
        // One byte: none at all would still be handed to a program that collects them.
        assert_eq!(line.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["1", "1"], "{line}");
        running.signal(rustix::process::Signal::ABORT);
        assert_eq!(running.wait().exit, 128 + 6);
        let left: Vec<_> = fs::read_dir(scene.workspace()).expect("the workspace").flatten().collect();
        let is_core = |name: &OsStr| name.as_bytes().starts_with(b"core");
        assert!(!left.iter().any(|entry| is_core(&entry.file_name())), "{left:?}");
        run(scene, "true").code(0);
    });
}

/// Whoever may write above our state could put one of their own in its place, and with it trust.
#[test]
fn nothing_above_our_own_state_is_writable() {
    each(|scene| {
        let state = scene.state();
        let above = state.parent().expect("a directory").display().to_string();
        let forge = format!("mv {0} {0}.old; mkdir -p {0}; echo forged > {0}/trust.json", state.display());
        let outcome = Test::in_scene(scene).plain().args(["--write", &above]).run(["sh", "-c", &forge]);
        outcome.code(125).stderr_contains("ringfence keeps its own state in it");
        let outcome = Test::in_scene(scene).plain().args(["--workspace", &above]).run(["sh", "-c", &forge]);
        outcome.code(125);
        assert!(!state.join("trust.json").exists());
        // Read-only it is no danger, and hidden.
        let list = format!("ls {}", state.display());
        Test::in_scene(scene).plain().args(["--read", &above]).run(["sh", "-c", &list]).code(0).stdout("");
    });
}

/// What we write into a home of our own making is not written into the user's, where that is shown.
#[test]
fn no_file_of_the_users_is_written_to() {
    each(|scene| {
        scene.write("home/.gitconfig", "[core]\n\tpager = less\n");
        scene.mkdir("home/.config/git");
        let home = scene.home().display().to_string();
        for flags in [["--write", home.as_str()], ["--read", home.as_str()]] {
            Test::in_scene(scene).plain().args(flags).plain().run(["true"]).code(0);
        }
        let config = scene.home().join(".config/git");
        Test::in_scene(scene).plain().cwd(&config).run(["true"]).code(0);
        assert_eq!(scene.read("home/.gitconfig").as_deref(), Some("[core]\n\tpager = less\n"));
        assert!(!config.join("ignore").exists());
    });
}

/// A command that ran in the workspace can put programs into a virtual environment that its user has on PATH, under
/// names that ringfence starts outside: with the key of the secret store, or with root's rights.
#[test]
fn programs_that_the_workspace_plants_are_not_run_outside() {
    each(|scene| {
        let marker = scene.path("outside/ran");
        let plant = |place: &str, name: &str, then: &str| {
            let path = format!("{place}/{name}");
            scene.write(&path, &format!("#!/bin/sh\necho {name} >> {}\n{then}\n", marker.display()));
            fs::set_permissions(scene.path(&path), std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        };
        scene.mkdir("outside");
        for name in ["secret-tool", "mkfs.ext4", "mount", "helper"] {
            plant("ws/.venv/bin", name, "cat; exit 0");
        }
        plant("outside/bin", "helper", "echo a-value-that-is-long");
        let path = format!("{}:.:/usr/sbin:/usr/bin:/sbin:/bin", scene.path("ws/.venv/bin").display());
        let ran = || scene.read("outside/ran").unwrap_or_default();
        // By their names they are what is found first.
        let mut twin = Command::new("sh");
        twin.args(["-c", "secret-tool lookup x </dev/null && mkfs.ext4 </dev/null && mount </dev/null"]);
        scene.identity.apply(twin.env("PATH", &path).stdout(Stdio::null()));
        assert!(twin.status().unwrap().success());
        assert_eq!(ran(), "secret-tool\nmkfs.ext4\nmount\n");
        fs::remove_file(&marker).unwrap();

        let test = || {
            let bus = ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
            Test::in_scene(scene).env("PATH", &path).env(bus.0, bus.1)
        };
        let set = test().verb(["secret", "set", "T", "--from-stdin"]).stdin("a-value-that-is-long").call();
        set.code(0).stdout_contains("the key to it is in its key file");
        let book = scene.state().join("secrets/secrets.json");
        let text = fs::read_to_string(&book).unwrap();
        fs::write(&book, text.replace("\"key\": \"file\"", "\"key\": \"keyring\"")).unwrap();
        let with = |source: &str, path: &str| {
            let secret = format!("T={source}@nobody.invalid");
            let flags = ["--allow-host", "nobody.invalid", "--secret", &secret];
            test().env("PATH", path).args(flags).run(["true"])
        };
        with("store:T", &path).code(125).stderr_contains("keyring");
        with("cmd:helper", &path).code(125).stderr_contains("status: 127");
        if scene.identity == Identity::Root {
            let sized = ["workspace", "create", "sized", "--size", "16M"];
            test().verb(sized).call().code(0);
            let name = format!("planted-{}", std::process::id());
            let create = ["session", "create", "--name", &name, "--workspace-name", "sized"];
            test().verb(create).call().code(0);
            test().verb(["session", "rm", &name]).call().code(0);
        }
        assert_eq!(ran(), "", "a planted program ran outside");
        // What is not the sandbox's to write is the caller's own choice.
        let own = format!("{}:{path}", scene.path("outside/bin").display());
        let _ = with("cmd:helper", &own);
        assert_eq!(ran(), "helper\n");
    });
}
