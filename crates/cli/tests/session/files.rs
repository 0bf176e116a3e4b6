//! The file verbs through the real command: what goes in comes out as it was, and nothing is followed out of the sandbox.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use ringfence_testing::{Identity, Outcome, Scene, Session, Stage, Test};
use serde_json::Value;

use crate::each;

fn call(scene: &Scene, words: &[&str]) -> Outcome {
    Test::in_scene(scene).verb(["session"]).args(words.iter().copied()).call()
}

fn json(scene: &Scene, words: &[&str]) -> Value {
    let outcome = call(scene, &[words, &["--json"]].concat());
    outcome.code(0);
    serde_json::from_str(&outcome.output).unwrap_or_else(|_| panic!("no JSON\n{}", outcome.describe()))
}

#[test]
fn a_tree_is_copied_in_and_out_with_its_modes_and_links() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        scene.write("outside/tree/sub/run", "#!/bin/sh\necho it runs\n");
        scene.write("outside/tree/plain", "plain\n");
        scene.symlink("sub/run", "outside/tree/link");
        let mode = |path: &str, mode| {
            std::fs::set_permissions(scene.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("outside/tree/sub/run", 0o755);
        mode("outside/tree/plain", 0o640);
        let (from, inside) =
            (scene.path("outside/tree").display().to_string(), format!("{}:copied", session.name));
        let copied = json(scene, &["cp", &from, &inside]);
        assert!(copied["entries"].as_u64() >= Some(4), "{copied}");
        session
            .sh("copied/link && stat -c %a copied/plain copied/sub/run")
            .code(0)
            .stdout("it runs\n640\n755\n");
        let back = scene.path("home/back").display().to_string();
        call(scene, &["cp", &inside, &back]).code(0);
        let same = Command::new("diff").args(["-r", "--no-dereference", &from, &back]).output().unwrap();
        assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
        let got = std::fs::metadata(scene.path("home/back/plain")).unwrap().permissions().mode() & 0o777;
        assert_eq!(got, 0o640);
        assert!(std::fs::symlink_metadata(scene.path("home/back/link")).unwrap().is_symlink());
    });
}

/// A link inside that leads out is a link: neither what it leads to comes out, nor does anything go in through it.
#[test]
fn no_link_leads_out() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let secret = scene.secret().display().to_string();
        session
            .sh(&format!("ln -s {secret} leak; mkdir tree; ln -s {secret} tree/leak; ln -s /etc tree/etc"))
            .code(0);
        let inside = |path: &str| format!("{}:{path}", session.name);
        for words in [&["cat", &inside("leak")][..], &["stat", &inside(&secret)]] {
            let outcome = call(scene, words);
            assert_ne!(outcome.exit, 0, "{}", outcome.describe());
            assert!(!outcome.output.contains(&scene.token), "{}", outcome.describe());
        }
        let to = scene.path("home/tree").display().to_string();
        call(scene, &["cp", &inside("tree"), &to]).code(0);
        assert!(std::fs::symlink_metadata(scene.path("home/tree/leak")).unwrap().is_symlink());
        // Into a directory of the caller's that holds a link elsewhere: what is there is replaced, not written through.
        scene.mkdir("home/into");
        scene.write("home/kept", "kept");
        symlink(scene.path("home/kept"), scene.path("home/into/name")).unwrap();
        session.sh("echo new > name").code(0);
        let _ = call(scene, &["cp", &inside("name"), &scene.path("home/into/name").display().to_string()]);
        assert_eq!(scene.read("home/kept").as_deref(), Some("kept"), "a link was written through");
    });
}

#[test]
fn files_are_written_read_listed_moved_and_removed() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let at = |path: &str| format!("{}:{path}", session.name);
        call(scene, &["mkdir", "-p", &at("a/b")]).code(0);
        let write = Test::in_scene(scene).verb(["session", "write", "--mode", "600", &at("a/b/file")]);
        write.stdin(&b"bytes \xff\n"[..]).call().code(0);
        session.sh("stat -c %a a/b/file; wc -c < a/b/file").stdout("600\n8\n");
        let read = json(scene, &["cat", &at("a/b/file")]);
        assert_eq!(read["base64"], "Ynl0ZXMg/wo=", "{read}");
        let new =
            Test::in_scene(scene).verb(["session", "write", "--new", &at("a/b/file")]).stdin("x").call();
        assert_eq!(new.exit, 125, "{}", new.describe());
        call(scene, &["mv", &at("a/b/file"), &at("a/moved")]).code(0);
        let listed = json(scene, &["ls", &at("a")]);
        let names: Vec<&str> =
            listed.as_array().unwrap().iter().filter_map(|entry| entry["name"].as_str()).collect();
        assert_eq!(names, ["b", "moved"]);
        let stat = json(scene, &["stat", &at("a/moved")]);
        assert_eq!(
            (&stat["kind"], &stat["size"], &stat["mode"]),
            (&"file".into(), &8.into(), &"0600".into()),
            "{stat}"
        );
        assert_eq!(call(scene, &["rm", &at("a")]).exit, 125, "a directory needs -r");
        call(scene, &["rm", "-r", &at("a")]).code(0);
        session.sh("test ! -e a").code(0);
        session.assert_answers();
    });
}

/// A session and a path may be two words where that can mean one thing only.
#[test]
fn a_file_is_named_in_one_word_or_in_two() {
    let scene = Scene::new(Identity::User);
    let session = Session::create(&scene, ["--profile", "restrictive"]);
    let name = session.name.as_str();
    call(&scene, &["mkdir", "-p", name, "a/b"]).code(0);
    let write = Test::in_scene(&scene).verb(["session", "write", name, "a/b/file"]);
    write.stdin("text: here\n").call().code(0);
    call(&scene, &["cat", name, "/workspace/a/b/file"]).code(0).stdout("text: here\n");
    call(&scene, &["cat", &format!("{name}:a/b/file")]).code(0).stdout("text: here\n");
    assert_eq!(json(&scene, &["stat", name, "a/b/file"])["size"], 11);
    // A colon of the path's own is no session's.
    let write = Test::in_scene(&scene).verb(["session", "write", name, "a/b/one:two"]);
    write.stdin("").call().code(0);
    let listed = json(&scene, &["ls", name, "a/b"]);
    let names: Vec<&str> = listed.as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["file", "one:two"]);
    call(&scene, &["rm", name, "a/b/file"]).code(0);
    session.sh("test ! -e a/b/file && test -e a/b/one:two").code(0);
    call(&scene, &["rm", "-r", name, "a/b"]).code(0);
    session.sh("test -d a && test ! -e a/b").code(0);
    // What could mean something else is refused, and nothing is done.
    let other = Session::create(&scene, ["--profile", "restrictive"]);
    for (words, said) in [
        (&["cat", name][..], "names a session and no file"),
        (&["ls", name], "names a session and no file"),
        (&["cat", name, ""], "the path is empty"),
        (&["cat", &format!("{name}:a"), "b"], "names a file already"),
        (&["rm", name, "a"], "there is no session `a`"),
        (&["rm", "-r", name, &other.name], "may be a session, or a file of"),
        (&["rm", "none", "a/b"], "there is no session `none`"),
        (&["ls", "--all", name, "a"], "cannot be used with"),
    ] {
        let outcome = call(&scene, words);
        assert_eq!(outcome.exit, 125, "{}", outcome.describe());
        outcome.stderr_contains(said).stderr_contains("  try: ");
    }
    session.sh("test -d a").code(0);
    other.assert_answers();
}

#[test]
fn a_watch_tells_of_what_happens() {
    each(|scene| {
        for in_two_words in [false, true] {
            watched(scene, in_two_words);
        }
    });
}

fn watched(scene: &Scene, in_two_words: bool) {
    let session = Session::create(scene, ["--profile", "restrictive"]);
    session.sh("mkdir watched").code(0);
    let mut command = Command::new(&Stage::get().ringfence);
    command.args(["session", "watch", "--json"]);
    match in_two_words {
        true => command.args([&session.name, "watched"]),
        false => command.arg(format!("{}:watched", session.name)),
    };
    command
        .current_dir(scene.workspace())
        .env("HOME", scene.home())
        .env("RINGFENCE_STATE_DIR", scene.state());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    scene.identity.apply(&mut command);
    let mut watch = command.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    // Written again and again: there is no telling when it watches.
    let process = session.detach(&[], "while :; do echo x > watched/file; rm watched/file; sleep 0.05; done");
    let line =
        lines.find_map(|line| line.ok().filter(|line| line.contains("file"))).expect("something is told");
    let event: Value = serde_json::from_str(&line).unwrap();
    assert!(event["path"].as_str().is_some_and(|path| path.ends_with("file")), "{event}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    session.call("signal", &["--tree", &process.to_string(), "KILL"]).code(0);
}
