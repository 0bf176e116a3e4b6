//! A session's files over time, through the real command: snapshots, what changed, forks, going back, commits, and
//! workspaces that outlive sessions.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use ringfence_testing::{Identity, Outcome, Scene, Session, Test};
use serde_json::Value;

use crate::each;

fn direct(scene: &Scene) -> [String; 2] {
    ["--workspace".into(), scene.workspace().display().to_string()]
}

fn call(scene: &Scene, words: &[&str]) -> Outcome {
    Test::in_scene(scene).verb(words.iter().copied()).call()
}

fn snapshots(scene: &Scene) -> Vec<Value> {
    let listed = call(scene, &["snapshot", "ls", "--json"]);
    serde_json::from_str(&listed.code(0).output).unwrap()
}

/// The files of a diff, each with what happened to it.
fn changes(session: &Session<'_>, flags: &[&str]) -> Vec<String> {
    let diff = session.json("diff", flags);
    let all = diff["changes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = all
        .filter(|change| change["root"] == "workspace")
        .map(|change| format!("{} {}", text(&change["change"]), text(&change["path"])))
        .collect();
    all.sort();
    all
}

#[test]
fn what_changed_since_a_snapshot_is_told_and_taken_back() {
    each(|scene| {
        scene.write("ws/kept", "as it was\n");
        scene.write("ws/changed", "one\ntwo\nthree\n");
        scene.write("ws/removed", "gone\n");
        let session = Session::create(scene, direct(scene));
        let taken = session.json("snapshot", &["--name", "first"]);
        session.sh("sed -i s/two/2/ changed; rm removed; echo new > added; chmod 700 kept").code(0);
        let wanted = ["added added", "changed changed", "mode kept", "removed removed"];
        assert_eq!(changes(&session, &["--since", "first"]), wanted);
        let id = taken["id"].as_str().unwrap();
        let text = session.call("diff", &["--since", id]);
        text.code(0).stdout_contains("-two\n+2\n").stdout_contains("--- a/");
        session.call("snapshot", &["--name", "second"]).code(0);
        session.call("rollback", &["first"]).code(0);
        assert_eq!(scene.read("ws/changed").as_deref(), Some("one\ntwo\nthree\n"));
        assert_eq!(scene.read("ws/removed").as_deref(), Some("gone\n"));
        assert_eq!(scene.read("ws/added"), None);
        assert!(changes(&session, &["--since", "first"]).is_empty());
        session.call("rollback", &["second"]).code(0);
        assert_eq!(scene.read("ws/added").as_deref(), Some("new\n"));
    });
}

/// In a directory that is written at once nobody would know how it was.
#[test]
fn a_session_that_keeps_its_start_tells_what_changed_since() {
    each(|scene| {
        scene.write("ws/file", "before\n");
        let without = Session::create(scene, direct(scene));
        without.call("diff", &[] as &[&str]).refused("--keep-start");
        without.remove();
        assert!(snapshots(scene).is_empty());
        let session = Session::create(scene, direct(scene).into_iter().chain(["--keep-start".into()]));
        assert_eq!(changes(&session, &[]), [] as [&str; 0]);
        session.sh("echo after > file; mkdir dir; echo x > dir/more").code(0);
        assert_eq!(changes(&session, &[]), ["added dir", "added dir/more", "changed file"]);
        session.call("diff", &[] as &[&str]).code(0).stdout_contains("-before\n+after\n");
        // It goes with the session.
        assert_eq!(snapshots(scene).len(), 1);
        session.remove();
        assert!(snapshots(scene).is_empty(), "the snapshot of its start is still there");
        let both = ["session", "create", "--overlay", "--keep-start", "--workspace", "."];
        call(scene, &both).refused("cannot be used with");
    });
}

#[test]
fn forks_begin_where_the_session_is_and_go_their_own_ways() {
    each(|scene| {
        scene.write("ws/file", "before\n");
        let session = Session::create(scene, direct(scene));
        session.sh("echo mine >> file; echo home > ~/of-home").code(0);
        let (one, two) = (Session::named(scene), Session::named(scene));
        for fork in [&one, &two] {
            call(scene, &["session", "fork", &session.name, "--name", &fork.name])
                .code(0)
                .stdout(&format!("{}\n", fork.name));
            fork.sh("cat file ~/of-home").stdout("before\nmine\nhome\n");
        }
        one.sh("echo one > file").code(0);
        two.sh("echo two > other").code(0);
        assert_eq!(changes(&one, &[]), ["changed file"]);
        assert_eq!(changes(&two, &[]), ["added other"]);
        session.sh("cat file; test ! -e other").code(0).stdout("before\nmine\n");
        assert_eq!(scene.read("ws/file").as_deref(), Some("before\nmine\n"));
        // From a snapshot too, several at once, when the session is gone.
        session.call("snapshot", &["--name", "point"]).code(0);
        session.remove();
        let many = Session::named(scene);
        let made = call(scene, &["session", "fork", "point", "--count", "3", "--name", &many.name]);
        assert_eq!(made.code(0).output.lines().count(), 3);
        for name in made.output.lines() {
            Test::in_scene(scene)
                .verb(["session", "exec", name])
                .plain()
                .run(["cat", "file"])
                .stdout("before\nmine\n");
            call(scene, &["session", "rm", name]).code(0);
        }
    });
}

/// What lies beneath a fork is its own: nobody else is ever told to have changed it.
#[test]
fn what_a_fork_changed_is_nobody_elses_change() {
    each(|scene| {
        scene.write("ws/file", "before\n");
        scene.write("ws/gone", "before\n");
        let session = Session::create(scene, direct(scene));
        let (one, two) = (Session::named(scene), Session::named(scene));
        for fork in [&one, &two] {
            call(scene, &["session", "fork", &session.name, "--name", &fork.name]).code(0);
        }
        // A rollback and other forks share what they can with it.
        for fork in [&one, &two] {
            fork.sh("echo mine > file; rm gone; echo new > new").code(0);
        }
        session.sh("echo other > file").code(0);
        for fork in [&one, &two] {
            let listed = fork.call("diff", &["--list"]);
            listed.code(0).stdout_contains("file");
            assert!(!listed.output.contains("you changed it too"), "{}", listed.describe());
            let diff = fork.json("diff", &[]);
            let all = diff["changes"].as_array().unwrap();
            assert!(all.len() == 3 && all.iter().all(|change| change["conflict"] == false), "{diff}");
        }
    });
}

#[test]
fn an_overlay_is_committed_whole_without_protected_names_and_not_over_the_users_own_changes() {
    each(|scene| {
        scene.write("ws/file", "before\n");
        scene.write("ws/other", "other\n");
        scene.mkdir("ws/.git/hooks");
        scene.write("ws/.git/HEAD", "ref: refs/heads/main\n");
        let session = Session::create(scene, direct(scene).into_iter().chain(["--overlay".into()]));
        let script =
            "echo after > file; echo new > new; echo evil > .git/hooks/pre-commit; echo inside > other";
        session.sh(script).code(0);
        assert_eq!(scene.read("ws/file").as_deref(), Some("before\n"), "it was written at once");
        scene.write("ws/other", "changed by its user\n");
        session.call("commit", &[] as &[&str]).refused("other");
        assert_eq!(scene.read("ws/file").as_deref(), Some("before\n"), "a part was committed");
        session
            .call("commit", &["--only", "file", "--only", "new", "--only", ".git"])
            .code(0)
            .stderr_contains("protected");
        assert_eq!(scene.read("ws/file").as_deref(), Some("after\n"));
        assert_eq!(scene.read("ws/new").as_deref(), Some("new\n"));
        assert_eq!(scene.read("ws/other").as_deref(), Some("changed by its user\n"));
        assert_eq!(scene.read("ws/.git/hooks/pre-commit"), None);
        session.remove();
        assert_eq!(scene.read("ws/file").as_deref(), Some("after\n"));
    });
}

#[test]
fn a_snapshot_travels_and_what_is_damaged_is_found() {
    each(|scene| {
        scene.write("ws/file", "content of a file\n");
        let session = Session::create(scene, direct(scene));
        let id = session.json("snapshot", &["--name", "point"])["id"].as_str().unwrap().to_owned();
        let archive = scene.path("home/point.tar.zst").display().to_string();
        call(scene, &["snapshot", "export", "point", &archive]).code(0);
        call(scene, &["snapshot", "verify"]).code(0);
        call(scene, &["snapshot", "rm", "point"]).code(0);
        assert!(snapshots(scene).is_empty());
        call(scene, &["snapshot", "import", &archive]).code(0).stdout(&format!("{id}\n"));
        session.sh("echo other > file").code(0);
        session.call("rollback", &["point"]).code(0);
        assert_eq!(scene.read("ws/file").as_deref(), Some("content of a file\n"));
        let objects = walk(&scene.state().join("snapshots/objects"));
        let object =
            objects.iter().find(|path| std::fs::read(path).is_ok_and(|read| read.starts_with(b"content of")));
        let object = object.expect("the file's content");
        let _ = std::fs::remove_file(object);
        std::fs::write(object, "other bytes of it!\n").unwrap();
        let verified = call(scene, &["snapshot", "verify", "--json"]);
        assert!(verified.exit != 0 && verified.output.contains("\"whole\":false"), "{}", verified.describe());
    });
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_named_workspace_outlives_its_sessions_and_is_its_users_own() {
    each(|scene| {
        let named = ["--workspace-name", "team/site"];
        let first = Session::create(scene, named);
        first.sh("echo stays > file").code(0);
        first.remove();
        let second = Session::create(scene, named);
        second.sh("cat file").stdout("stays\n");
        let listed: Value =
            serde_json::from_str(&call(scene, &["workspace", "ls", "--json"]).code(0).output).unwrap();
        assert_eq!(
            (&listed[0]["name"], &listed[0]["sessions"][0]),
            (&"team/site".into(), &second.name.as_str().into())
        );
        call(scene, &["workspace", "rm", "team/site"]).refused("team/site");
        second.remove();
        for name in
            ["../site", "../x", "TEAM/../OTHER", "team/../other", "team/../../etc", "/etc", "team//site", "."]
        {
            let made = Session::named(scene).make(["--workspace-name", name]).call();
            assert_eq!(made.exit, 125, "{name}: {}", made.describe());
        }
        // Another user's of the same name is another one.
        let other = Scene::new(scene.identity);
        let theirs = Session::create(&other, named);
        theirs.sh("test ! -e file").code(0);
        theirs.remove();
        call(scene, &["workspace", "rm", "team/site"]).code(0);
        let third = Session::create(scene, named);
        third.sh("test ! -e file").code(0);
        third.remove();
    });
}

/// Across sessions: the limit is the workspace's own. It takes root to make one.
#[test]
fn a_workspace_of_a_size_is_no_larger_in_whatever_session() {
    each(|scene| {
        let made = call(scene, &["workspace", "create", "small", "--size", "16M"]);
        if made.exit == 125 && scene.identity == ringfence_testing::Identity::User {
            made.stderr_contains("root");
            return;
        }
        made.code(0);
        let named = ["--workspace-name", "small"];
        let first = Session::create(scene, named);
        first.sh("head -c 9M /dev/zero > one").code(0);
        // It is in one session at a time.
        let meanwhile = Session::named(scene).make(named).call();
        assert_eq!(meanwhile.exit, 125, "{}", meanwhile.describe());
        first.remove();
        let second = Session::create(scene, named);
        let outcome = second.sh("head -c 9M /dev/zero > two");
        assert_ne!(outcome.exit, 0, "{}", outcome.describe());
        second.sh("stat -c %s one").stdout("9437184\n");
        second.remove();
        call(scene, &["workspace", "rm", "small"]).code(0);
    });
}

/// Not by naming the place where another user's workspaces are, either.
#[test]
fn another_users_workspaces_are_out_of_reach() {
    if !Identity::Root.is_available() {
        return;
    }
    let (root, user) = (Scene::new(Identity::Root), Scene::new(Identity::User));
    let named = ["--workspace-name", "team/site"];
    let theirs = Session::create(&root, named);
    theirs.sh("echo theirs > file").code(0);
    for words in [
        &["workspace", "ls"][..],
        &["workspace", "du", "team/site"],
        &["workspace", "rm", "team/site"],
        &["workspace", "create", "team/other"],
        &["session", "create", "--workspace-name", "team/site"],
        &["session", "exec", &theirs.name, "--", "true"],
        &["session", "rm", &theirs.name],
    ] {
        let outcome = Test::in_scene(&user).state(root.state()).verb(words.iter().copied()).call();
        assert_eq!(outcome.exit, 125, "{words:?}: {}", outcome.describe());
        let lines: Vec<&str> = outcome.errors.lines().collect();
        let is_clear = lines.len() == 2 && lines[0].starts_with("ringfence: error: ");
        assert!(is_clear && lines[1].starts_with("  try: "), "{words:?}: {}", outcome.describe());
        assert!(!outcome.output.contains("theirs") && outcome.output.is_empty(), "{}", outcome.describe());
    }
    theirs.sh("cat file").stdout("theirs\n");
    assert!(!root.state().join("workspaces").join("team/other").exists());
}

/// A name proves nothing: neither an imported snapshot nor a later session of that name gets what a session was given.
#[test]
fn a_fork_has_the_flags_of_the_session_whose_snapshot_it_is_and_of_no_other() {
    each(|scene| {
        let first = Session::create(scene, ["--profile", "restrictive"]);
        first.sh("echo theirs > file").code(0);
        first.call("snapshot", &["--name", "foreign"]).code(0);
        let archive = scene.path("home/foreign.tar").display().to_string();
        call(scene, &["snapshot", "export", "foreign", &archive]).code(0);
        let name = first.name.clone();
        first.remove();
        // A session of that name, with powers of its own.
        let flags = ["--profile", "restrictive", "--env", "POWER=granted"];
        call(scene, &[&["session", "create", "--name", &name][..], &flags].concat()).code(0);
        let powers = |snapshot: &str| -> String {
            let fork = Session::named(scene);
            call(scene, &["session", "fork", snapshot, "--name", &fork.name]).code(0);
            fork.sh("echo ${POWER-none}").output
        };
        assert_eq!(powers("foreign"), "none\n", "an earlier session's");
        call(scene, &["snapshot", "rm", "foreign"]).code(0);
        call(scene, &["snapshot", "import", &archive]).code(0);
        assert_eq!(powers("foreign"), "none\n", "an imported one");
        call(scene, &["session", "snapshot", &name, "--name", "own"]).code(0);
        assert_eq!(powers("own"), "granted\n");
        assert_eq!(powers(&name), "granted\n");
        call(scene, &["session", "rm", &name]).code(0);
    });
}

/// A workspace with a size is in one session at a time, and a fork does not want it.
#[test]
fn a_session_in_a_workspace_of_a_size_is_forked() {
    each(|scene| {
        let made = call(scene, &["workspace", "create", "small", "--size", "16M"]);
        if made.exit == 125 && scene.identity == Identity::User {
            made.stderr_contains("root");
            return;
        }
        made.code(0);
        let session = Session::create(scene, ["--workspace-name", "small"]);
        session.sh("echo mine > file").code(0);
        let fork = Session::named(scene);
        call(scene, &["session", "fork", &session.name, "--name", &fork.name]).code(0);
        fork.sh("cat file; echo other > file").code(0).stdout("mine\n");
        session.sh("cat file").stdout("mine\n");
        fork.remove();
        session.remove();
        call(scene, &["workspace", "rm", "small"]).code(0);
    });
}

/// A commit of two files as a kill leaves it: all is gathered, one of them is in its place.
fn half_commit(scene: &Scene, session: &Session<'_>) {
    const STAGING: &str = ".ringfence-commit-0123456789abcdef";
    /// Of nothing: what a file has in it is not digested.
    const NO_TREE: u64 = 0xa6a1_f9f5_b949_13af;
    scene.mkdir(&format!("ws/{STAGING}"));
    std::fs::set_permissions(scene.workspace().join(STAGING), std::fs::Permissions::from_mode(0o700))
        .unwrap();
    let unit = |name: &str, slot: u32, place: &str| {
        scene.write(place, name);
        let facts = std::fs::symlink_metadata(scene.path(place)).unwrap();
        let moment = |seconds: i64, nanoseconds: i64| serde_json::json!({ "seconds": seconds, "nanoseconds": nanoseconds });
        let stamp = serde_json::json!({
            "device": facts.dev(), "inode": facts.ino(), "mode": facts.mode(), "uid": facts.uid(), "gid": facts.gid(),
            "size": facts.size(), "modified": moment(facts.mtime(), facts.mtime_nsec()),
            "changed": moment(facts.ctime(), facts.ctime_nsec()),
        });
        let new = serde_json::json!({ "stamp": stamp, "tree": NO_TREE });
        serde_json::json!({ "path": name, "action": "put", "slot": slot, "old": null, "new": new })
    };
    let units = [unit("one", 0, "ws/one"), unit("two", 1, &format!("ws/{STAGING}/1"))];
    let journal = serde_json::json!({
        "staging": STAGING, "phase": "armed", "units": units, "entries": [], "parents": [], "kept": [], "left": [],
    });
    let path = session.place().join("layers/commit/journal.json");
    std::fs::write(&path, journal.to_string()).unwrap();
    scene.identity.own(&path);
}

#[test]
fn an_interrupted_commit_is_finished_or_taken_back() {
    each(|scene| {
        for (way, there, says) in [
            ("--finish", [Some("one"), Some("two")], "all of the interrupted commit is applied"),
            ("--undo", [None, None], "the interrupted commit is taken back"),
        ] {
            for json in [false, true] {
                let session = Session::create(scene, direct(scene).into_iter().chain(["--overlay".into()]));
                session.sh("printf one > one; printf two > two").code(0);
                session.call("commit", &[way]).refused("no interrupted commit");
                half_commit(scene, &session);
                session.call("commit", &[] as &[&str]).refused("interrupted");
                if json {
                    let told = session.json("commit", &[way]);
                    assert_eq!(told["applied"], way == "--finish", "{told}");
                } else {
                    session.call("commit", &[way]).code(0).stderr_contains(says);
                }
                let now = ["ws/one", "ws/two"].map(|path| scene.read(path));
                assert_eq!(now.each_ref().map(Option::as_deref), there, "{way}");
                let left = std::fs::read_dir(scene.workspace()).unwrap().flatten();
                let left: Vec<_> =
                    left.filter(|entry| entry.file_name().as_bytes().starts_with(b".")).collect();
                assert!(left.is_empty(), "{way}: {left:?}");
                session.remove();
                for path in ["one", "two"] {
                    let _ = std::fs::remove_file(scene.workspace().join(path));
                }
            }
        }
    });
}
