//! Images through the real program: built from the host, from archives and from layers, run under every provider as root and as an
//! ordinary user, with nothing of the host's own directories to be seen.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ringfence_testing::{
    Identity, Leftovers, Outcome, Scene, Session, Test, docker, eventually, has_docker, with_provider,
};
use rustix::process::Signal;
use serde_json::Value;

const PROVIDERS: [&str; 5] = ["native", "bwrap", "oci:crun", "oci:runc", "docker"];

/// Those that can be had on this machine.
fn providers() -> impl Iterator<Item = &'static str> {
    PROVIDERS.into_iter().filter(|provider| *provider != "docker" || has_docker())
}

fn image(scene: &Scene, words: &[&str]) -> Outcome {
    Test::in_scene(scene).verb([&["image"][..], words].concat()).call()
}

fn build(scene: &Scene, name: &str, with: &str) -> Value {
    let outcome = image(scene, &["build", name, "--from", "host", "--with", with, "--json"]);
    outcome.code(0);
    serde_json::from_str(&outcome.output).expect("JSON")
}

fn run(scene: &Scene, name: &str) -> Test {
    Test::in_scene(scene).args(["--image", name])
}

fn each(row: impl Fn(&Scene)) {
    for identity in Identity::all() {
        println!("as {identity:?}");
        let before = Leftovers::before().without_fds();
        let scene = Scene::new(identity);
        row(&scene);
        drop(scene);
        before.assert_none_since();
    }
}

/// The tree of an image as a directory, with a marker that the host does not have.
fn rootfs(scene: &Scene, of: &str) -> PathBuf {
    let into = scene.path("rootfs");
    let copied =
        Command::new("cp").arg("-r").arg("--no-dereference").arg(tree(scene, of)).arg(&into).status();
    assert!(copied.expect("cp").success());
    fs::write(into.join("etc/marker"), "of the image").expect("write the marker");
    fs::create_dir(into.join("app")).expect("make a directory");
    scene.identity.own(&into);
    into
}

fn tree(scene: &Scene, name: &str) -> PathBuf {
    let shown = image(scene, &["show", name, "--json"]);
    let shown: Value = serde_json::from_str(&shown.output).expect("JSON");
    PathBuf::from(shown["tree"].as_str().expect("the tree"))
}

#[test]
fn python_and_git_run_in_an_image_of_the_host() {
    each(|scene| {
        let built = build(scene, "tools", "python3,/usr/bin/git,coreutils");
        let digest = built["digest"].as_str().expect("a digest");
        for provider in providers() {
            with_provider(provider, || {
                println!("{provider}");
                let python = "import ssl, json, sqlite3, hashlib, ctypes, socket; print(sum(range(10)))";
                let outcome = run(scene, "tools").run(["python3", "-I", "-c", python]);
                outcome.code(0).stdout("45\n");
                let clauses = outcome.receipt_clauses();
                let host =
                    clauses.iter().find(|line| line["clause"] == "filesystem.host").expect("the clause");
                assert_eq!(host["value"], format!("image tools ({digest})"), "{host}");
                let git = "git init -q repo && cd repo && echo x > a && git add a && git commit -qm one && git log --oneline | wc -l";
                run(scene, "tools")
                    .args(["--workspace", "private"])
                    .run(["sh", "-c", git])
                    .code(0)
                    .stdout("1\n");
                // What the host has and nobody asked for is not there.
                for program in ["perl", "/usr/bin/perl", "bash", "/usr/bin/apt-get", "/usr/sbin/ldconfig"] {
                    run(scene, "tools").run([program, "--version"]).code(127);
                }
            });
        }
    });
}

#[test]
fn the_same_host_gives_the_same_digest() {
    let digests: Vec<String> = Identity::all()
        .into_iter()
        .flat_map(|identity| {
            let scene = Scene::new(identity);
            [build(&scene, "one", "python3"), build(&scene, "two", "python3")]
                .map(|built| built["digest"].as_str().expect("a digest").to_owned())
        })
        .collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
}

/// The file rows of the escape table, in an image: what is read is the image's or is not there at all.
#[test]
fn nothing_of_the_hosts_directories_is_visible() {
    each(|scene| {
        build(scene, "shell", "coreutils");
        image(scene, &["build", "marked", "--from", &rootfs(scene, "shell").display().to_string()]).code(0);
        // A daemon takes a third of a second for a container, and what a profile shows is the same code everywhere.
        let profiles = ["restrictive", "moderate", "permissive"];
        for (provider, profile) in providers()
            .flat_map(|one| profiles.map(|two| (one, two)))
            .filter(|(provider, profile)| *provider != "docker" || *profile == "permissive")
        {
            with_provider(provider, || {
                println!("{provider} {profile}");
                let sh = |line: &str| run(scene, "shell").profile(profile).run(["sh", "-c", line]);
                let hosts = [
                    "/etc/shadow",
                    "/etc/hostname",
                    "/etc/apt",
                    "/etc/ssh",
                    "/usr/share/doc",
                    "/usr/include",
                    "/var/lib",
                    "/var/log",
                    "/boot",
                    "/root/.ssh",
                    "/srv",
                    "/mnt",
                    "/sys/kernel",
                ];
                for path in hosts {
                    let outcome = sh(&format!("ls -d {path}"));
                    assert_ne!(outcome.exit, 0, "{path} is there\n{}", outcome.describe());
                }
                for path in [scene.secret(), scene.state(), scene.state().join("images")] {
                    let outcome =
                        sh(&format!("cat {0} {0}/* 2>/dev/null; ls -A {0} 2>/dev/null", path.display()));
                    outcome.stdout("");
                }
                // The image is read-only, for root too; and what is written elsewhere is gone.
                for path in ["/usr/x", "/usr/bin/sh", "/etc/x", "/etc/passwd", "/var/x", "/x"] {
                    let outcome = sh(&format!("echo x > {path}"));
                    assert_ne!(outcome.exit, 0, "{path} was written\n{}", outcome.describe());
                }
                sh("ls /").code(0);
                let top = sh("ls -A /").output;
                for strange in ["boot", "srv", "media", "lost+found"] {
                    assert!(!top.lines().any(|name| name == strange), "{top}");
                }
                // Where PATH leads is the image's own affair.
                let outcome = run(scene, "shell").profile(profile).env("PATH", "/nowhere:/usr/bin").run([
                    "sh",
                    "-c",
                    "echo $PATH",
                ]);
                outcome.code(0).stdout("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
                let marked =
                    run(scene, "marked").profile(profile).run(["sh", "-c", "cat /etc/marker; ls -d /app"]);
                marked.code(0).stdout("of the image/app\n");
            });
        }
        assert!(image(scene, &["verify"]).exit == 0, "a sandbox changed an image");
    });
}

#[test]
fn an_image_that_is_missing_is_refused_with_how_to_make_it() {
    each(|scene| {
        for provider in providers() {
            with_provider(provider, || {
                let outcome = run(scene, "gone").plain().run(["true"]);
                outcome
                    .refused("there is no image `gone`")
                    .stderr_contains("ringfence image build gone --from host");
                run(scene, "../up").plain().run(["true"]).refused("not the name of an image");
            });
        }
        assert!(!scene.state().join("images").exists(), "looking made something");
    });
}

#[test]
fn a_projects_file_may_not_choose_an_image() {
    each(|scene| {
        build(scene, "shell", "coreutils");
        scene.write("ws/ringfence.toml", "image = 'shell'\n");
        Test::in_scene(scene).plain().run(["true"]).refused("image");
        Test::in_scene(scene).verb(["trust"]).call().code(0);
        Test::in_scene(scene).run(["sh", "-c", "test ! -e /usr/share/doc"]).code(0);
        run(scene, "shell").run(["true"]).code(0);
    });
}

#[test]
fn an_image_is_not_removed_while_a_sandbox_shows_it() {
    each(|scene| {
        build(scene, "shell", "coreutils,bash");
        for provider in providers() {
            with_provider(provider, || {
                let running = run(scene, "shell").plain().spawn(["sh", "-c", "touch ready; sleep 300"]);
                eventually("the command is ready", || scene.workspace().join("ready").exists());
                image(scene, &["rm", "shell"]).refused("the image is in use");
                running.signal(Signal::KILL);
                let _ = running.wait();
                fs::remove_file(scene.workspace().join("ready")).expect("remove the mark");
                let session = Session::create(scene, ["--image", "shell"]);
                image(scene, &["rm", "shell"]).refused("the image is in use");
                session.sh("ls /usr/bin/env").code(0);
                session.remove();
            });
        }
        eventually("the image is free", || {
            image(scene, &["verify", "shell"]).exit == 0 && image(scene, &["rm", "shell"]).exit == 0
        });
        run(scene, "shell").plain().run(["true"]).refused("there is no image");
        let trees = fs::read_dir(scene.state().join("images/trees")).expect("the trees").count();
        assert_eq!(trees, 0);
    });
}

#[test]
fn a_changed_image_is_found_and_built_again() {
    each(|scene| {
        build(scene, "shell", "coreutils");
        let tree = tree(scene, "shell");
        fs::write(tree.join("usr/bin/evil"), "x").expect("write to the tree");
        let outcome = image(scene, &["verify", "shell"]);
        outcome.code(125).stderr_contains("/usr/bin/evil is not a part of the image");
        build(scene, "shell", "coreutils");
        image(scene, &["verify", "shell"]).code(0);
        assert!(!tree.join("usr/bin/evil").exists());
    });
}

#[test]
fn a_workspace_and_shown_directories_lie_in_the_image() {
    each(|scene| {
        build(scene, "shell", "coreutils");
        scene.write("ws/file", "mine");
        for provider in providers() {
            with_provider(provider, || {
                let read = scene.outside();
                let line = format!(
                    "cat {}/file /workspace/file {}/secret && echo new > made",
                    scene.workspace().display(),
                    read.display()
                );
                let outcome = run(scene, "shell")
                    .args(["--read", &read.display().to_string()])
                    .run(["sh", "-c", &line]);
                outcome.code(0).stdout(&format!("minemine{}", scene.token));
                assert_eq!(scene.read("ws/made").as_deref(), Some("new\n"));
            });
        }
    });
}

/// What `docker import` took in: built by the daemon's own archive of it, and run.
#[test]
fn an_image_of_docker_is_taken_over() {
    if !has_docker() {
        return;
    }
    let daemon = docker();
    for identity in Identity::all() {
        println!("as {identity:?}");
        let scene = Scene::new(identity);
        build(&scene, "shell", "coreutils");
        let root = rootfs(&scene, "shell");
        let name = format!("rftest/{}:one", scene.token.to_lowercase());
        let line = format!(
            "set -e; tar -C '{}' -c . | docker -H '{}' import - '{name}'",
            root.display(),
            daemon.host()
        );
        let imported = Command::new("bash").args(["-o", "pipefail", "-c", &line]).output().expect("bash");
        assert!(imported.status.success(), "{imported:?}");
        let build = |from: &str, host: &str| {
            let words = ["image", "build", "taken", "--from", from, "--json"];
            Test::in_scene(&scene).verb(words).env("DOCKER_HOST", host).call()
        };
        let built = build(&format!("docker:{name}"), &daemon.host());
        built.code(0);
        image(&scene, &["verify", "taken"]).code(0);
        run(&scene, "taken").run(["cat", "/etc/marker"]).code(0).stdout("of the image");
        with_provider("docker", || run(&scene, "taken").run(["cat", "/etc/marker"]))
            .code(0)
            .stdout("of the image");
        assert_ne!(build("docker:rftest/no-such:one", &daemon.host()).exit, 0);
        if identity == Identity::User {
            assert_ne!(build(&format!("docker:{name}"), &daemon.closed_host()).exit, 0);
        }
        let removed = Command::new("docker").args(["-H", &daemon.host(), "rmi", &name]).output();
        assert!(removed.expect("docker").status.success());
    }
}

#[test]
fn a_skill_is_packed_with_an_image_and_runs_elsewhere() {
    let scene = Scene::new(Identity::all()[0]);
    scene.write(
        "ws/adder/SKILL.md",
        "---\nname: adder\ndescription: Adds numbers. Use it for sums.\n---\n# Adder\n",
    );
    scene.write("ws/adder/scripts/add.py", "import sys\nprint(sum(int(word) for word in sys.argv[1:]))\n");
    let pack = ["skill", "pack", "adder", "--image", "host:python3", "-o", "adder.tar.zst", "--json"];
    let packed = Test::in_scene(&scene).verb(pack).call();
    packed.code(0);
    let packed: Value = serde_json::from_str(&packed.output).expect("JSON");
    assert_eq!(packed["skill"]["path"], "/opt/skills/adder");
    let elsewhere = Scene::new(scene.identity);
    let archive = scene.workspace().join("adder.tar.zst").display().to_string();
    let build = Test::in_scene(&elsewhere).verb(["image", "build", "adder", "--from", &archive]).call();
    build.code(0);
    let outcome = run(&elsewhere, "adder").run(["python3", "/opt/skills/adder/scripts/add.py", "4", "5"]);
    outcome.code(0).stdout("9\n");
    let shown: Value =
        serde_json::from_str(&image(&elsewhere, &["show", "adder", "--json"]).output).expect("JSON");
    assert_eq!(shown["skill"]["version"], packed["skill"]["version"]);
    image(&elsewhere, &["verify", "adder"]).code(0);
    // The archive of an image that is not there, and a skill that is none, are refused before anything is written.
    let gone =
        Test::in_scene(&scene).verb(["skill", "pack", "adder", "--image", "gone", "-o", "b.tar.zst"]).call();
    gone.refused("there is no image `gone`");
    assert!(!scene.workspace().join("b.tar.zst").exists());
    let skill = Test::in_scene(&scene).verb(["skill", "run", "--image", "adder", "./adder", "add.py"]).call();
    skill.refused("fitted to this host");
}

#[test]
fn wrong_requests_are_told() {
    let scene = Scene::new(Identity::all()[0]);
    for (words, part) in [
        (&["build", "x", "--from", "host"][..], "needs programs"),
        (&["build", "x", "--from", "host", "--with", "no-such-program-at-all"], "no program"),
        (&["build", "x", "--from", "host", "--with", "/root/.bashrc"], "not taken into an image"),
        (&["build", "x", "--from", "/nowhere.tar"], "/nowhere.tar"),
        (&["build", "x", "--from", ".", "--with", "sh"], "--with names programs of the host"),
        (&["build", "X", "--from", "."], "not the name of an image"),
        (&["rm", "gone"], "there is no image `gone`"),
        (&["show", "gone"], "there is no image `gone`"),
        (&["verify", "gone"], "there is no image `gone`"),
    ] {
        image(&scene, words).refused(part);
    }
    let docker = Test::in_scene(&scene).verb(["image", "build", "x", "--from", "docker:busybox"]);
    docker
        .env("DOCKER_HOST", "unix:///nowhere.sock")
        .call()
        .refused("can't be asked")
        .stderr_contains("docker save");
    let tcp = Test::in_scene(&scene).verb(["image", "build", "x", "--from", "docker:busybox"]);
    tcp.env("DOCKER_HOST", "tcp://127.0.0.1:1").call().refused("over a unix socket only");
    assert_eq!(image(&scene, &["ls", "--json"]).output, "[]\n");
}
