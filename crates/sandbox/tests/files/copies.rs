//! Trees into the sandbox and out of it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use ringfence_sandbox::{Copied, CopyLimits, FileError, FileProblem, Files};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::worker::{Scene, names_in};

/// One of the two directions.
type Copy = fn(&mut Files, &Path, &Path, &CopyLimits) -> Result<Copied, FileError>;

const WAYS: [Copy; 2] = [
    |files, from, to, limits| files.copy_in(from, to, limits, &mut |_| {}),
    |files, from, to, limits| files.copy_out(from, to, limits, &mut |_| {}),
];

const EEXIST: i32 = 17;
const ELOOP: i32 = 40;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn source() -> TempDir {
    let source = TempDir::new().unwrap();
    let at = |name: &str| source.path().join(name);
    fs::create_dir_all(at("tree/sub/empty")).unwrap();
    fs::write(at("tree/file"), "content").unwrap();
    fs::write(at("tree/sub/tool"), "#!").unwrap();
    chmod(&at("tree/sub/tool"), 0o4755);
    symlink("/etc/passwd", at("tree/link")).unwrap();
    fs::write(source.path().join(OsStr::from_bytes(b"tree/a\nb\xff")), "odd").unwrap();
    chmod(&at("tree/sub"), 0o2550);
    source
}

#[test]
fn a_tree_arrives_as_it_was_without_setuid() {
    for copy in WAYS {
        let (mut scene, source) = (Scene::new(), source());
        let to = scene.path("copy");
        let copied =
            copy(&mut scene.files, &source.path().join("tree"), &to, &CopyLimits::default()).unwrap();
        assert_eq!(copied, Copied { entries: 7, bytes: 12 });
        assert_eq!(fs::read_to_string(to.join("file")).unwrap(), "content");
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert_eq!(fs::read(to.join(OsStr::from_bytes(b"a\nb\xff"))).unwrap(), b"odd");
        assert_eq!((mode_of(&to.join("sub/tool")), mode_of(&to.join("sub"))), (0o755, 0o550));
        assert!(to.join("sub/empty").is_dir());
        assert_eq!(names_in(&to).len(), 4);
        chmod(&to.join("sub"), 0o700);
        chmod(&source.path().join("tree/sub"), 0o700);
    }
}

#[test]
fn a_copy_again_replaces_files_and_links_and_adds_to_directories() {
    for copy in WAYS {
        let (mut scene, source) = (Scene::new(), TempDir::new().unwrap());
        let from = source.path().join("tree");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("file"), "new").unwrap();
        symlink("new", from.join("link")).unwrap();
        let to = scene.path("copy");
        fs::create_dir(&to).unwrap();
        fs::write(to.join("kept"), "kept").unwrap();
        let elsewhere = scene.write("elsewhere", "untouched");
        symlink(&elsewhere, to.join("file")).unwrap();
        symlink("old", to.join("link")).unwrap();
        copy(&mut scene.files, &from, &to, &CopyLimits::default()).unwrap();
        assert_eq!(fs::read_to_string(to.join("file")).unwrap(), "new");
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("new"));
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "untouched");
        assert_eq!(names_in(&to), ["file", "kept", "link"]);
    }
}

#[test]
fn a_link_in_the_place_of_a_directory_is_not_entered() {
    for copy in WAYS {
        let (mut scene, source) = (Scene::new(), TempDir::new().unwrap());
        let from = source.path().join("tree");
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/file"), "x").unwrap();
        let (to, outside) = (scene.path("copy"), TempDir::new().unwrap());
        fs::create_dir(&to).unwrap();
        symlink(outside.path(), to.join("sub")).unwrap();
        let error = copy(&mut scene.files, &from, &to, &CopyLimits::default()).unwrap_err();
        assert!(matches!(error.errno(), Some(EEXIST | ELOOP)), "{error}");
        assert!(names_in(outside.path()).is_empty());
    }
}

#[test]
fn a_link_named_as_the_source_is_copied_as_a_link() {
    for copy in WAYS {
        let (mut scene, source) = (Scene::new(), source());
        let to = scene.path("copy");
        copy(&mut scene.files, &source.path().join("tree/link"), &to, &CopyLimits::default()).unwrap();
        assert_eq!(fs::read_link(to).unwrap(), Path::new("/etc/passwd"));
        chmod(&source.path().join("tree/sub"), 0o700);
    }
}

#[test]
fn special_files_are_refused() {
    for copy in WAYS {
        let (mut scene, source) = (Scene::new(), TempDir::new().unwrap());
        let fifo = source.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let to = scene.path("copy");
        let error = copy(&mut scene.files, &fifo, &to, &CopyLimits::default()).unwrap_err();
        assert!(matches!(error.problem, FileProblem::NotCopied("a FIFO")), "{error}");
        assert!(!error.fix().is_empty());
    }
}

#[test]
fn limits_hold_and_half_a_file_is_not_left() {
    for copy in WAYS {
        let source = TempDir::new().unwrap();
        let from = source.path().join("tree");
        fs::create_dir_all(from.join("a/b/c")).unwrap();
        fs::write(from.join("big"), vec![0; 100]).unwrap();
        let wide = CopyLimits::default();
        for limits in [
            CopyLimits { bytes: 99, ..wide },
            CopyLimits { entries: 3, ..wide },
            CopyLimits { depth: 3, ..wide },
        ] {
            let mut scene = Scene::new();
            let to = scene.path("copy");
            let error = copy(&mut scene.files, &from, &to, &limits).unwrap_err();
            assert!(matches!(error.problem, FileProblem::TooMuch { .. }), "{error}");
            assert!(names_in(&to).iter().all(|name| !name.starts_with(".ringfence")), "{limits:?}");
        }
        let exact = CopyLimits { bytes: 100, entries: 5, depth: 4 };
        let mut scene = Scene::new();
        let to = scene.path("copy");
        copy(&mut scene.files, &from, &to, &exact).unwrap();
    }
}

#[test]
fn a_sparse_file_stays_sparse() {
    for copy in WAYS {
        let (mut scene, source) = (Scene::new(), TempDir::new().unwrap());
        let from = source.path().join("sparse");
        fs::File::create(&from).unwrap().set_len(1 << 40).unwrap();
        let to = scene.path("copy");
        copy(&mut scene.files, &from, &to, &CopyLimits { bytes: 1 << 41, ..CopyLimits::default() }).unwrap();
        let copied = fs::metadata(to).unwrap();
        assert_eq!(copied.len(), 1 << 40);
        assert!(copied.blocks() < 1000);
    }
}

#[test]
fn progress_tells_every_entry() {
    let (mut scene, source) = (Scene::new(), source());
    let mut told = Vec::new();
    let to = scene.path("copy");
    let copied = scene
        .files
        .copy_in(&source.path().join("tree"), &to, &CopyLimits::default(), &mut |progress| {
            told.push(progress.copied);
        })
        .unwrap();
    assert_eq!((told.len(), told.last()), (7, Some(&copied)));
    chmod(&source.path().join("tree/sub"), 0o700);
}

#[test]
fn progress_is_told_within_a_large_file() {
    const SIZE: usize = 1 << 20;
    let (mut scene, source) = (Scene::new(), TempDir::new().unwrap());
    let (from, to, back) = (source.path().join("large"), scene.path("copy"), source.path().join("back"));
    fs::write(&from, vec![7; SIZE]).unwrap();
    let mut told: Vec<Vec<u64>> = vec![Vec::new(), Vec::new()];
    let limits = CopyLimits::default();
    scene.files.copy_in(&from, &to, &limits, &mut |progress| told[0].push(progress.copied.bytes)).unwrap();
    scene.files.copy_out(&to, &back, &limits, &mut |progress| told[1].push(progress.copied.bytes)).unwrap();
    for told in told {
        assert!(told.len() > 2 && told.is_sorted() && told.last() == Some(&(SIZE as u64)), "{told:?}");
    }
}

/// A copy that fails half-way leaves what it has made with the modes that it was to have: the next one finds directories
/// that are as they should be.
#[test]
fn a_copy_after_one_that_failed_has_the_modes_of_what_was_copied() {
    for copy in WAYS {
        let (mut scene, source) = (Scene::new(), TempDir::new().unwrap());
        let at = |name: &str| source.path().join(name);
        fs::create_dir_all(at("tree/sub")).unwrap();
        fs::write(at("tree/sub/large"), vec![0; 4096]).unwrap();
        chmod(&at("tree"), 0o755);
        chmod(&at("tree/sub"), 0o555);
        let to = scene.path("copy");
        let little = CopyLimits { bytes: 10, ..CopyLimits::default() };
        copy(&mut scene.files, &at("tree"), &to, &little).unwrap_err();
        assert_eq!((mode_of(&to), mode_of(&to.join("sub"))), (0o755, 0o555), "after the failed one");
        chmod(&to.join("sub"), 0o755);
        copy(&mut scene.files, &at("tree"), &to, &CopyLimits::default()).unwrap();
        assert_eq!(mode_of(&to), 0o755);
    }
}
