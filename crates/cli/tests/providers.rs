//! The behaviour table: what a caller sees of a sandbox is the same whichever provider makes it. Each row runs under every
//! provider that this version has, as root and as an ordinary user; a name without an implementation is refused in words.

use std::io::{Read, Write};
use std::net::TcpListener;

use ringfence_testing::{Identity, Leftovers, Scene, Session, Test, children, eventually, with_provider};
use rustix::process::{Pid, Signal, kill_process};

const PROVIDERS: [&str; 2] = ["native", "bwrap"];

/// Run a row everywhere; nothing may be left of it.
fn everywhere(row: impl Fn(&Scene)) {
    for provider in PROVIDERS {
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
        // Its one child: guard, or the program that made guard's namespaces.
        let [child] = children(running.pid())[..] else { panic!("{:?}", children(running.pid())) };
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
        let provider = session.json("inspect", &[])["receipt"]["provider"].clone();
        assert!(PROVIDERS.iter().any(|name| provider == **name), "{provider}");
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
        let outcome = with_provider("bwrap", || run(&scene).run(["true"]));
        let receipt = outcome.json.as_ref().expect("JSON")["receipt"].clone();
        assert_eq!(receipt["provider"], "bwrap");
        let lines = receipt["clauses"].as_array().expect("clauses");
        for clause in ["filesystem.host", "processes", "ipc", "hostname", "identity"] {
            let line = lines.iter().find(|line| line["clause"] == clause).expect(clause);
            assert!(line["mechanism"].as_str().expect("text").contains("bubblewrap"), "{line}");
        }
        let auto = run(&scene).args(["--provider", "auto"]).run(["true"]);
        let receipt = auto.json.as_ref().expect("JSON")["receipt"].clone();
        assert_eq!(receipt["provider"], "native");
        assert!(receipt["chosen"].as_str().expect("why").starts_with("auto: native is the strongest"));
    }
}

#[test]
fn what_is_not_built_is_refused_and_nothing_runs() {
    for name in ["oci", "gvisor", "docker", "microvm"] {
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
