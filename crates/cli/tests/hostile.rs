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
