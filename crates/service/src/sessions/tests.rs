//! What is swept of sessions that are gone, and what is never.

use std::fs::{self, File};
use std::time::SystemTime;

use ringfence_sandbox::snapshots::{
    KeepAttributes, LocalTree, Recognise, RootTree, SaveOptions, SnapshotLimits, SnapshotStore,
};
use ringfence_sandbox::{EndReason, SessionEnd};
use serde_json::{Value, json};

use super::*;
use crate::StateDir;

struct Scene {
    root: tempfile::TempDir,
    places: Places,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let places = Places { state: StateDir::new(root.path()), ..Places::from_env().unwrap() };
        Self { root, places }
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.root.path().join("sessions").join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Long after anybody could be making it.
    fn is_kept(&self, name: &str) -> bool {
        let path = self.directory(name);
        File::open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        list_sessions(&self.places, true).unwrap();
        path.exists()
    }

    fn unreadable(&self) -> Vec<String> {
        unreadable_sessions(&self.places).unwrap().iter().map(|(place, _)| place.name()).collect()
    }
}

fn facts(name: &str, ended: u64) -> Value {
    let end = SessionEnd { at: ended, why: EndReason::TimeToLive, notes: Vec::new(), network: Vec::new() };
    json!({
        "id": name, "created": 0, "profile": "moderate", "workspace": "/nowhere", "workspace_kind": "direct",
        "directory": "/workspace", "home": "/home", "keeps_home": false, "unprotected": null,
        "asked": { "arguments": [], "directory": "/" }, "ended": end, "policy": null, "receipt": null,
    })
}

/// A machine that stops may leave the facts empty, and those of another version can't be read: the work is there.
#[test]
fn what_can_not_be_read_is_never_taken_away() {
    let scene = Scene::new();
    let mut newer = facts("newer", 0);
    newer["workspace_kind"] = "of a later version".into();
    for (name, text) in [("empty", String::new()), ("torn", "{\"id\":".into()), ("newer", newer.to_string())]
    {
        let path = scene.directory(name);
        fs::create_dir_all(path.join("layers/upper")).unwrap();
        fs::write(path.join("layers/upper/work"), "mine").unwrap();
        fs::write(path.join("session.json"), text).unwrap();
        assert!(scene.is_kept(name) && path.join("layers/upper/work").exists(), "{name}");
    }
    // Nor what has no facts at all, where something was written or said.
    for (name, file) in [("written", "layers/upper/work"), ("said", "logs/1/0")] {
        let path = scene.directory(name).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "mine").unwrap();
        assert!(scene.is_kept(name) && path.exists(), "{name}");
    }
    assert_eq!(scene.unreadable(), ["empty", "newer", "said", "torn", "written"]);
    for name in scene.unreadable() {
        remove_session(&scene.places, &name).unwrap();
    }
    assert!(scene.unreadable().is_empty());
}

#[test]
fn what_never_came_to_life_is_taken_away_when_it_is_old() {
    let scene = Scene::new();
    for part in ["", "layers/upper", "beginning/workspace"] {
        let path = scene.directory("half");
        fs::create_dir_all(path.join(part)).unwrap();
        list_sessions(&scene.places, true).unwrap();
        assert!(path.exists() && scene.unreadable().is_empty(), "somebody may be making it: {part}");
        assert!(!scene.is_kept("half"), "{part}");
    }
}

/// `rm` does; so does forgetting it.
#[test]
fn the_snapshot_of_a_start_goes_with_the_session_that_is_forgotten() {
    let scene = Scene::new();
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("file"), "content").unwrap();
    let store =
        SnapshotStore::open(&scene.places.own().join("snapshots"), SnapshotLimits::default()).unwrap();
    let local = LocalTree::open(tree.path()).unwrap();
    let save = |name: &str| {
        let options = SaveOptions {
            name: name.into(),
            session: "old".into(),
            parent: None,
            recognise: Recognise::ByContent,
            attributes: KeepAttributes::AsTheyAre,
        };
        let roots = [RootTree { label: "workspace", tree: &local }];
        store.save(&roots, &options, &mut |_| ControlFlow::Continue(())).unwrap().id.to_string()
    };
    let (start, other) = (save("old-start"), save("other"));
    let path = scene.directory("old");
    fs::write(path.join("session.json"), facts("old", 1).to_string()).unwrap();
    fs::write(path.join("start"), &start).unwrap();
    assert!(!scene.is_kept("old"));
    let (left, _) = list_snapshots(&scene.places).unwrap();
    assert_eq!(left.into_iter().map(|row| row.id).collect::<Vec<_>>(), [other]);
}
