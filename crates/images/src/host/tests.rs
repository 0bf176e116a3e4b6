//! Closures over a host of our own making, and over this one.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::elf::tests::made;
use super::*;

struct Scene {
    root: tempfile::TempDir,
    spool: Spool,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let spool = Spool::new(root.path()).unwrap();
        Self { root, spool }
    }

    fn file(&self, path: &str, bytes: &[u8]) {
        let at = self.root.path().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, bytes).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn host(&self, cache: Vec<Cached>) -> Host<'_> {
        Host {
            root: self.root.path().to_path_buf(),
            draft: Draft::default(),
            spool: &self.spool,
            cache,
            used: BTreeMap::new(),
            looked_at: BTreeSet::new(),
            missing: BTreeSet::new(),
        }
    }
}

fn files(host: &Host<'_>) -> BTreeSet<String> {
    let is_file = |part: &Part| !matches!(part, Part::Directory);
    host.draft.iter().filter(|(_, part)| is_file(part)).map(|(path, _)| path.to_string()).collect()
}

#[test]
fn a_program_comes_with_its_loader_libraries_and_links() {
    let scene = Scene::new();
    scene
        .file("usr/bin/tool", &made(Some("/lib64/ld.so"), &["liba.so.1"], None, Some("$ORIGIN/../lib/tool")));
    scene.file("usr/lib/tool/liba.so.1.0", &made(None, &["libb.so"], None, None));
    symlink("liba.so.1.0", scene.root.path().join("usr/lib/tool/liba.so.1")).unwrap();
    scene.file("usr/lib/other/libb.so", &made(None, &["libgone.so"], None, None));
    scene.file("usr/lib64/ld.so", &made(None, &[], None, None));
    symlink("usr/lib64", scene.root.path().join("lib64")).unwrap();
    symlink("usr/bin", scene.root.path().join("bin")).unwrap();
    let mut host =
        scene.host(vec![Cached { name: "libb.so".into(), path: "/usr/lib/other/libb.so".into(), flags: 1 }]);
    host.program("/bin/tool").unwrap();
    let expected = [
        "bin",
        "lib64",
        "usr/bin/tool",
        "usr/lib/other/libb.so",
        "usr/lib/tool/liba.so.1",
        "usr/lib/tool/liba.so.1.0",
        "usr/lib64/ld.so",
    ];
    assert_eq!(files(&host), expected.map(str::to_owned).into());
    assert_eq!(host.missing.iter().collect::<Vec<_>>(), ["libgone.so, needed by /usr/lib/other/libb.so"]);
    assert!(host.used.contains_key("/usr/lib/other/libb.so"));
}

#[test]
fn a_script_comes_with_its_interpreter() {
    let scene = Scene::new();
    scene.file("usr/bin/script", b"#!/usr/bin/one -x\nrest\n");
    scene.file("usr/bin/one", b"#! /usr/bin/two\n");
    scene.file("usr/bin/two", &made(None, &[], None, None));
    let mut host = scene.host(Vec::new());
    host.program("/usr/bin/script").unwrap();
    assert_eq!(files(&host), ["usr/bin/one", "usr/bin/script", "usr/bin/two"].map(str::to_owned).into());
    scene.file("usr/bin/circle", b"#!/usr/bin/circle\n");
    scene.host(Vec::new()).program("/usr/bin/circle").unwrap();
}

#[test]
fn what_is_not_the_systems_is_not_taken() {
    let scene = Scene::new();
    scene.file("root/.ssh/id_ed25519", b"key");
    scene.file("home/ann/tool", b"x");
    scene.file("etc/shadow", b"x");
    fs::set_permissions(scene.root.path().join("etc/shadow"), fs::Permissions::from_mode(0o640)).unwrap();
    scene.file("usr/bin/open", b"x");
    fs::set_permissions(scene.root.path().join("usr/bin/open"), fs::Permissions::from_mode(0o777)).unwrap();
    symlink("/root/.ssh/id_ed25519", scene.root.path().join("usr/bin/key")).unwrap();
    symlink("b", scene.root.path().join("usr/bin/a")).unwrap();
    symlink("a", scene.root.path().join("usr/bin/b")).unwrap();
    for path in [
        "/root/.ssh/id_ed25519",
        "/home/ann/tool",
        "/etc/shadow",
        "/usr/bin/open",
        "/usr/bin/key",
        "/usr/bin/a",
    ] {
        let error = scene.host(Vec::new()).program(path).unwrap_err();
        assert_eq!(error.code, "image-not-system", "{path}: {error}");
    }
}

#[test]
fn a_missing_library_of_a_named_program_is_an_error() {
    let scene = Scene::new();
    scene.file("usr/bin/tool", &made(None, &["libgone.so.1"], None, None));
    let error = scene.host(Vec::new()).program("/usr/bin/tool").unwrap_err();
    assert_eq!(error.code, "image-no-library");
    assert_eq!(find_program("no-such-program-here"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The closure is what can be reached, whatever the graph of libraries is, with circles too.
    #[test]
    fn the_closure_is_what_can_be_reached(edges in proptest::collection::vec(proptest::collection::vec(0..8_usize, 0..4), 8)) {
        let scene = Scene::new();
        let name = |index: usize| format!("lib{index}.so");
        for (index, needed) in edges.iter().enumerate() {
            let needed: Vec<String> = needed.iter().map(|to| name(*to)).collect();
            let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
            scene.file(&format!("usr/lib/{}", name(index)), &made(None, &needed, Some("/usr/lib"), None));
        }
        // RPATH is a path of the host: here it is one beneath the scene.
        let cache = (0..edges.len()).map(|index| Cached { name: name(index), path: format!("/usr/lib/{}", name(index)), flags: 1 });
        let mut host = scene.host(cache.collect());
        host.program("/usr/lib/lib0.so").unwrap();
        let mut reached = BTreeSet::from([0]);
        let mut waiting = vec![0];
        while let Some(at) = waiting.pop() {
            waiting.extend(edges[at].iter().copied().filter(|to| reached.insert(*to)));
        }
        let expected: BTreeSet<String> = reached.into_iter().map(|index| format!("usr/lib/{}", name(index))).collect();
        prop_assert_eq!(files(&host), expected);
    }
}
