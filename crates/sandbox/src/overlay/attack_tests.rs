//! What a hostile session would do to get something executed outside, or somebody else's file written.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;

use super::commit::{CommitOptions, Guarding, LeftOutReason};
use super::error::OverlayError;
use super::scene_tests::{Scene, conflicts, protected, tree, write};
use super::steps::Steps;

const REPOSITORY: &[(&str, &str)] = &[
    (".git/HEAD", "ref: refs/heads/main"),
    (".git/config", "[core]"),
    (".git/hooks/pre-commit.sample", "sample"),
    (".git/objects/x", "1"),
    (".git/refs/x", "1"),
    ("src/main.rs", "1"),
];

/// Commit all of it; everything but `applied` must be as it was.
fn is_left_out(scene: &Scene, applied: &[&str]) {
    let before = scene.tree();
    let report = scene.commit().unwrap();
    assert!(!protected(&report).is_empty(), "{report:?}");
    let own = |path: &String| applied.iter().any(|name| path.starts_with(name));
    let mut after = scene.tree();
    after.retain(|path, _| !own(path));
    let mut before = before;
    before.retain(|path, _| !own(path));
    assert_eq!(after, before);
}

#[test]
fn hooks_and_settings_of_the_repository_are_never_committed() {
    for path in [
        ".git/hooks/pre-commit",
        ".git/HOOKS/pre-commit",
        ".GIT/hooks/pre-commit",
        ".git/config",
        ".git/config.worktree",
        ".git/commondir",
        ".git/modules/sub/hooks/x",
        ".git/modules/a/b/config",
        ".git/worktrees/w/commondir",
        ".vscode/tasks.json",
        ".VSCode/tasks.json",
        ".g\u{200c}it/hooks/x",
        ".git /hooks/x",
        "GIT~1/config",
        "deep/.Git./config",
        ".envrc",
        "ringfence.toml",
    ] {
        let scene = Scene::over(REPOSITORY);
        scene.wrote(path, "evil").wrote("src/main.rs", "2");
        let report = scene.commit().unwrap();
        assert!(protected(&report).contains(&path.to_string()), "{path}: {report:?}");
        assert!(!scene.lower(path).exists() || scene.read(path) != "evil", "{path}");
        assert_eq!(scene.read("src/main.rs"), "2");
    }
}

#[test]
fn what_everyday_git_writes_is_committed() {
    let scene = Scene::over(REPOSITORY);
    scene.wrote(".git/HEAD", "ref: refs/heads/other").wrote(".git/refs/heads/other", "1");
    scene.wrote(".git/objects/ab/cd", "1").wrote(".git/index", "1");
    let report = scene.commit().unwrap();
    assert_eq!(report.left_out, []);
    assert_eq!(scene.read(".git/HEAD"), "ref: refs/heads/other");
}

#[test]
fn a_lifted_name_is_committed_and_a_waived_clause_lifts_all() {
    let scene = Scene::over(REPOSITORY);
    scene.wrote(".git/hooks/x", "1").wrote(".git/config", "2");
    let except = vec![".git/hooks".to_string()];
    let options = CommitOptions {
        guarding: Guarding::Protected { except, also: Vec::new() },
        ..CommitOptions::default()
    };
    let report = scene.open().commit(&options).unwrap();
    assert_eq!(protected(&report), [".git/config"]);
    assert_eq!(scene.read(".git/hooks/x"), "1");
    let options = CommitOptions { guarding: Guarding::Waived, ..CommitOptions::default() };
    scene.open().commit(&options).unwrap();
    assert_eq!(scene.read(".git/config"), "2");
}

#[test]
fn a_repository_does_not_go_and_is_not_exchanged() {
    let scene = Scene::over(REPOSITORY);
    scene.removed(".git");
    is_left_out(&scene, &[]);
    let scene = Scene::over(REPOSITORY);
    scene.wrote(".git", "gitdir: evil");
    is_left_out(&scene, &[]);
    let scene = Scene::over(REPOSITORY);
    scene.linked(".git", "evil");
    is_left_out(&scene, &[]);
    let scene = Scene::over(REPOSITORY);
    scene.made_anew(".git").wrote(".git/x", "1");
    is_left_out(&scene, &[".git/objects", ".git/refs", ".git/x"]);
    let scene = Scene::over(REPOSITORY);
    scene.removed(".git/HEAD");
    is_left_out(&scene, &[]);
}

#[test]
fn neither_does_a_nested_one() {
    let nested: Vec<(String, &str)> =
        REPOSITORY.iter().map(|(path, content)| (format!("a/b/c/d/e/{path}"), *content)).collect();
    let nested: Vec<(&str, &str)> = nested.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let scene = Scene::over(&nested);
    scene.removed("a");
    let report = scene.commit().unwrap();
    assert!(protected(&report).contains(&"a/b/c/d/e/.git".to_string()));
    assert_eq!(scene.read("a/b/c/d/e/.git/config"), "[core]");
    assert!(!scene.lower("a/b/c/d/e/src").exists(), "the rest went");
    let scene = Scene::over(&nested);
    scene.wrote("a/b/c/d/e/.git/hooks/post-checkout", "evil");
    is_left_out(&scene, &[]);
}

#[test]
fn a_repository_that_the_session_made_comes_without_what_is_executed() {
    let scene = Scene::over(&[]);
    scene.wrote("new/.git/HEAD", "1").wrote("new/.git/config", "evil").wrote("new/.git/hooks/x", "evil");
    scene.wrote("other/.git", "gitdir: ../new").linked("third/.git", "../new");
    let report = scene.commit().unwrap();
    assert_eq!(
        protected(&report),
        ["new/.git/config", "new/.git/hooks", "new/.git/hooks/x", "other/.git", "third/.git"]
    );
    assert_eq!(scene.read("new/.git/HEAD"), "1");
    assert!(!scene.lower("new/.git/config").exists() && !scene.lower("other/.git").exists());
}

#[test]
fn a_bare_repository_is_not_made_whole_in_one_commit_or_in_several() {
    let scene = Scene::over(&[]);
    scene.wrote("x/HEAD", "1").wrote("x/objects/o", "1").wrote("x/refs/r", "1").wrote("x/config", "evil");
    scene.commit().unwrap();
    assert!(!scene.lower("x/config").exists());
    let scene = Scene::over(&[]);
    scene.wrote("x/config", "evil").wrote("x/HEAD", "1");
    scene.commit().unwrap();
    scene.wrote("x/objects/o", "1").wrote("x/refs/r", "1");
    scene.commit().unwrap();
    assert!(!scene.lower("x/objects").exists() || !scene.lower("x/refs").exists());
}

#[test]
fn a_place_that_a_protected_link_leads_to_is_protected() {
    let scene =
        Scene::over(&[("tools/hooks/pre-commit", "1"), ("cfg/vs/tasks.json", "1"), (".git/HEAD", "1")]);
    symlink("../tools/hooks", scene.lower(".git/hooks")).unwrap();
    symlink("cfg/vs", scene.lower(".vscode")).unwrap();
    scene.begin();
    scene.wrote("tools/hooks/pre-commit", "evil").wrote("cfg/vs/new.json", "evil").wrote("tools/other", "1");
    let report = scene.commit().unwrap();
    assert_eq!(protected(&report), ["cfg/vs/new.json", "tools/hooks/pre-commit"]);
    assert_eq!((scene.read("tools/hooks/pre-commit"), scene.read("tools/other")), ("1".into(), "1".into()));
    scene.wrote("evil/tasks.json", "evil");
    fs::remove_dir_all(scene.upper("cfg")).unwrap();
    scene.linked("cfg", "evil");
    let report = scene.commit().unwrap();
    assert!(protected(&report).contains(&"cfg".to_string()), "{report:?}");
    assert!(scene.lower("cfg/vs/tasks.json").exists());
}

#[test]
fn a_link_is_data_and_nothing_is_written_through_one() {
    let scene = Scene::over(&[("dir/x", "1")]);
    write(&scene.path("outside/x"), "outside");
    let outside = scene.path("outside");
    scene.linked("out", outside.to_str().unwrap()).linked("up", "../outside/x");
    scene.commit().unwrap();
    assert_eq!(fs::read_link(scene.lower("out")).unwrap(), outside);
    // Its user has a link where the session has a directory.
    fs::rename(scene.lower("dir"), scene.lower("aside")).unwrap();
    symlink(&outside, scene.lower("dir")).unwrap();
    scene.wrote("dir/x", "evil");
    assert_eq!(conflicts(scene.commit()), ["dir", "dir/x"]);
    assert_eq!(fs::read_to_string(scene.path("outside/x")).unwrap(), "outside");
}

/// Do something at every step of a commit in turn: nothing outside is ever written, and nothing of the user's is lost.
fn disturbed(disturb: impl Fn(&Scene)) {
    let mut step = 1;
    loop {
        let scene = Scene::over(&[("dir/a", "1"), ("dir/sub/b", "1"), ("c", "1")]);
        write(&scene.path("outside/a"), "outside");
        scene.copied("dir/a", "2").copied("dir/sub/b", "2").copied("c", "2").wrote("dir/new", "2");
        let outside = tree(&scene.path("outside"));
        let reached = Cell::new(false);
        let between = |number: u32| {
            if number == step {
                reached.set(true);
                disturb(&scene);
            }
            true
        };
        let result = scene.open().commit_in_steps(&CommitOptions::default(), &Steps::watched(&between));
        assert_eq!(tree(&scene.path("outside")), outside, "step {step}");
        if !reached.get() {
            break;
        }
        match result {
            Ok(_) => {}
            Err(OverlayError::Conflicts { .. }) => {
                assert_eq!(fs::read_to_string(scene.lower("c")).unwrap(), "1", "step {step}");
                assert!(scene.open().unfinished().unwrap().is_none());
            }
            Err(other) => panic!("step {step}: {other:?}"),
        }
        step += 1;
    }
    assert!(step > 8, "only {step} steps");
}

#[test]
fn a_directory_that_becomes_a_link_during_a_commit_leads_nowhere() {
    disturbed(|scene| {
        fs::rename(scene.lower("dir"), scene.path("taken")).unwrap();
        symlink(scene.path("outside"), scene.lower("dir")).unwrap();
    });
}

#[test]
fn a_file_that_its_user_writes_during_a_commit_keeps_what_was_written() {
    let seen = Cell::new(0);
    disturbed(|scene| {
        // In place, so that the inode stays; it may be the new file by now.
        let was = fs::read_to_string(scene.lower("dir/a")).unwrap();
        fs::write(scene.lower("dir/a"), format!("{was} user's")).unwrap();
        seen.set(seen.get() + 1);
    });
    assert!(seen.get() > 8);
}

#[test]
fn what_its_user_wrote_at_any_step_is_there_in_the_end() {
    let mut step = 1;
    loop {
        let scene = Scene::over(&[("a", "1"), ("b", "1")]);
        scene.copied("a", "2").copied("b", "2");
        let reached = Cell::new(false);
        let between = |number: u32| {
            if number == step {
                reached.set(true);
                // As editors do: a new file over the old one.
                write(&scene.lower("b.tmp"), "user's");
                fs::rename(scene.lower("b.tmp"), scene.lower("b")).unwrap();
            }
            true
        };
        let result = scene.open().commit_in_steps(&CommitOptions::default(), &Steps::watched(&between));
        if !reached.get() {
            break;
        }
        assert_eq!(scene.read("b"), "user's", "step {step}: {result:?}");
        let a = scene.read("a");
        assert_eq!(a, if result.is_ok() { "2" } else { "1" }, "step {step}");
        step += 1;
    }
    assert!(step > 6);
}

#[test]
fn a_session_that_writes_while_it_is_committed_is_told_so() {
    let scene = Scene::over(&[]);
    scene.wrote("a", "1").wrote("b", "1");
    let between = |number: u32| {
        if number == 2 {
            fs::write(scene.upper("b"), "22").unwrap();
        }
        true
    };
    let result = scene.open().commit_in_steps(&CommitOptions::default(), &Steps::watched(&between));
    assert!(matches!(result, Err(OverlayError::Changing(_))), "{result:?}");
    assert!(scene.tree().is_empty() && scene.open().unfinished().unwrap().is_none());
}

#[test]
fn a_file_that_became_a_link_in_the_layer_is_not_followed() {
    let scene = Scene::over(&[]);
    write(&scene.path("secret"), "secret");
    scene.wrote("a", "1").wrote("dir/b", "1");
    let between = |number: u32| {
        if number == 2 {
            fs::remove_dir_all(scene.upper("dir")).unwrap();
            fs::create_dir(scene.path("elsewhere")).unwrap();
            fs::write(scene.path("elsewhere/b"), "secret").unwrap();
            symlink(scene.path("elsewhere"), scene.upper("dir")).unwrap();
        }
        true
    };
    let result = scene.open().commit_in_steps(&CommitOptions::default(), &Steps::watched(&between));
    assert!(result.is_err(), "{result:?}");
    assert!(scene.tree().is_empty());
}

#[test]
fn a_change_in_something_left_out_is_named_too() {
    let scene = Scene::over(&[("dir/.git/config", "1"), ("dir/.git/HEAD", "1")]);
    scene.wrote("dir", "a file now");
    let report = scene.commit().unwrap();
    let dir = report.left_out.iter().find(|left| left.path.to_str() == Some("dir")).unwrap();
    assert!(matches!(dir.reason, LeftOutReason::Bound | LeftOutReason::Protected { .. }));
    assert_eq!(scene.read("dir/.git/config"), "1");
}
