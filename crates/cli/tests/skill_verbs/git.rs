//! Skills from a repository, which git fetches in a sandbox.

use std::path::Path;
use std::process::Command;

use crate::place::{Place, said};

fn git(at: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main", "-C"])
        .arg(at)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository of two skills, one version tagged.
fn repository(place: &Place) -> String {
    place.skill("repo/skills/one", "The first.");
    place.skill("repo/skills/two", "The second.");
    let at = place.path("ws/repo");
    git(&at, &["init", "-q"]);
    git(&at, &["add", "-A"]);
    git(&at, &["commit", "-qm", "first"]);
    git(&at, &["tag", "v1"]);
    format!("file://{}", std::fs::canonicalize(&at).unwrap().display())
}

#[test]
fn one_all_a_tag_and_an_update() {
    let place = Place::new();
    let url = repository(&place);
    place.call(&["add", &url]).code(125).has("has 2 skills: skills/one, skills/two").has("--path");
    let added = place.call(&["add", &format!("{url}#skills/one"), "--json"]).code(0).json();
    let origin = &added["added"][0]["origin"];
    assert_eq!(origin["kind"], "git");
    assert_eq!(origin["subdirectory"], "skills/one");
    assert_eq!(origin["commit"], git(&place.path("ws/repo"), &["rev-parse", "HEAD"]));
    assert!(!place.path("state/library/general/one/.git").exists());
    place.call(&["lock"]).code(0);

    place.write("repo/skills/one/scripts/main.sh", "echo newer\n");
    git(&place.path("ws/repo"), &["commit", "-qam", "second"]);
    place.call(&["outdated"]).code(0).has("general/one");
    place.call(&["update", "one"]).code(0).has("updated from");
    place.call(&["cat", "one", "scripts/main.sh"]).code(0).has("newer");
    // The pinned commit is fetched again into an empty library.
    let empty = place.path("empty").display().to_string();
    place.call(&["add", "--frozen", "--library", &empty]).code(0).has("general/one");
    place.call(&["cat", "one", "scripts/main.sh", "--library", &empty]).code(0).has("hello");

    place
        .call(&["add", &url, "--all", "--domain", "tagged", "--rev", "v1"])
        .code(0)
        .has("tagged/one")
        .has("tagged/two");
    place.call(&["cat", "tagged/one", "scripts/main.sh"]).code(0).has("hello");
    place
        .call(&["add", &url, "--rev", "none", "--path", "skills/one", "--name", "x"])
        .code(125)
        .has("could not be fetched");
    place.call(&["add", &url, "--rev=--upload-pack=touch evil"]).code(125).has("no branch, tag or commit");
    assert_eq!(std::fs::read_dir(place.path("state/scratch")).unwrap().count(), 0);
    place.call(&["verify"]).code(0);
}

#[test]
fn a_repository_runs_nothing_and_leads_nowhere() {
    let place = Place::new();
    let url = repository(&place);
    let at = place.path("ws/repo");
    let marker = place.path("ran");
    let program = format!("touch {}", marker.display());
    place.write("repo/.gitattributes", "* filter=evil\n");
    std::os::unix::fs::symlink("/etc", at.join("skills/etc")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at.join("skills/one/data")).unwrap();
    git(&at, &["add", "-A"]);
    git(&at, &["commit", "-qm", "hostile"]);
    git(&at, &["config", "filter.evil.smudge", &program]);
    git(&at, &["config", "core.fsmonitor", &program]);
    git(&at, &["config", "uploadpack.packObjectsHook", &program]);
    place.write("repo/.git/hooks/post-checkout", format!("#!/bin/sh\n{program}\n"));
    // What a user's own configuration would run is not run either.
    std::fs::write(
        place.path("home/.gitconfig"),
        format!("[core]\n\tfsmonitor = {program}\n[filter \"evil\"]\n\tsmudge = {program}\n"),
    )
    .unwrap();
    place.call(&["add", &format!("{url}#skills/two")]).code(0);
    place.call(&["add", &format!("{url}#skills/one")]).code(125).has("a link to /etc/passwd");
    place.call(&["add", &format!("{url}#skills/etc")]).code(125).has_not("passwd");
    place.call(&["add", &format!("{url}#../../x")]).code(125).has("leads out");
    assert!(!marker.exists());
}

/// A repository with so many names of one blob of zeros below a directory: far more than it looks like, and as good as
/// nothing on a disk, because git leaves holes where the zeros are.
fn zeros(place: &Place, below: &str, names: usize) -> String {
    place.skill("repo/skills/one", "The first.");
    let at = place.path("ws/repo");
    git(&at, &["init", "-q"]);
    std::fs::write(at.join("zeros"), vec![0; 16 << 20]).unwrap();
    let blob = git(&at, &["hash-object", "-w", "zeros"]);
    git(&at, &["add", "skills"]);
    for number in 0..names {
        let entry = format!("100644,{blob},{below}/{number}");
        git(&at, &["update-index", "--add", "--cacheinfo", &entry]);
    }
    git(&at, &["commit", "-qm", "large"]);
    format!("file://{}", std::fs::canonicalize(&at).unwrap().display())
}

fn nothing_is_left(place: &Place) {
    let left = std::fs::read_dir(place.path("state/scratch")).unwrap().count();
    assert_eq!(left, 0, "something of it was left");
    assert!(!place.path("state/library/general/one").exists());
}

#[test]
fn a_repository_with_more_than_a_skill_may_have_is_not_taken() {
    let place = Place::new();
    let url = zeros(&place, "skills/one/big", 80);
    place.call(&["add", &format!("{url}#skills/one")]).code(125).has("bytes in all");
    nothing_is_left(&place);
}

/// Beside the skill, where no limit of a skill sees it. Only a debug build can be given another bound than its own.
#[cfg(debug_assertions)]
#[test]
fn a_repository_with_more_than_a_fetch_may_bring_is_not_fetched() {
    let place = Place::new();
    let url = zeros(&place, "big", 4);
    let add = |bound: u64| {
        let mut command = place.command(&["add", &format!("{url}#skills/one")]);
        said(&command.env("RINGFENCE_FETCH_BOUND", bound.to_string()).output().unwrap())
    };
    add(63 << 20).code(125).has("could not be fetched: it has more than 63 MiB");
    nothing_is_left(&place);
    add(80 << 20).code(0);
}
