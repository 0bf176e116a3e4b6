//! A library that several users write to: what one of them locks away stops no other, and is never overlooked.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use ringfence_testing::{Identity, Outcome, Scene, Test};

/// A library that everybody may write to; half of it is root's and closed.
struct Team {
    scene: Scene,
}

impl Team {
    /// Nothing without root: there are no two users then.
    fn new() -> Option<Self> {
        if !Identity::Root.is_available() {
            return None;
        }
        let team = Self { scene: Scene::new(Identity::User) };
        for name in ["open", "secret", "other"] {
            team.skill(name);
        }
        team.call(&["add", "open"]).code(0);
        team.call(&["add", "secret", "--domain", "closed"]).code(0);
        team.call(&["add", "other", "--domain", "team"]).code(0);
        Some(team)
    }

    fn skill(&self, name: &str) {
        let manifest = format!("---\nname: {name}\ndescription: The {name} walrus.\n---\nText.\n");
        self.scene.write(&format!("ws/{name}/SKILL.md"), &manifest);
    }

    fn library(&self) -> PathBuf {
        self.scene.path("library")
    }

    /// Give a folder of the library to root alone.
    fn close(&self, folder: &str) {
        let path = self.library().join(folder);
        lchown(&path, Some(0), Some(0)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn call(&self, words: &[&str]) -> Outcome {
        let (verb, rest) = words.split_first().unwrap();
        Test::in_scene(&self.scene)
            .verb(["skill", verb])
            .args(rest.to_vec())
            .args(["--library"])
            .args([self.library()])
            .call()
    }

    fn warns(&self, words: &[&str], of: &str) -> Outcome {
        let outcome = self.call(words);
        outcome.code(0).stderr_contains(of);
        outcome
    }
}

#[test]
fn a_closed_domain_stops_nobody_and_is_named() {
    let Some(team) = Team::new() else { return };
    team.close("closed");
    each_verb_goes_on(&team, "closed: ");
}

#[test]
fn a_closed_skill_stops_nobody_and_is_named() {
    let Some(team) = Team::new() else { return };
    team.close("closed/secret");
    each_verb_goes_on(&team, "closed/secret");
    team.call(&["lock", "closed/secret", "-o", "-"]).code(125).stderr_contains("closed/secret");
    team.call(&["show", "closed/secret"]).code(125).stderr_contains("closed/secret");
}

fn each_verb_goes_on(team: &Team, closed: &str) {
    team.call(&["list"]).code(0).stdout_contains("general/open").stdout_contains("team/other");
    team.warns(&["search", "walrus"], closed).stdout_contains("general/open");
    team.warns(&["prompt"], closed).stdout_contains("The open walrus.");
    team.warns(&["outdated"], closed);
    team.warns(&["update"], closed);
    let locked = team.warns(&["lock", "-o", "-"], closed);
    locked.stdout_contains("open").stdout_contains("other");
    assert!(!locked.output.contains("secret"), "{}", locked.describe());
    team.call(&["lock", "open", "-o", "-"]).code(0).stdout_contains("open");
    team.call(&["show", "open"]).code(0);
    team.call(&["verify"]).code(1).stderr_contains(closed).stderr_contains("not checked");
    team.call(&["remove", "other"]).code(0);
    team.call(&["add", "other", "--domain", "team"]).code(0);
    team.call(&["rollback", "nothing"]).code(125);
    // The name alone is not enough to say that there is none.
    team.call(&["show", "secret"]).code(125).stderr_contains("closed");
}

#[test]
fn staging_of_another_user_stops_nobody() {
    let Some(team) = Team::new() else { return };
    let staging = team.library().join(".ringfence/staging");
    // Still being written, for all that anybody else can tell.
    fs::create_dir(staging.join("theirs")).unwrap();
    fs::set_permissions(staging.join("theirs"), fs::Permissions::from_mode(0o700)).unwrap();
    team.call(&["add", "open", "--replace"]).code(0);
    team.call(&["verify"]).code(0);
    // Left behind, and nobody but its owner can remove it.
    fs::create_dir_all(staging.join("left/inner")).unwrap();
    fs::write(staging.join("left/inner/file"), "x").unwrap();
    team.call(&["add", "open", "--replace"]).code(0);
    team.call(&["remove", "other"]).code(0);
    team.call(&["verify"]).code(1).stderr_contains("staging/left");
    fs::remove_dir_all(staging.join("left")).unwrap();
    team.call(&["verify"]).code(0);
}

#[test]
fn who_may_not_write_is_told_what_a_check_is_worth() {
    let Some(team) = Team::new() else { return };
    give_to_root(&team.library());
    team.call(&["verify"]).code(0).stderr_contains("without its lock");
}

/// Everything can be read, nothing written.
fn give_to_root(path: &Path) {
    lchown(path, Some(0), Some(0)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().flatten().for_each(|entry| give_to_root(&entry.path()));
    }
}

#[test]
fn an_origin_that_another_could_have_written_is_not_followed() {
    let Some(team) = Team::new() else { return };
    let history = team.library().join(".ringfence/history/general/open.json");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o022, 0);
    let planted = |revision: &str, subdirectory: &str| {
        let mut text: serde_json::Value =
            serde_json::from_slice(&fs::read(&history).unwrap()).expect("a history");
        text["records"][0]["origin"] = serde_json::json!({
            "kind": "git", "url": "https://example.invalid/x", "revision": revision,
            "subdirectory": subdirectory, "commit": "0".repeat(40),
        });
        fs::write(&history, text.to_string()).unwrap();
    };
    planted("--upload-pack=touch evil", "a");
    team.call(&["outdated"]).code(0).stderr_contains("no branch, tag or commit");
    planted("main", "../../etc");
    team.call(&["outdated"]).code(0).stderr_contains("leads out of the source");
    // The file is the user's own, and a directory that they may read would be published for all.
    fs::set_permissions(&history, fs::Permissions::from_mode(0o664)).unwrap();
    let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&history).unwrap()).unwrap();
    text["records"][0]["origin"] =
        serde_json::json!({ "kind": "directory", "path": team.scene.path("ws/secret") });
    fs::write(&history, text.to_string()).unwrap();
    team.call(&["update"]).code(0).stderr_contains("another user");
    team.call(&["show", "open"]).code(0).stdout_contains("The open walrus.");
}
