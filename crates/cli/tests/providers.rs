//! The behaviour table: what a caller sees of a sandbox is the same whichever provider makes it. Each row runs under every
//! provider that this version has, as root and as an ordinary user; a name without an implementation is refused in words.

use std::io::{Read, Write};
use std::net::TcpListener;

use ringfence_testing::{
    DockerDaemon, Identity, Leftovers, Scene, Session, Test, children, docker, eventually, has_docker,
    provider_flags, with_provider,
};
use rustix::process::{Pid, Signal, kill_process};

const PROVIDERS: [&str; 5] = ["native", "bwrap", "docker", "oci:crun", "oci:runc"];

/// Run a row everywhere; nothing may be left of it.
fn everywhere(row: impl Fn(&Scene)) {
    for provider in PROVIDERS.into_iter().filter(|provider| *provider != "docker" || has_docker()) {
        for identity in Identity::all() {
            println!("{provider} as {identity:?}");
            let before = Leftovers::before().without_fds();
            let scene = Scene::new(identity);
            with_provider(provider, || row(&scene));
            drop(scene);
            before.assert_none_since();
        }
    }
}

fn run(scene: &Scene) -> Test {
    Test::in_scene(scene)
}

#[test]
fn exit_codes_and_signals() {
    everywhere(|scene| {
        run(scene).run(["true"]).code(0);
        run(scene).run(["sh", "-c", "exit 3"]).code(3);
        run(scene).run(["sh", "-c", "kill -TERM $$"]).code(143);
        run(scene).run(["sh", "-c", "kill -KILL $$"]).code(137);
        run(scene).run(["/etc/passwd"]).code(126);
        run(scene).run(["no-such-program"]).code(127);
    });
}

#[test]
fn input_and_output_pass_unchanged() {
    everywhere(|scene| {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let digest = run(scene).stdin(bytes).run(["sh", "-c", "cksum; echo done >&2"]);
        let same = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect::<Vec<u8>>();
        digest.code(0).stdout(&format!("{} 3000000\n", cksum(&same)));
        run(scene).run(["cat"]).code(0).stdout("");
        let large = run(scene).plain().run(["head", "-c", "5000000", "/dev/zero"]);
        assert_eq!((large.exit, large.output.len()), (0, 5_000_000));
    });
}

/// As POSIX has it.
fn cksum(bytes: &[u8]) -> u32 {
    let mut sum = 0_u32;
    let mut feed = |byte: u8| {
        sum ^= u32::from(byte) << 24;
        for _ in 0..8 {
            sum = if sum & 0x8000_0000 == 0 { sum << 1 } else { (sum << 1) ^ 0x04C1_1DB7 };
        }
    };
    bytes.iter().for_each(|byte| feed(*byte));
    let mut length = bytes.len();
    while length > 0 {
        feed(length as u8);
        length >>= 8;
    }
    !sum
}

#[test]
fn a_terminal_of_its_own() {
    everywhere(|scene| {
        let outcome =
            run(scene).plain().args(["-t"]).run(["sh", "-c", "tty; test -t 0 -a -t 1 && echo both"]);
        outcome.code(0).stdout_contains("/dev/pts/0").stdout_contains("both");
    });
}

#[test]
fn a_timeout_ends_the_whole_tree() {
    everywhere(|scene| {
        let line = "setsid sleep 300 & sleep 300";
        let outcome = run(scene).args(["--timeout", "1s"]).run(["sh", "-c", line]);
        outcome.code(124);
    });
}

#[test]
fn a_signal_is_passed_on() {
    everywhere(|scene| {
        let line = "trap 'echo told > told; exit 7' TERM; touch ready; while :; do sleep 0.05; done";
        let running = run(scene).plain().spawn(["sh", "-c", line]);
        eventually("the command is ready", || scene.workspace().join("ready").exists());
        running.signal(Signal::TERM);
        assert_eq!(running.wait().exit, 7);
        assert!(scene.workspace().join("told").exists());
    });
}

/// Whichever process of ours is killed, everything of the sandbox ends; `everywhere` counts what is left.
#[test]
fn a_killed_owner_leaves_nothing() {
    everywhere(|scene| {
        let running = run(scene).plain().spawn(["sh", "-c", "touch ready; setsid sleep 300 & sleep 300"]);
        eventually("the command is ready", || scene.workspace().join("ready").exists());
        running.signal(Signal::KILL);
        assert_eq!(running.wait().exit, 137);
        // Its empty cgroup and its placeholders are taken away by the next start, as SECURITY.md says.
        run(scene).run(["true"]).code(0);
    });
}

#[test]
fn a_killed_runtime_leaves_nothing() {
    everywhere(|scene| {
        let running = run(scene).plain().spawn(["sh", "-c", "touch ready; setsid sleep 300 & sleep 300"]);
        eventually("the command is ready", || scene.workspace().join("ready").exists());
        // Its one child: guard, or the program that made guard's namespaces. A container's is nobody's child here.
        let child = match (&children(running.pid())[..], &provider_flags()[..]) {
            ([child], _) => *child,
            ([], [.., name]) if name == "docker" => {
                docker().container_of(running.pid()).expect("a container")
            }
            (others, _) => panic!("{others:?}"),
        };
        kill_process(Pid::from_raw(child as i32).expect("a pid"), Signal::KILL).expect("kill it");
        assert_ne!(running.wait().exit, 0);
    });
}

#[test]
fn denials_are_reported() {
    everywhere(|scene| {
        let outcome = run(scene).run(["unshare", "--user", "true"]);
        assert_ne!(outcome.exit, 0);
        let told = outcome.denials().into_iter().any(|denial| denial.what.contains("unshare"));
        assert!(told, "{}", outcome.describe());
        let hidden = run(scene).args(["--trace"]).run(["sh", "-c", "echo x > /usr/x"]);
        assert!(
            hidden.denials().iter().any(|denial| denial.what.contains("/usr/x")),
            "{}",
            hidden.describe()
        );
    });
}

#[test]
fn limits_hold() {
    everywhere(|scene| {
        if scene.identity == Identity::Root {
            let outcome = run(scene).args(["--memory", "32M"]).run([
                "sh",
                "-c",
                "head -c 200M /dev/zero | tail -c 150M | wc -c",
            ]);
            assert!(
                outcome.denials().iter().any(|denial| denial.rule.contains("limits.memory")),
                "{}",
                outcome.describe()
            );
        }
        let line = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait";
        let outcome = run(scene).args(["--pids", "6"]).run(["bash", "-c", line]);
        assert!(outcome.errors.contains("fork"), "{}", outcome.describe());
        run(scene).args(["--open-files", "64"]).run(["sh", "-c", "ulimit -n"]).stdout("64\n");
        let full = run(scene).args(["--profile", "restrictive", "--disk", "1M"]).run([
            "sh",
            "-c",
            "head -c 3M /dev/zero > big",
        ]);
        assert_ne!(full.exit, 0, "{}", full.describe());
    });
}

#[test]
fn files_land_as_the_callers() {
    everywhere(|scene| {
        use std::os::unix::fs::MetadataExt;
        run(scene).run(["sh", "-c", "umask 022; mkdir d; echo text > d/file"]).code(0);
        let file = scene.workspace().join("d/file");
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), "text\n");
        let owner = scene.workspace().metadata().expect("the workspace").uid();
        assert_eq!(file.metadata().expect("the file").uid(), owner);
        std::fs::create_dir_all(scene.workspace().join(".git/hooks")).expect("hooks");
        scene.identity.own(&scene.workspace().join(".git"));
        scene.identity.own(&scene.workspace().join(".git/hooks"));
        std::fs::write(scene.workspace().join(".git/HEAD"), "ref: refs/heads/main\n").expect("HEAD");
        let hook = run(scene).run(["sh", "-c", "echo evil > .git/hooks/pre-commit"]);
        assert_ne!(hook.exit, 0, "{}", hook.describe());
    });
}

#[test]
fn the_way_out_is_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a client");
            let _ = client.write_all(b"hello from outside\n");
            let _ = client.shutdown(std::net::Shutdown::Write);
            let _ = client.read_to_end(&mut Vec::new());
        }
    });
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3");
    everywhere(|scene| {
        let granted = run(scene).args(["--allow-local", &port]).run(["bash", "-c", &line]);
        granted.code(0).stdout("hello from outside\n");
        let closed = run(scene).run(["bash", "-c", &line]);
        assert_ne!(closed.exit, 0);
        assert!(!closed.output.contains("hello"), "{}", closed.describe());
        // An address for documents, where nobody is: egress refuses it before anything is dialled.
        let elsewhere = "exec 3<>/dev/tcp/192.0.2.1/80";
        let another = run(scene).args(["--allow-local", &port]).run(["bash", "-c", elsewhere]);
        assert_ne!(another.exit, 0);
        assert!(another.denials().iter().any(|denial| denial.kind == "network"), "{}", another.describe());
    });
}

#[test]
fn sessions_are_the_same() {
    everywhere(|scene| {
        let session = Session::create(scene, ["--overlay"]);
        session.sh("echo one > file; echo $$ > /tmp/pid").code(0);
        session.sh("cat file; test -e /tmp/pid && echo kept").code(0).stdout("one\nkept\n");
        session.sh("exit 9").code(9);
        assert!(!scene.workspace().join("file").exists(), "it is written to the layer");
        let seen = Test::in_scene(scene).verb(["session", "cat", &format!("{}:file", session.name)]).call();
        assert_eq!((seen.exit, seen.output.as_str()), (0, "one\n"), "{}", seen.describe());
        let receipt = session.json("inspect", &[])["receipt"].clone();
        let provider = receipt["provider"].as_str().expect("a provider");
        let runtime = receipt["runtime"].as_str().and_then(|words| words.split(' ').next());
        let made_by = [Some(provider), runtime].into_iter().flatten().collect::<Vec<_>>().join(":");
        assert!(PROVIDERS.contains(&made_by.as_str()), "{receipt}");
        session.remove();
    });
}

#[test]
fn binary_output_comes_byte_for_byte() {
    everywhere(|scene| {
        let every: Vec<u8> = (0..=255_u8).cycle().take(256 * 300).collect();
        std::fs::write(scene.workspace().join("every"), &every).expect("write");
        let got = scene.path("got");
        let file = std::fs::File::create(&got).expect("a file");
        run(scene).plain().stdout_file(file).run(["cat", "every"]).code(0);
        assert!(std::fs::read(&got).expect("what came") == every, "to a file");
        let (mut from, to) = std::io::pipe().expect("a pipe");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            from.read_to_end(&mut all).map(|_| all)
        });
        let to = std::fs::File::from(std::os::fd::OwnedFd::from(to));
        run(scene).plain().stdin(every.clone()).stdout_file(to).run(["cat"]).code(0);
        assert!(reader.join().expect("the reader").expect("read") == every, "through pipes");
    });
}

#[test]
fn input_ends_when_the_callers_does() {
    everywhere(|scene| {
        let (from, mut to) = std::io::pipe().expect("a pipe");
        let from = std::fs::File::from(std::os::fd::OwnedFd::from(from));
        let line = "cat > got; touch ended; echo all";
        let mut running = run(scene).plain().stdin_file(from).spawn(["sh", "-c", line]);
        to.write_all(b"some").expect("write");
        let got = scene.workspace().join("got");
        eventually("it has come", || std::fs::read(&got).is_ok_and(|bytes| bytes == b"some"));
        // Held open, it has not ended.
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!running.has_ended() && !scene.workspace().join("ended").exists());
        to.write_all(b" more").expect("write");
        drop(to);
        let outcome = running.wait();
        outcome.code(0).stdout("all\n");
        assert_eq!(std::fs::read(&got).expect("what came"), b"some more");
    });
}

/// By script(1), on a terminal of this size.
#[test]
fn a_terminal_has_the_callers_size() {
    everywhere(|scene| {
        let ringfence = ringfence_testing::Stage::get().ringfence.display().to_string();
        let words = [&["run".to_owned()], &provider_flags()[..], &["-t".to_owned()]].concat().join(" ");
        let line = format!("stty rows 31 cols 97; exec {ringfence} {words} -- stty size");
        let mut command = std::process::Command::new("script");
        command.args(["-q", "-e", "-c", &line, "/dev/null"]);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "dumb").env("HOME", scene.home());
        command.env("RINGFENCE_STATE_DIR", scene.state()).current_dir(scene.workspace());
        command.envs(ringfence_testing::provider_environment()).stdin(std::process::Stdio::null());
        scene.identity.apply(&mut command);
        let output = command.output().expect("script (bsdutils)");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("31 97"), "{output:?}");
    });
}

#[test]
fn a_commands_time_in_a_session_ends_the_command_alone() {
    everywhere(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        session.exec_with(&["--timeout", "500ms"], ["sh", "-c", "sleep 300 & sleep 300"]).code(124);
        session.assert_answers();
        session.remove();
    });
}

#[test]
fn files_of_a_session_are_written_listed_and_removed() {
    everywhere(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let call =
            |verb: &str, args: &[&str]| Test::in_scene(scene).verb(["session", verb]).args(args.to_vec());
        let at = |path: &str| format!("{}:/workspace/{path}", session.name);
        call("mkdir", &["-p", &at("a/b")]).call().code(0);
        call("write", &[&at("a/b/file")]).stdin(&b"text\n"[..]).call().code(0);
        session.sh("cat a/b/file").code(0).stdout("text\n");
        let listed = call("ls", &[&at("a/b")]).call();
        assert!(listed.exit == 0 && listed.output.contains("file"), "{}", listed.describe());
        assert_ne!(call("rm", &[&at("a")]).call().exit, 0, "a directory goes with -r only");
        call("rm", &["-r", &at("a")]).call().code(0);
        session.sh("test ! -e a && echo gone").code(0).stdout("gone\n");
        session.remove();
    });
}

#[test]
fn a_snapshot_of_an_overlay_session_is_gone_back_to() {
    everywhere(|scene| {
        std::fs::write(scene.workspace().join("own"), "own\n").expect("write");
        scene.identity.own(&scene.workspace().join("own"));
        let session = Session::create(scene, ["--overlay"]);
        session.sh("echo one > file; mkdir d; echo two > d/other").code(0);
        session.call("snapshot", &["--name", "before"]).code(0);
        session.sh("echo changed > file; rm -r d; echo changed > own; echo new > new").code(0);
        session.call("rollback", &["before"]).code(0);
        session.sh("cat file d/other own; ls").code(0).stdout("one\ntwo\nown\nd\nfile\nown\n");
        assert_eq!(scene.read("ws/own").as_deref(), Some("own\n"));
        session.remove();
    });
}

/// The keeper, guard, and whoever is guard's parent: whichever is killed, the session ends whole.
#[test]
fn a_session_ends_with_any_of_its_processes() {
    let parent = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
        line.trim().parse::<u32>().expect("a number")
    };
    everywhere(|scene| {
        for victim in ["keeper", "guard", "parent"] {
            let session = Session::create(scene, ["--profile", "restrictive"]);
            let _ = session.detach(&[], "setsid sleep 300 & sleep 300");
            let (keeper, guard) = (session.keeper(), session.guard());
            let pid = match victim {
                "keeper" => keeper,
                "guard" => guard,
                _ => parent(guard),
            };
            kill_process(Pid::from_raw(pid as i32).expect("a pid"), Signal::KILL).expect("kill it");
            let gone = |pid: u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
            eventually("guard and keeper are gone", || gone(keeper) && gone(guard));
            session.remove();
            // The next start takes the empty cgroup away.
            run(scene).run(["true"]).code(0);
        }
    });
}

#[test]
fn the_receipt_names_the_provider_and_its_mechanisms() {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        for (provider, by) in [
            ("bwrap", "bubblewrap"),
            ("oci:crun", "the runtime"),
            ("oci:runc", "the runtime"),
            ("docker", "container"),
        ] {
            if provider == "docker" && !has_docker() {
                continue;
            }
            let outcome = with_provider(provider, || run(&scene).run(["true"]));
            let receipt = outcome.json.as_ref().expect("JSON")["receipt"].clone();
            let (name, runtime) = provider.split_once(':').unwrap_or((provider, ""));
            assert_eq!(receipt["provider"], name);
            // With its version: "crun 1.8.1".
            let drove = receipt["runtime"].as_str().unwrap_or("");
            let version = drove.strip_prefix(runtime).expect(runtime).trim_start();
            assert_eq!(
                version.starts_with(|first: char| first.is_ascii_digit()),
                !runtime.is_empty(),
                "{drove}"
            );
            let lines = receipt["clauses"].as_array().expect("clauses");
            for clause in ["filesystem.host", "processes", "ipc", "hostname", "identity"] {
                let line = lines.iter().find(|line| line["clause"] == clause).expect(clause);
                assert!(line["mechanism"].as_str().expect("text").contains(by), "{line}");
            }
        }
        let auto = run(&scene).args(["--provider", "auto"]).run(["true"]);
        let receipt = auto.json.as_ref().expect("JSON")["receipt"].clone();
        assert_eq!(receipt["provider"], "native");
        assert!(receipt["chosen"].as_str().expect("why").starts_with("auto: native is the strongest"));
    }
}

#[test]
fn what_is_not_built_is_refused_and_nothing_runs() {
    for name in ["gvisor", "microvm"] {
        let scene = Scene::new(Identity::all()[0]);
        let outcome = run(&scene).args(["--provider", name]).run(["touch", "ran"]);
        outcome.code(125);
        assert!(
            outcome.describe().contains(&format!("the provider `{name}` is not built into this version"))
        );
        assert!(!scene.workspace().join("ran").exists());
    }
}

/// A project's file came with a clone: it may not choose a weaker wall.
#[test]
fn a_project_may_not_choose_a_weaker_wall() {
    let scene = Scene::new(Identity::all()[0]);
    std::fs::write(scene.workspace().join("ringfence.toml"), "provider = \"bwrap\"\n").expect("write");
    let outcome = run(&scene).run(["touch", "ran"]);
    outcome.code(125);
    assert!(outcome.describe().contains("provider"), "{}", outcome.describe());
    assert!(!scene.workspace().join("ran").exists());
}

/// The words of a refusal, and that nothing ran.
fn refused(scene: &Scene, host: &str) -> String {
    let outcome = run(scene).args(["--provider", "docker"]).env("DOCKER_HOST", host).run(["touch", "ran"]);
    assert!(!scene.workspace().join("ran").exists());
    outcome.code(125).describe()
}

/// Docker that is not there, does not answer, may not be used, or is something else: said, and nothing runs.
#[test]
fn docker_that_can_not_be_used_is_refused_in_words() {
    use std::os::unix::net::UnixListener;
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let nobody = format!("unix://{}/no.sock", scene.root().display());
        assert!(refused(&scene, &nobody).contains("the Docker daemon does not answer at"));
        let path = scene.root().join("down.sock");
        drop(UnixListener::bind(&path).expect("a socket"));
        identity.own(&path);
        let down = refused(&scene, &format!("unix://{}", path.display()));
        assert!(down.contains("does not answer at") && down.contains("Connection refused"), "{down}");
        assert!(down.contains("systemctl start docker"), "{down}");
        for host in ["tcp://127.0.0.1:2375", "ssh://root@localhost"] {
            assert!(refused(&scene, host).contains("only a unix socket of this machine can be used"));
        }
        for (answer, words) in [
            (
                "HTTP/1.1 200 OK\r\nApi-Version: 1.24\r\nContent-Length: 2\r\n\r\nOK",
                "version 1.24 of Docker's API, which is too old",
            ),
            ("220 mail.example.org ready\r\n", "does not speak Docker's API"),
        ] {
            let path = scene.root().join("other.sock");
            let listener = UnixListener::bind(&path).expect("a socket");
            identity.own(&path);
            let speaker = std::thread::spawn(move || {
                let (mut client, _) = listener.accept().expect("a client");
                let _ = client.read(&mut [0; 4096]);
                let _ = client.write_all(answer.as_bytes());
            });
            let said = refused(&scene, &format!("unix://{}", path.display()));
            speaker.join().expect("the speaker");
            assert!(said.contains(words), "{said}");
            std::fs::remove_file(&path).expect("remove it");
        }
    }
}

#[test]
fn docker_needs_access_to_the_socket() {
    if !has_docker() {
        return;
    }
    let scene = Scene::new(Identity::User);
    let said = refused(&scene, &docker().closed_host());
    assert!(said.contains("this user may not use the Docker socket"), "{said}");
    assert!(
        said.contains("docker needs access to the socket, which makes its user root in all but name"),
        "{said}"
    );
    // Granted by its group, it works: every row above runs so.
    with_provider("docker", || run(&scene).run(["true"])).code(0);
}

/// A container whose owner was killed before it was started is nobody's: the next start takes it away. So is a door.
#[test]
fn docker_strays_are_swept_by_the_next_start() {
    if !has_docker() {
        return;
    }
    let before = Leftovers::before().without_fds();
    let scene = Scene::new(Identity::Root);
    let host = docker().host();
    with_provider("docker", || run(&scene).run(["true"])).code(0);
    let label = format!("ringfence.state={}", scene.state().display());
    let images =
        std::process::Command::new("docker").args(["-H", &host, "images", "-q", "ringfence/empty"]).output();
    let image = String::from_utf8(images.expect("docker").stdout).expect("text");
    // Of a process that is no more: no process has been there since the machine began.
    let namespace = std::fs::read_link("/proc/self/ns/pid").expect("a namespace").display().to_string();
    let namespace = namespace.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let owner = format!("ringfence.owner=4194303-1-{namespace}");
    let made = std::process::Command::new("docker")
        .args(["-H", &host, "create", "--label", &owner, "--label", &label, image.trim(), "/none"])
        .output()
        .expect("docker");
    assert!(made.status.success(), "{made:?}");
    scene.mkdir(&format!("state/docker/4194303-1-{namespace}.0/in"));
    with_provider("docker", || run(&scene).run(["true"])).code(0);
    assert!(!scene.state().join("docker").exists(), "the door of one that was killed is there still");
    drop(scene);
    before.assert_none_since();
}

/// The daemon is killed: what runs goes on to its end, and what it left is gone once the daemon is back.
#[test]
fn a_killed_docker_daemon_leaves_nothing() {
    if !has_docker() {
        return;
    }
    let before = Leftovers::before().without_fds();
    let daemon = DockerDaemon::alone("killed");
    let scene = Scene::new(Identity::Root);
    let docker = |test: Test| test.args(["--provider", "docker"]).env("DOCKER_HOST", daemon.host());
    docker(run(&scene)).run(["true"]).code(0);
    let line = "touch ready; while [ ! -e go ]; do sleep 0.05; done; echo whole";
    let running = docker(run(&scene)).plain().spawn(["sh", "-c", line]);
    eventually("the command is ready", || scene.workspace().join("ready").exists());
    let pid = daemon.pid();
    kill_process(Pid::from_raw(pid as i32).expect("a pid"), Signal::KILL).expect("kill it");
    eventually("it is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    std::fs::write(scene.workspace().join("go"), "").expect("write");
    let outcome = running.wait();
    // A daemon that is back ends what it finds: the command may have been one of those.
    assert!(outcome.output == "whole\n" || outcome.exit != 0, "{}", outcome.describe());
    daemon.wait();
    eventually("the next start has taken all away", || {
        docker(run(&scene)).run(["true"]).exit == 0 && daemon.containers() == 0
    });
    drop(scene);
    before.assert_none_since();
}

/// One that lets no guard in is refused here, one that the daemon does not have by the daemon; nothing runs.
#[test]
fn docker_runs_by_a_runtime_that_it_has_and_refuses_the_others_in_words() {
    if !has_docker() {
        return;
    }
    for identity in Identity::all() {
        let before = Leftovers::before().without_fds();
        let scene = Scene::new(identity);
        let by = |runtime: &str, command: &[&str]| {
            with_provider("docker", || run(&scene).args(["--runtime", runtime]).run(command.to_vec()))
        };
        for (runtime, told) in [
            ("runsc", "the runtime `runsc` is gVisor, which can't make a sandbox with docker"),
            ("kata", "the runtime `kata` is Kata, which can't make a sandbox with docker"),
            ("kata-runtime", "the runtime `kata-runtime` is Kata"),
            ("no-such", "no-such"),
        ] {
            let outcome = by(runtime, &["touch", "ran"]);
            assert!(outcome.code(125).describe().contains(told), "{}", outcome.describe());
            assert!(!scene.workspace().join("ran").exists());
        }
        let outcome = by("runc", &["true"]);
        outcome.code(0);
        assert_eq!(outcome.json.as_ref().expect("JSON")["receipt"]["runtime"], "runc");
        // crun refuses hosts with cgroup v1 beside v2; where it does not, the sandbox is the same.
        let outcome = by("crun", &["sh", "-c", "touch ran; id -u"]);
        match outcome.exit {
            0 => assert_eq!(outcome.json.as_ref().expect("JSON")["receipt"]["runtime"], "crun"),
            _ => {
                assert!(outcome.code(125).describe().contains("hybrid mode"), "{}", outcome.describe());
                assert!(!scene.workspace().join("ran").exists());
            }
        }
        drop(scene);
        before.assert_none_since();
    }
}

/// What can build sandboxes here, and what each of it can hold.
#[test]
fn provider_ls_tells_the_truth_and_changes_nothing() {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let ls = |flags: &[&str]| {
            let words = [&["provider", "ls"][..], flags].concat();
            Test::in_scene(&scene).verb(words).env("DOCKER_HOST", "unix:///nowhere/docker.sock").call()
        };
        let (table, json) = (ls(&[]), ls(&["--json"]));
        table.code(0);
        json.code(0);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json.output).expect("JSON");
        let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        assert_eq!(table.output.lines().count(), 6, "{}", table.output);
        for row in &rows {
            let name = row["name"].as_str().expect("a name");
            let line = table.output.lines().find(|line| line.starts_with(&format!("{name}\t"))).expect(name);
            let available = row["available"] == true;
            assert_eq!(available, ["native", "bwrap", "oci"].contains(&name), "{row}");
            let refuses = row["refuses"].as_array().cloned().unwrap_or_default();
            let enforces = row["enforces"].as_array().expect("clauses").len();
            let all = ringfence_policy::Clause::ALL.len();
            assert_eq!(enforces + refuses.len(), if available { all } else { 0 }, "{row}");
            let said = match (available, refuses.is_empty()) {
                (false, _) => "nothing here",
                (true, true) => "every clause",
                (true, false) => "all but ",
            };
            assert!(line.contains(said), "{line}");
            // What it says is refused is refused, and what it does not say is enforced.
            if available {
                for (clause, flags) in [
                    ("limits.memory", ["--memory", "64M"]),
                    ("limits.cpus", ["--cpus", "1"]),
                    ("limits.processes", ["--pids", "30"]),
                ] {
                    let told = refuses.iter().any(|refused| refused["clause"] == clause);
                    let outcome = run(&scene).args(["--provider", name]).args(flags).run(["true"]);
                    assert_eq!(outcome.exit, if told { 125 } else { 0 }, "{name}: {}", outcome.describe());
                }
            }
        }
        let docker = rows.iter().find(|row| row["name"] == "docker").expect("docker");
        assert!(docker["why"].as_str().expect("why").contains("does not answer"), "{docker}");
    }
}

/// A container of an owner that is no more is a start's to take away: looking does not.
#[test]
fn docker_is_looked_at_and_nothing_taken_away() {
    if !has_docker() {
        return;
    }
    let scene = Scene::new(Identity::Root);
    let host = docker().host();
    with_provider("docker", || run(&scene).run(["true"])).code(0);
    let docker_says = |words: &[&str]| {
        let output =
            std::process::Command::new("docker").args(["-H", &host]).args(words).output().expect("docker");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    let image = docker_says(&["images", "-q", "ringfence/empty"]);
    let namespace = std::fs::read_link("/proc/self/ns/pid").expect("a namespace").display().to_string();
    let namespace = namespace.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let owner = format!("ringfence.owner=4194303-1-{namespace}");
    let label = format!("ringfence.state={}", scene.state().display());
    let stray = docker_says(&["create", "--label", &owner, "--label", &label, &image, "/none"]);
    for words in [&["provider", "ls"][..], &["doctor"]] {
        let _ = Test::in_scene(&scene).verb(words.to_vec()).env("DOCKER_HOST", &host).call();
        let left = docker_says(&["ps", "-aq", "--no-trunc", "--filter", &format!("label={owner}")]);
        assert!(left.contains(&stray), "{words:?} took it away");
    }
    with_provider("docker", || run(&scene).run(["true"])).code(0);
    let left = docker_says(&["ps", "-aq", "--no-trunc", "--filter", &format!("label={owner}")]);
    assert!(!left.contains(&stray), "the next start left it");
}

/// Which commands would run is shown, and decided by why it can't be used; what no command changes is said.
#[test]
fn doctor_fix_does_what_the_cause_asks_for() {
    use serde_json::Value;
    let scene = Scene::new(Identity::all()[0]);
    let nowhere = format!("unix://{}/no.sock", scene.root().display());
    let fix = |words: &[&str]| {
        let words = [&["doctor", "--fix"][..], words].concat();
        Test::in_scene(&scene).verb(words).env("DOCKER_HOST", &nowhere).call()
    };
    for provider in ["native", "bwrap", "oci"] {
        let done = fix(&[provider]);
        done.code(0).stdout(&format!("{provider}: nothing to do, it can be used\n"));
        let told: Value = serde_json::from_str(&fix(&[provider, "--yes", "--json"]).output).expect("JSON");
        assert_eq!(told, serde_json::json!({ "provider": provider, "steps": [], "ran": false }));
    }
    for provider in ["gvisor", "microvm"] {
        for flags in [&["--dry-run"][..], &["--yes"], &["--yes", "--json"], &[]] {
            let refused = fix(&[&[provider][..], flags].concat());
            assert_eq!(refused.exit, 125, "{}", refused.describe());
            let words = format!("the provider `{provider}` is not built into this version");
            assert!(refused.describe().contains(&words), "{}", refused.describe());
            assert!(!refused.describe().contains("apt-get"), "{}", refused.describe());
        }
    }
    assert!(fix(&["auto", "--dry-run"]).code(125).errors.contains("is a choice"));
    // It is not there where the caller says: nothing is installed over it.
    let down = fix(&["docker", "--dry-run"]);
    down.code(125).stderr_contains("does not answer").stderr_contains("nothing is installed");
    if has_docker() && !std::path::Path::new("/var/run/docker.sock").exists() {
        let stopped = Test::in_scene(&scene).verb(["doctor", "--fix", "docker", "--dry-run"]).call();
        let said = stopped.describe();
        // By systemd, or by the init of a system without it.
        assert!(said.contains("systemctl start docker") || said.contains("service docker start"), "{said}");
        assert!(!stopped.describe().contains("apt"), "{}", stopped.describe());
    }
}

/// On a system whose bubblewrap is not there, in a mount namespace: what would run is shown before anybody is asked.
#[test]
fn doctor_fix_shows_the_commands_first() {
    use serde_json::Value;
    if !Identity::Root.is_available() || !std::path::Path::new("/usr/bin/apt-get").exists() {
        return;
    }
    let scene = Scene::new(Identity::Root);
    let fix = |flags: &[&str]| {
        let ringfence = ringfence_testing::Stage::get().ringfence.display().to_string();
        let line = "mount --bind /dev/null /usr/bin/bwrap && exec \"$0\" doctor --fix bwrap \"$@\"";
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", line, &ringfence]).args(flags);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", scene.home());
        command.env("RINGFENCE_STATE_DIR", scene.state()).stdin(std::process::Stdio::null());
        let output = command.output().expect("unshare (util-linux)");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let install = "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends bubblewrap";
    let (code, out, errors) = fix(&["--dry-run"]);
    assert_eq!((code, out.contains(install)), (Some(1), true), "{out}{errors}");
    let (code, out, errors) = fix(&["--dry-run", "--json"]);
    let told: Value = serde_json::from_str(&out).expect("JSON alone on stdout");
    assert_eq!((code, &told["ran"]), (Some(1), &Value::Bool(false)), "{told}");
    assert_eq!(told["steps"].as_array().map(Vec::len), Some(2), "{told}");
    assert!(errors.contains(install), "{errors}");
    for flags in [&[][..], &["--json"]] {
        let (code, out, errors) = fix(flags);
        assert_eq!(code, Some(125), "{out}{errors}");
        assert!(errors.contains("there is nobody to ask"), "{errors}");
        assert!(format!("{out}{errors}").contains(install), "{out}{errors}");
    }
}

/// Which of two runtimes is the weaker wall is not known, so it is not a project's to choose either.
#[test]
fn a_project_may_not_choose_a_runtime() {
    let scene = Scene::new(Identity::all()[0]);
    std::fs::write(scene.workspace().join("ringfence.toml"), "runtime = \"runc\"\n").expect("write");
    let outcome = run(&scene).args(["--provider", "oci"]).run(["touch", "ran"]);
    outcome.code(125);
    assert!(outcome.describe().contains("runtime"), "{}", outcome.describe());
    assert!(!scene.workspace().join("ran").exists());
}

#[test]
fn a_runtime_that_cannot_be_had_is_refused_and_nothing_runs() {
    for (flags, told) in [
        (["--provider", "oci", "--runtime", "podman"], "oci has no runtime `podman`"),
        (["--provider", "oci", "--runtime", "youki"], "youki is not installed"),
        (["--provider", "oci", "--runtime", "kata-runtime"], "kata-runtime is not installed"),
        (["--provider", "oci", "--runtime", "../runc"], "can't be the name of a runtime"),
        (["--provider", "native", "--runtime", "runc"], "the provider `native` has no runtimes"),
        (["--provider", "auto", "--runtime", "runc"], "the provider `auto` has no runtimes"),
    ] {
        let scene = Scene::new(Identity::all()[0]);
        let outcome = run(&scene).args(flags).run(["touch", "ran"]);
        assert_ne!(outcome.exit, 0);
        assert!(outcome.describe().contains(told), "{}", outcome.describe());
        assert!(!scene.workspace().join("ran").exists());
    }
}
