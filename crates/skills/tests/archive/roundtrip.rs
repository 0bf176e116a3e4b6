//! There and back: what was packed is what comes out, and the bytes depend on nothing but what is in them.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use ringfence_skills::{Format, Tree, TreeLimits, left_out, pack, pack_file};

use crate::scene::{Scene, digest};

#[derive(Clone, Debug)]
enum Node {
    File { content: Vec<u8>, executable: bool },
    Link { to: String },
}

fn write_tree(root: &Path, nodes: &BTreeMap<String, Node>, backwards: bool) {
    let mut ordered: Vec<_> = nodes.iter().collect();
    if backwards {
        ordered.reverse();
    }
    for (path, node) in ordered {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            Node::File { content, executable } => {
                std::fs::write(&path, content).unwrap();
                // Other bits than those that count differ.
                let mode = match (executable, backwards) {
                    (true, false) => 0o755,
                    (true, true) => 0o700,
                    (false, false) => 0o644,
                    (false, true) => 0o600,
                };
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
                if backwards {
                    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
                    std::fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
                }
            }
            Node::Link { to } => symlink(to, &path).unwrap(),
        }
    }
}

fn pack_bytes(directory: &Path, format: Format) -> Vec<u8> {
    let tree = Tree::read(directory, TreeLimits::default(), left_out).unwrap();
    let mut out = Cursor::new(Vec::new());
    let packed = pack(&tree, "demo", format, &mut out).unwrap();
    assert_eq!(packed.digest, tree.digest().unwrap());
    assert_eq!(packed.archive_bytes, out.get_ref().len() as u64);
    out.into_inner()
}

fn names() -> impl Strategy<Value = String> {
    // Lower case, so that no two names collide by case; lengths on both sides of what a plain tar header holds.
    prop_oneof![4 => "[a-z0-9_é漢-]{1,12}", 1 => "[a-z]{90,110}"].prop_filter("reserved on Windows", |name| {
        !["con", "prn", "aux", "nul", "evals"].contains(&name.as_str())
            && !name.starts_with("com")
            && !name.starts_with("lpt")
    })
}

fn trees() -> impl Strategy<Value = BTreeMap<String, Node>> {
    let content = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..2000),
        (any::<u8>(), 0..200_000_usize).prop_map(|(byte, count)| vec![byte; count]),
        Just(vec![0; 512]),
    ];
    // Files end in a dot and a letter, directories have none: no path is both.
    let file = (proptest::collection::vec(names(), 0..4), names(), content, any::<bool>()).prop_map(
        |(directories, name, content, executable)| {
            let path = directories.into_iter().chain([format!("{name}.f")]).collect::<Vec<_>>().join("/");
            (path, Node::File { content, executable })
        },
    );
    let link =
        (proptest::collection::vec(names(), 0..3), names(), names()).prop_map(|(directories, name, to)| {
            let up = "../".repeat(directories.len());
            let path = directories.into_iter().chain([format!("{name}.l")]).collect::<Vec<_>>().join("/");
            (path, Node::Link { to: format!("{up}{to}") })
        });
    (proptest::collection::vec(file, 0..8), proptest::collection::vec(link, 0..3)).prop_map(
        |(files, links)| {
            let manifest = Node::File { content: b"---\nname: demo\n---\n".to_vec(), executable: false };
            files.into_iter().chain(links).chain([("SKILL.md".to_owned(), manifest)]).collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_packed_comes_out(nodes in trees()) {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write_tree(one.path(), &nodes, false);
        write_tree(other.path(), &nodes, true);
        std::fs::create_dir_all(other.path().join("empty/directory")).unwrap();
        std::fs::create_dir_all(other.path().join("node_modules")).unwrap();
        std::fs::write(other.path().join("node_modules/left-out.js"), "").unwrap();
        for format in Format::ALL {
            let bytes = pack_bytes(one.path(), format);
            prop_assert!(bytes == pack_bytes(other.path(), format), "{:?} is not deterministic", format);
            let scene = Scene::new();
            let unpacked = scene.unpack_bytes(&bytes).unwrap();
            prop_assert_eq!(unpacked.format, format);
            prop_assert_eq!(unpacked.name.as_deref(), Some("demo"));
            prop_assert_eq!(unpacked.files, nodes.len());
            prop_assert_eq!(scene.digest(), digest(one.path()));
            prop_assert!(scene.surroundings_are_untouched());
        }
    }
}

fn small_skill() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("SKILL.md"), "---\nname: demo\n---\n").unwrap();
    directory
}

#[test]
fn modes_are_two_whatever_the_umask() {
    let directory = small_skill();
    let script = directory.path().join("scripts/run.sh");
    std::fs::create_dir(script.parent().unwrap()).unwrap();
    std::fs::write(&script, "").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o711)).unwrap();
    let scene = Scene::new();
    let archive = pack_bytes(directory.path(), Format::Zip);
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let unpacked = scene.unpack_bytes(&archive);
    rustix::process::umask(before);
    unpacked.unwrap();
    let mode =
        |path: &str| std::fs::metadata(scene.inside().join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("SKILL.md"), mode("scripts"), mode("scripts/run.sh")), (0o644, 0o755, 0o755));
}

#[test]
fn what_could_not_be_unpacked_is_not_packed() {
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil); 6] = [
        ("no-manifest", |at| std::fs::rename(at.join("SKILL.md"), at.join("README.md")).unwrap()),
        ("link-out", |at| symlink("/etc/passwd", at.join("link")).unwrap()),
        ("link-out", |at| symlink("../canary", at.join("link")).unwrap()),
        ("name-collision", |at| {
            std::fs::write(at.join("a"), "").unwrap();
            std::fs::write(at.join("A"), "").unwrap();
        }),
        ("backslash", |at| std::fs::write(at.join("a\\b"), "").unwrap()),
        ("tree", |at| drop(std::os::unix::net::UnixListener::bind(at.join("socket")).unwrap())),
    ];
    for (code, spoil) in cases {
        let directory = small_skill();
        spoil(directory.path());
        let tree = Tree::read(directory.path(), TreeLimits::default(), left_out).unwrap();
        for format in Format::ALL {
            let error = pack(&tree, "demo", format, &mut Cursor::new(Vec::new())).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
        }
    }
    let directory = small_skill();
    let tree = Tree::read(directory.path(), TreeLimits::default(), left_out).unwrap();
    for name in ["", ".", "..", "a/b", "/a", "a\\b", "con"] {
        assert!(pack(&tree, name, Format::Zip, &mut Cursor::new(Vec::new())).is_err(), "{name:?}");
    }
}

#[test]
fn what_is_left_out_is_not_even_judged() {
    let directory = small_skill();
    let bytes = pack_bytes(directory.path(), Format::Tar);
    std::fs::create_dir_all(directory.path().join("node_modules/a\\b")).unwrap();
    symlink("/etc/passwd", directory.path().join("node_modules/a\\b/link")).unwrap();
    let all = Tree::read(directory.path(), TreeLimits::default(), |_, _| false).unwrap();
    let mut out = Cursor::new(Vec::new());
    pack(&all, "demo", Format::Tar, &mut out).unwrap();
    assert!(out.into_inner() == bytes);
}

#[test]
fn a_bomb_is_not_packed() {
    let directory = small_skill();
    std::fs::write(directory.path().join("zeros"), vec![0; 40 << 20]).unwrap();
    let tree = Tree::read(directory.path(), TreeLimits::default(), left_out).unwrap();
    let error = pack(&tree, "demo", Format::Zip, &mut Cursor::new(Vec::new())).unwrap_err();
    assert_eq!(error.code(), "ratio");
    // Uncompressed it is no bomb.
    let mut out = Cursor::new(Vec::new());
    pack(&tree, "demo", Format::Tar, &mut out).unwrap();
    Scene::new().unpack_bytes(out.get_ref()).unwrap();
}

#[test]
fn what_changed_since_it_was_read_is_an_error() {
    type Change = fn(&Path);
    let changes: [Change; 5] = [
        |at| std::fs::write(at.join("file"), "longer than it was").unwrap(),
        |at| std::fs::write(at.join("file"), "").unwrap(),
        |at| std::fs::set_permissions(at.join("file"), std::fs::Permissions::from_mode(0o755)).unwrap(),
        |at| {
            std::fs::remove_file(at.join("file")).unwrap();
            symlink("/etc/passwd", at.join("file")).unwrap();
        },
        |at| {
            std::fs::remove_file(at.join("link")).unwrap();
            symlink("elsewhere", at.join("link")).unwrap();
        },
    ];
    for change in changes {
        let directory = small_skill();
        std::fs::write(directory.path().join("file"), "content").unwrap();
        symlink("file", directory.path().join("link")).unwrap();
        let tree = Tree::read(directory.path(), TreeLimits::default(), left_out).unwrap();
        change(directory.path());
        for format in Format::ALL {
            let error = pack(&tree, "demo", format, &mut Cursor::new(Vec::new())).unwrap_err();
            assert!(["changed", "tree"].contains(&error.code()), "{error}");
        }
    }
}

/// Writes over a file of the tree once the archive has grown: the file is packed by then.
struct Meddler<'a> {
    out: Cursor<Vec<u8>>,
    file: &'a Path,
}

impl std::io::Write for Meddler<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.out.get_ref().len() > 100_000 {
            std::fs::write(self.file, "CONTENT").unwrap();
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for Meddler<'_> {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.out.seek(to)
    }
}

#[test]
fn a_file_that_changes_after_it_was_packed_is_an_error_too() {
    let directory = small_skill();
    let first = directory.path().join("a-first");
    std::fs::write(&first, "content").unwrap();
    let noise: Vec<u8> = (0_u32..300_000).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(directory.path().join("b-second"), noise).unwrap();
    let tree = Tree::read(directory.path(), TreeLimits::default(), left_out).unwrap();
    let mut out = Meddler { out: Cursor::new(Vec::new()), file: &first };
    assert_eq!(pack(&tree, "demo", Format::Tar, &mut out).unwrap_err().code(), "changed");
}

#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let directory = small_skill();
    let outputs = tempfile::tempdir().unwrap();
    let out = outputs.path().join("demo.skill");
    let packed = pack_file(directory.path(), "demo", Format::Zip, &out).unwrap();
    assert_eq!(std::fs::metadata(&out).unwrap().len(), packed.archive_bytes);
    let before = std::fs::read(&out).unwrap();
    symlink("/etc/passwd", directory.path().join("link")).unwrap();
    assert_eq!(pack_file(directory.path(), "demo", Format::Zip, &out).unwrap_err().code(), "link-out");
    assert_eq!(std::fs::read(&out).unwrap(), before);
    assert_eq!(std::fs::read_dir(outputs.path()).unwrap().count(), 1);
    let within = directory.path().join("demo.skill");
    assert_eq!(
        pack_file(directory.path(), "demo", Format::Zip, &within).unwrap_err().code(),
        "output-inside"
    );
    assert!(!within.exists());
}

#[test]
fn only_an_empty_directory_is_unpacked_into() {
    let directory = small_skill();
    let scene = Scene::new();
    std::fs::write(scene.inside().join("theirs"), "").unwrap();
    let error = scene.unpack_bytes(&pack_bytes(directory.path(), Format::Zip)).unwrap_err();
    assert_eq!(error.code(), "not-empty");
    assert!(scene.inside().join("theirs").exists());
}

#[test]
fn a_name_asks_for_a_format() {
    for (name, format) in [
        ("a.skill", Some(Format::Zip)),
        ("a.ZIP", Some(Format::Zip)),
        ("a.tar", Some(Format::Tar)),
        ("a.tar.gz", Some(Format::TarGz)),
        ("a.tgz", Some(Format::TarGz)),
        ("a.tar.zst", Some(Format::TarZst)),
        ("a.gz", None),
        ("zip", None),
    ] {
        assert_eq!(Format::of_name(name), format, "{name}");
    }
}
