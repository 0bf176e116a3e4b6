//! Every example skill, end to end, with the real binary, as root and as an ordinary user. Packages come from the registries
//! that pip and npm here are configured to use; where there are none that is a notice, and a failure in CI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ringfence_testing::{Identity, Outcome, Scene, Test};
use serde_json::Value;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/skills").canonicalize().expect("the examples")
}

/// A scene with a library of all examples in it, readable by its identity.
struct Stage {
    scene: Scene,
}

impl Stage {
    fn new(identity: Identity) -> Self {
        let scene = Scene::new(identity);
        for entry in fs::read_dir(examples()).expect("list the examples").flatten() {
            copy(&scene, &entry.path(), &format!("library/examples/{}", entry.file_name().to_string_lossy()));
        }
        Self { scene }
    }

    /// `skill run --json` of an example from the library, with the package clients as they are configured here.
    fn run(&self, flags: &[&str], skill: &str, rest: &[&str]) -> Outcome {
        let library = self.scene.path("library");
        let mut test =
            as_configured(&self.scene).verb(["skill", "run"]).args(["--timeout", "300s", "--library"]);
        test = test.args([library]).args(flags.to_vec());
        let outcome = test.args(["--json", skill]).args(rest.to_vec()).call();
        parsed(outcome)
    }

    fn call(&self, words: &[&str]) -> Outcome {
        let library = self.scene.path("library");
        let (verb, rest) = words.split_at(2.min(words.len()));
        as_configured(&self.scene)
            .verb(verb.to_vec())
            .args(["--library"])
            .args([library])
            .args(rest.to_vec())
            .call()
    }
}

/// What `call` printed, read as the object of `--json`.
fn parsed(mut outcome: Outcome) -> Outcome {
    let Ok(json) = serde_json::from_str::<Value>(&outcome.output) else { return outcome };
    let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    outcome.output = text("stdout");
    outcome.errors = text("stderr") + &outcome.errors;
    outcome.json = Some(json);
    outcome
}

fn copy(scene: &Scene, from: &Path, to: &str) {
    if from.is_dir() {
        scene.mkdir(to);
        for entry in fs::read_dir(from).expect("list a skill").flatten() {
            copy(scene, &entry.path(), &format!("{to}/{}", entry.file_name().to_string_lossy()));
        }
    } else {
        scene.write(to, &fs::read_to_string(from).expect("read a skill"));
    }
}

/// The variables that configure package clients, and nothing else of the caller's.
fn as_configured(scene: &Scene) -> Test {
    let mut test = Test::in_scene(scene);
    for (name, value) in std::env::vars_os() {
        let known = name.to_string_lossy().into_owned();
        let configures = ["PIP_", "npm_config_", "NPM_CONFIG_", "SSL_CERT", "HTTPS_PROXY", "https_proxy"];
        if configures.iter().any(|prefix| known.starts_with(prefix)) {
            test = test.env(name, value);
        }
    }
    test
}

/// Does the client reach its registry here without a sandbox? Asked once for each.
fn reaches(client: &'static str) -> bool {
    static PIP: OnceLock<bool> = OnceLock::new();
    static NPM: OnceLock<bool> = OnceLock::new();
    let (known, script) = match client {
        "pip" => (&PIP, "/usr/bin/python3 -m pip download --no-deps --no-cache-dir -q -d \"$0\" six"),
        _ => (&NPM, "npm view --cache \"$0\" semver version"),
    };
    *known.get_or_init(|| {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let mut command = Command::new("timeout");
        command.args(["60", "sh", "-c", script]).arg(scratch.path()).current_dir(scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let reached = command.status().is_ok_and(|status| status.success());
        assert!(
            reached || std::env::var("CI").as_deref() != Ok("true"),
            "{client} can't reach its registry from here"
        );
        if !reached {
            eprintln!("skipped: {client} can't reach its registry from here");
        }
        reached
    })
}

fn each(test: impl Fn(&Stage)) {
    for identity in Identity::all() {
        test(&Stage::new(identity));
    }
}

fn changed(outcome: &Outcome) -> Vec<String> {
    let list = outcome
        .json
        .as_ref()
        .and_then(|json| json["workspace_changes"].as_array().cloned())
        .unwrap_or_default();
    list.iter()
        .map(|change| format!("{} {}", change["kind"].as_str().unwrap(), change["path"].as_str().unwrap()))
        .collect()
}

#[test]
fn every_example_is_valid() {
    for entry in fs::read_dir(examples()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let manifest = fs::read(entry.path().join("SKILL.md")).unwrap();
        assert_eq!(ringfence_skills::validate(&manifest, &name), [], "{name}");
    }
}

#[test]
fn python_with_nothing_but_itself() {
    each(|stage| {
        stage.scene.write("ws/a.txt", "one two two\nthree\n");
        let outcome = stage.run(&[], "word-count", &["--", "a.txt"]);
        outcome.code(0).stdout_contains("a.txt: 2 lines, 4 words, 18 characters").stdout_contains("two (2)");
        let json = outcome.json.as_ref().unwrap();
        assert_eq!(json["skill"]["name"], "word-count");
        assert_eq!(json["skill"]["domain"], "examples");
        assert_eq!(json["skill"]["script"], "scripts/count.py");
        assert_eq!(json["skill"]["digest"].as_str().unwrap().len(), 64);
        assert_eq!(json["dependencies"]["layer"].as_array().unwrap().len(), 0);
        assert_eq!(changed(&outcome), Vec::<String>::new());
        // By its stem, by its directory, as a module; and what is not there.
        stage.run(&[], "examples/word-count", &["count", "--", "a.txt"]).code(0);
        let path = stage.scene.path("library/examples/word-count");
        let outcome = stage.run(&[], path.to_str().unwrap(), &["--", "a.txt"]);
        outcome.code(0);
        assert_eq!(outcome.json.as_ref().unwrap()["skill"]["domain"], "local");
        stage
            .run(&["-m", "scripts.count"], "word-count", &["--", "a.txt"])
            .code(0)
            .stdout_contains("4 words");
        stage.run(&["-m", "scripts.none"], "word-count", &[]).refused("has no module scripts.none");
        stage.run(&[], "word-count", &["none.py"]).refused("it has scripts/count.py");
        stage.run(&[], "no-such-skill", &[]).refused("there is no skill no-such-skill");
    });
}

/// The examples whose packages pip installs: one scene for each identity, so that layers are made once.
#[test]
fn python_with_packages() {
    if !reaches("pip") {
        return;
    }
    each(|stage| {
        stage.scene.write("ws/a.yaml", "b: [1, two]\na: 2026-01-31\n");
        let outcome = stage.run(&[], "yaml-to-json", &["--", "a.yaml"]);
        outcome.code(0).stdout_contains("\"a\": \"2026-01-31\"").stderr_contains("installing");
        let json = outcome.json.as_ref().unwrap();
        assert_eq!(json["dependencies"]["inferred"].as_array().unwrap().len(), 0);
        let layer = json["dependencies"]["layer"][0].as_str().unwrap().to_owned();
        // Once installed it is there at once, and without a network.
        let again = stage.run(&[], "yaml-to-json", &["--", "a.yaml"]);
        again.code(0);
        assert!(!again.errors.contains("installing"), "{}", again.describe());
        assert_eq!(again.json.as_ref().unwrap()["network"], Value::Null);

        stage.scene.write("ws/p.html", "<title>Hello</title><h1>One</h1><a href='/x'>x</a>");
        let outcome = stage.run(&[], "page-titles", &["--", "p.html"]);
        outcome
            .code(0)
            .stdout_contains("p.html: Hello")
            .stdout_contains("h1: One")
            .stdout_contains("link: /x");
        outcome.stderr_contains("inferred from imports: beautifulsoup4");
        let inferred = outcome.json.as_ref().unwrap()["dependencies"]["inferred"].to_string();
        assert!(inferred.contains("beautifulsoup4") && inferred.contains("scripts/titles.py"), "{inferred}");

        stage.scene.write("ws/s.csv", "day,amount\n1,10\n2,12\n3,14\n");
        let outcome = stage.run(&[], "trend-chart", &["--", "s.csv", "--column", "amount"]);
        outcome.code(0).stdout_contains("3 values, slope 2.000");
        assert_eq!(changed(&outcome), ["new trend.png"]);
        let png = fs::read(stage.scene.path("ws/trend.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 500, "{} bytes", png.len());

        let kept = as_configured(&stage.scene).verb(["skill", "layers", "ls", "--json"]).call();
        let kept: Value = serde_json::from_str(&kept.output).unwrap();
        let one = kept.as_array().unwrap().iter().find(|one| one["key"] == layer.as_str()).unwrap();
        assert!(one["resolved"].to_string().to_lowercase().contains("yaml"), "{one}");
        as_configured(&stage.scene).verb(["skill", "layers", "rm", &layer[..8]]).call().code(0);
        assert_eq!(fs::read_dir(stage.scene.path("state/layers/staging")).unwrap().count(), 0);
    });
}

#[test]
fn bash_without_the_x_bit() {
    each(|stage| {
        stage.scene.write("ws/d/My  File.TXT", "x");
        let outcome = stage.run(&[], "tidy-names", &["--", "--apply", "d"]);
        outcome.code(0).stdout("My  File.TXT -> my-file.txt\n");
        assert_eq!(changed(&outcome), ["removed d/My  File.TXT", "new d/my-file.txt"]);
        stage.run(&[], "tidy-names", &["--", "none"]).code(2).stderr_contains("usage: tidy.sh");
    });
}

#[test]
fn node_with_a_package() {
    if !reaches("npm") {
        return;
    }
    each(|stage| {
        let outcome = stage.run(&[], "semver-sort", &["--", "1.10.0", "1.9.2", "2.0.0-rc.1"]);
        outcome.code(0).stdout("1.9.2\n1.10.0\n2.0.0-rc.1\n");
        assert_eq!(outcome.json.as_ref().unwrap()["network"], Value::Null);
        stage
            .run(&[], "semver-sort", &["--", "--range", "^1.0.0", "1.10.0", "2.0.0"])
            .code(0)
            .stdout("1.10.0\n");
    });
}

#[test]
fn perl() {
    each(|stage| {
        stage.scene.write("ws/a.log", "2026-01-31T12:00:00Z ERROR x\n2026-01-31T12:01:00Z INFO y\nnoise\n");
        let outcome = stage.run(&[], "log-summary", &["--", "a.log"]);
        outcome.code(0).stdout("ERROR 1\nINFO  1\nother 1\nerrors by hour:\n  2026-01-31T12 1\n");
    });
}

#[test]
fn a_skill_that_makes_a_skill() {
    each(|stage| {
        let text = "It's \"new\": a # test";
        let words =
            ["--", "--name", "my-new", "--description", text, "--out", "made/my-new", "--language", "bash"];
        let outcome = stage.run(&[], "skill-creator", &words);
        outcome.code(0).stdout("made made/my-new\n");
        assert_eq!(changed(&outcome), ["new made/my-new/SKILL.md", "new made/my-new/scripts/main.sh"]);
        let manifest = fs::read(stage.scene.path("ws/made/my-new/SKILL.md")).unwrap();
        assert_eq!(ringfence_skills::validate(&manifest, "my-new"), []);
        stage.run(&[], "./made/my-new", &[]).code(0).stdout("my-new is ready\n");
        stage.run(&[], "skill-creator", &words).code(1).stderr_contains("exists already");
    });
}

#[test]
fn files_under_one_root() {
    each(|stage| {
        let fs_skill = |words: &[&str]| stage.run(&[], "filesystem", &[&["--"], words].concat());
        fs_skill(&["write", "n/a.md", "--text", "Hello"]).code(0).stdout_contains("\"bytes\": 5");
        fs_skill(&["read", "n/a.md"]).code(0).stdout_contains("\"text\": \"Hello\"");
        fs_skill(&["list", "n"]).code(0).stdout_contains("[\"a.md\"]");
        let moved = fs_skill(&["move", "n/a.md", "n/b.md"]);
        moved.code(0);
        assert_eq!(
            changed(&moved),
            ["changed files/.fs-log.jsonl", "removed files/n/a.md", "new files/n/b.md"]
        );
        stage.scene.symlink("/etc", "ws/files/etc");
        for (words, why) in [
            (&["read", "../a.md"][..], "leads out of the root"),
            (&["read", "/etc/passwd"], "an absolute path"),
            (&["read", "etc/hosts.txt"], "leads out of the root"),
            (&["write", "x.sh", "--text", "x"], "the extension .sh is not allowed"),
            (&["write", ".fs-log.jsonl", "--text", ""], "the log is nobody's to change"),
            (&["move", "n/b.md", "../b.md"], "leads out of the root"),
            (&["delete", "n/none.md"], "no such file"),
        ] {
            fs_skill(words).code(1).stdout_contains(why);
        }
        let large = "x".repeat((1 << 20) + 1);
        let outcome = as_configured(&stage.scene)
            .verb(["skill", "run"])
            .args(["--library"])
            .args([stage.scene.path("library")])
            .args(["filesystem", "--", "write", "l.txt"])
            .stdin(large)
            .call();
        outcome.code(1).stdout_contains("larger than 1 MiB");
        fs_skill(&["delete", "n/b.md"]).code(0);
        let log = stage.scene.read("ws/files/.fs-log.jsonl").unwrap();
        assert_eq!(log.lines().count(), 13, "{log}");
        assert!(!log.contains("Hello"), "the log has what was written");
    });
}

#[test]
fn its_own_directory_is_read_only_or_a_copy() {
    each(|stage| {
        stage.run(&[], "cached-primes", &["--", "30"]).code(1).stderr_contains("Read-only file system");
        let outcome = stage.run(&["--copy"], "cached-primes", &["--", "30"]);
        outcome.code(0).stdout("10 primes up to 30, kept in primes.json\n");
        assert!(
            !stage.scene.path("library/examples/cached-primes/cache").exists(),
            "a copy was written through"
        );
    });
}

#[test]
fn a_secret_that_is_named_before_anything_runs() {
    each(|stage| {
        stage.scene.write("ws/n.txt", "note");
        let missing = stage.run(&[], "signed-note", &["--", "sign", "n.txt"]);
        missing.refused("NOTE_SIGNING_KEY").stderr_contains("--pass-env NOTE_SIGNING_KEY");
        assert!(!stage.scene.path("ws/n.txt.sig").exists());
        let with_key = |flags: &[&str], rest: &[&str]| {
            let test = as_configured(&stage.scene).env("NOTE_SIGNING_KEY", "k1").verb(["skill", "run"]);
            let test = test.args(["--library"]).args([stage.scene.path("library")]).args(flags.to_vec());
            parsed(test.args(["--json", "signed-note", "--"]).args(rest.to_vec()).call())
        };
        // That the caller has it does not hand it in.
        with_key(&[], &["sign", "n.txt"]).refused("NOTE_SIGNING_KEY");
        let outcome = with_key(&["--pass-env", "NOTE_SIGNING_KEY"], &["sign", "n.txt"]);
        outcome.code(0).stdout("signed: n.txt.sig\n");
        assert_eq!(changed(&outcome), ["new n.txt.sig"]);
        stage.run(&["--env", "NOTE_SIGNING_KEY=k2"], "signed-note", &["--", "check", "n.txt"]).code(1);

        stage.call(&["skill", "grant", "signed-note", "--env", "NOTE_SIGNING_KEY"]).code(0);
        stage.call(&["skill", "grant", "signed-note"]).code(0);
        with_key(&[], &["check", "n.txt"]).code(0).stdout("the signature is right\n");
        // The same skill at another place has no grant.
        copy(&stage.scene, &examples().join("signed-note"), "ws/signed-note");
        stage.run(&[], "./signed-note", &["--", "check", "n.txt"]).refused("NOTE_SIGNING_KEY");
        stage.call(&["skill", "revoke", "signed-note"]).code(0);
        with_key(&[], &["check", "n.txt"]).refused("NOTE_SIGNING_KEY");
    });
}

#[test]
fn keys_and_the_network_are_out_of_reach_and_said_to_be() {
    each(|stage| {
        stage.scene.write("home/.ssh/id_ed25519", &stage.scene.token);
        let home = stage.scene.home();
        let home = home.to_str().unwrap();
        for profile in ["restrictive", "moderate"] {
            let flags = ["--trace", "--profile", profile, "--workspace", "."];
            let outcome = stage.run(&flags, "curious", &["--", home, "192.0.2.1"]);
            outcome
                .code(0)
                .stdout_contains("the key can't be read")
                .stdout_contains("the network can't be reached");
            outcome.denial(".ssh").denial("192.0.2.1:443");
            assert!(!outcome.json.as_ref().unwrap().to_string().contains(&stage.scene.token));
        }
        // The twin: it works where it is allowed to.
        let ssh = stage.scene.path("home/.ssh");
        let flags = ["--profile", "restrictive", "--read", ssh.to_str().unwrap()];
        stage.run(&flags, "curious", &["--", home]).code(1).stdout_contains(&stage.scene.token);
    });
}

#[test]
fn an_archive_is_unpacked_for_the_run_and_gone_after_it() {
    each(|stage| {
        let archive = stage.scene.path("ws/tidy-names.skill");
        let source = stage.scene.path("library/examples/tidy-names");
        ringfence_skills::pack_file(&source, "tidy-names", ringfence_skills::Format::Zip, &archive).unwrap();
        stage.scene.identity.own(&archive);
        stage.scene.write("ws/d/A.TXT", "x");
        let outcome = stage.run(&[], "./tidy-names.skill", &["--", "d"]);
        outcome.code(0).stdout("A.TXT -> a.txt\n");
        assert_eq!(outcome.json.as_ref().unwrap()["skill"]["name"], "tidy-names");
        assert_eq!(fs::read_dir(stage.scene.path("state/scratch")).unwrap().count(), 0);
        stage.scene.write("ws/bad.skill", "PK not really");
        stage.run(&[], "./bad.skill", &[]).refused("bad.skill");
        assert_eq!(fs::read_dir(stage.scene.path("state/scratch")).unwrap().count(), 0);
        stage
            .call(&["skill", "grant", "./tidy-names.skill", "--host", "example.com"])
            .refused("an archive can't be granted");
    });
}

#[test]
fn the_whole_library_for_an_agent_that_looks_around() {
    each(|stage| {
        stage.scene.mkdir("library/.ringfence/private");
        let library = stage.scene.path("library");
        let look = "cd /skills && ls -A && head -n 2 examples/word-count/SKILL.md && cat word-count/SKILL.md | wc -l && \
                    bash /skills/tidy-names/scripts/tidy.sh /workspace && ! touch /skills/examples/x && ls /skills/.ringfence";
        let outcome = as_configured(&stage.scene)
            .args(["--skills", "--library"])
            .args([library])
            .run(["bash", "-c", look]);
        outcome
            .code(2)
            .stdout_contains("name: word-count")
            .stdout_contains("examples\n")
            .stderr_contains("Read-only");
        assert!(!outcome.output.contains(".ringfence"), "{}", outcome.describe());
    });
}

/// A neighbour in a shared library, or in the workspace, exchanges a skill for a link again and again.
#[test]
fn what_takes_the_place_of_a_skill_is_never_shown() {
    use std::sync::atomic::{AtomicBool, Ordering};
    /// Also when an assertion fails: the scope would wait for the neighbour for ever.
    struct StopAtTheEnd<'a>(&'a AtomicBool);
    impl Drop for StopAtTheEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    each(|stage| {
        let manifest = "---\nname: lure\ndescription: A test.\n---\n";
        stage.scene.write("private/key", "the secret\n");
        stage.scene.write("private/SKILL.md", manifest);
        stage.scene.write("library/team/lure/SKILL.md", manifest);
        stage
            .scene
            .write("library/team/lure/scripts/main.sh", "cat /skills/team/lure/key /skills/team/key\n");
        stage.scene.write("library/team/key", "");
        let (lure, link) = (stage.scene.path("library/team/lure"), stage.scene.path("library/team/.link"));
        std::os::unix::fs::symlink(stage.scene.path("private"), &link).unwrap();
        let (domain, away) = (stage.scene.path("library/team"), stage.scene.path("library/.away"));
        std::os::unix::fs::symlink(stage.scene.path("private"), &away).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = StopAtTheEnd(&stop);
            scope.spawn(|| {
                use rustix::fs::{CWD, RenameFlags, renameat_with};
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (one, other) = if turn % 4 < 2 { (&lure, &link) } else { (&domain, &away) };
                    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            });
            for _ in 0..12 {
                let one = stage.run(&[], "team/lure", &[]);
                let library = stage.scene.path("library");
                let all = as_configured(&stage.scene).args(["--skills", "--library"]).args([library]).run([
                    "bash",
                    "-c",
                    "cat /skills/team/key /skills/team/lure/key",
                ]);
                for outcome in [one, all] {
                    assert!(!outcome.output.contains("the secret"), "{}", outcome.describe());
                }
            }
        });
    });
}

/// What the digest does not cover does not run.
#[test]
fn caches_in_a_skill_are_not_seen() {
    each(|stage| {
        let at = |name: &str| format!("library/team/pdf/{name}");
        stage.scene.write(&at("SKILL.md"), "---\nname: pdf\ndescription: A test.\n---\n");
        let list = "ls -A /skills/team/pdf/scripts/__pycache__ /skills/team/pdf/node_modules; cat /skills/team/pdf/x.pyc\n";
        stage.scene.write(&at("scripts/main.sh"), list);
        stage.scene.write(&at("scripts/__pycache__/helper.cpython-311.pyc"), "evil");
        stage.scene.write(&at("node_modules/evil/index.js"), "evil");
        stage.scene.write(&at("x.pyc"), "evil");
        stage.scene.write("library/team/Not A Skill/x", "evil");
        stage.scene.write("library/team/linked/SKILL.md", "---\nname: linked\ndescription: A test.\n---\n");
        // What would hide the link would hide the user's files.
        stage.scene.write("ws/mine", "still here");
        stage.scene.symlink("/workspace/mine", "library/team/linked/x.pyc");
        stage.run(&[], "linked", &["main.sh"]).refused("x.pyc is a link");
        let one = stage.run(&[], "pdf", &["main.sh"]);
        one.code(0).stdout_contains("__pycache__:");
        let look = format!("{list}cat /skills/team/*/x /skills/team/linked/x.pyc; cat mine");
        let all = as_configured(&stage.scene)
            .args(["--skills", "--library"])
            .args([stage.scene.path("library")])
            .run(["bash", "-c", &look]);
        all.code(0)
            .stdout_contains("still here")
            .stderr_contains("team/linked is not shown: x.pyc is a link");
        for outcome in [one, all] {
            let shown = &outcome.output;
            assert!(!shown.contains("evil") && !shown.contains("helper"), "{}", outcome.describe());
        }
    });
}

#[test]
fn what_is_missing_is_named_and_nothing_runs() {
    each(|stage| {
        let manifest =
            |name: &str, more: &str| format!("---\nname: {name}\ndescription: A test.\n{more}---\n");
        stage.scene.write("ws/s/SKILL.md", &manifest("s", ""));
        stage.scene.write("ws/s/scripts/x.nosuch", "touch /workspace/ran\n");
        stage.run(&[], "./s", &["x.nosuch"]).refused("says neither by its first line nor by its extension");
        stage.scene.write("ws/s/scripts/y", "#!/usr/bin/env nosuchinterpreter\n");
        stage.run(&[], "./s", &["y"]).refused("there is no nosuchinterpreter on this machine");
        stage.scene.write("ws/s/scripts/z.py", "# /// script\n# requires-python = \">=3.99\"\n# ///\n");
        stage.run(&[], "./s", &["z.py"]).refused("needs Python >=3.99");
        stage.run(&[], "./s", &[]).refused("more than one script: scripts/y, scripts/z.py");
        stage
            .scene
            .write("home/.config/ringfence/config.toml", "[skills.interpreters]\n\".nosuch\" = [\"bash\"]\n");
        stage.run(&[], "./s", &["x.nosuch"]).code(0);
        assert!(stage.scene.path("ws/ran").exists());
    });
}
