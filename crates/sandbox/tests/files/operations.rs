//! What each operation does, and what it refuses.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_sandbox::{
    Durability, Existing, FileError, FileKind, FileProblem, Links, ListLimit, Parents, Reach, Timestamp,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::worker::Scene;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ELOOP: i32 = 40;
const ESTALE: i32 = 116;

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, FileError>, errno: i32) {
    let error = result.expect_err("it should be refused");
    assert_eq!(error.errno(), Some(errno), "{error}");
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn stat_says_what_the_kernel_says() {
    let mut scene = Scene::new();
    let file = scene.write("file", "content");
    let link = scene.path("link");
    symlink("file", &link).unwrap();
    let real = fs::metadata(&file).unwrap();

    let (stat, target) = scene.files.stat(&file, Links::Keep).unwrap();
    assert_eq!((stat.kind, stat.size, stat.inode), (FileKind::Regular, 7, real.ino()));
    assert_eq!((stat.device, stat.links, stat.mode), (real.dev(), 1, real.mode() & 0o7777));
    assert_eq!(
        (stat.modified.seconds, i64::from(stat.modified.nanoseconds)),
        (real.mtime(), real.mtime_nsec())
    );
    assert_eq!(
        (stat.changed.seconds, i64::from(stat.changed.nanoseconds)),
        (real.ctime(), real.ctime_nsec())
    );
    assert_eq!(target, None);

    let (stat, target) = scene.files.stat(&link, Links::Keep).unwrap();
    assert_eq!((stat.kind, target), (FileKind::Symlink, Some(PathBuf::from("file"))));
    let (stat, target) = scene.files.stat(&link, Links::Follow).unwrap();
    assert_eq!((stat.kind, stat.inode, target), (FileKind::Regular, real.ino(), None));
}

#[test]
fn a_path_that_is_none_is_an_error_and_the_worker_goes_on() {
    let mut scene = Scene::new();
    let long = PathBuf::from(format!("/{}", "a".repeat(4095)));
    let far_too_long = PathBuf::from(format!("/{}", "a".repeat(60_000)));
    for (path, errno) in [
        (Path::new("relative"), EINVAL),
        (Path::new(""), EINVAL),
        (Path::new("/a\0b"), EINVAL),
        (&long, ENAMETOOLONG),
        (&far_too_long, ENAMETOOLONG),
        (Path::new("/no/such/file"), ENOENT),
    ] {
        refused(scene.files.stat(path, Links::Keep), errno);
        refused(scene.files.list(path, ListLimit::default()), errno);
        refused(scene.files.open_read(path, Links::Keep), errno);
        refused(scene.files.truncate(path, 0), errno);
    }
    assert!(scene.files.stat(Path::new("/"), Links::Keep).is_ok());
}

#[test]
fn a_large_directory_is_listed_whole() {
    const COUNT: usize = 5_000;
    let mut scene = Scene::new();
    for number in 0..COUNT {
        scene.write(&format!("a-file-with-a-longer-name-{number}"), "");
    }
    symlink("nowhere", scene.path("link")).unwrap();
    make_fifo(&scene.path("fifo"));
    let directory = scene.path("");
    let entries = scene.files.list(&directory, ListLimit::default()).unwrap();
    assert_eq!(entries.len(), COUNT + 2);
    let find = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(find("link").target, Some(PathBuf::from("nowhere")));
    assert_eq!(find("fifo").stat.kind, FileKind::Fifo);
}

#[test]
fn names_are_bytes() {
    let mut scene = Scene::new();
    let name = OsStr::from_bytes(b"new\nline \xff\xfe");
    fs::write(scene.path(name), "x").unwrap();
    let directory = scene.path("");
    assert_eq!(scene.files.list(&directory, ListLimit::default()).unwrap()[0].name, name);
    let path = scene.path(name);
    let mut content = String::new();
    scene.files.open_read(&path, Links::Keep).unwrap().read_to_string(&mut content).unwrap();
    assert_eq!(content, "x");
}

#[test]
fn only_regular_files_are_opened_and_none_holds_the_worker() {
    let mut scene = Scene::new();
    let file = scene.write("file", "x");
    symlink(&file, scene.path("link")).unwrap();
    make_fifo(&scene.path("fifo"));
    symlink("fifo", scene.path("to-fifo")).unwrap();
    for (name, links, kind) in [
        ("fifo", Links::Keep, FileKind::Fifo),
        ("to-fifo", Links::Follow, FileKind::Fifo),
        ("link", Links::Keep, FileKind::Symlink),
        ("", Links::Keep, FileKind::Directory),
    ] {
        let path = scene.path(name);
        let error = scene.files.open_read(&path, links).unwrap_err();
        assert!(matches!(error.problem, FileProblem::NotRegular(found) if found == kind), "{error}");
    }
    let device = scene.files.open_read(Path::new("/dev/zero"), Links::Keep).unwrap_err();
    assert!(matches!(device.problem, FileProblem::NotRegular(FileKind::CharacterDevice)), "{device}");
    let fifo = scene.path("fifo");
    assert!(matches!(scene.files.truncate(&fifo, 0).unwrap_err().problem, FileProblem::NotRegular(_)));
    let link = scene.path("link");
    assert!(scene.files.open_read(&link, Links::Follow).is_ok());
}

#[test]
fn a_file_that_is_opened_to_be_read_can_not_be_written() {
    let mut scene = Scene::new();
    let path = scene.write("file", "x");
    let mut file = scene.files.open_read(&path, Links::Keep).unwrap();
    assert_eq!(file.write(b"y").unwrap_err().raw_os_error(), Some(EBADF));
}

#[test]
fn a_new_file_appears_whole_with_its_mode() {
    let mut scene = Scene::new();
    let path = scene.path("new");
    let draft = scene.files.create(&path, 0o751, Links::Keep).unwrap();
    draft.file().write_all_at(b"content", 0).unwrap();
    assert!(!path.exists());
    scene.files.finish(draft, Existing::Refuse, Durability::Now).unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode_of(&path)), ("content", 0o751));
    assert_eq!(scene.names(), ["new"]);
}

#[test]
fn a_file_that_is_there_is_replaced_only_if_asked() {
    let mut scene = Scene::new();
    let path = scene.write("file", "old");
    let draft = scene.files.create(&path, 0o600, Links::Keep).unwrap();
    refused(scene.files.finish(draft, Existing::Refuse, Durability::Later), EEXIST);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), scene.names()), ("old", vec!["file".into()]));
    let draft = scene.files.create(&path, 0o600, Links::Keep).unwrap();
    scene.files.finish(draft, Existing::Replace, Durability::Later).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[test]
fn a_link_is_replaced_and_followed_only_if_asked() {
    let mut scene = Scene::new();
    let (real, link) = (scene.write("real", "old"), scene.path("link"));
    for (links, real_content, still_a_link) in [(Links::Follow, "new", true), (Links::Keep, "new", false)] {
        let _ = fs::remove_file(&link);
        symlink("real", &link).unwrap();
        let draft = scene.files.create(&link, 0o600, links).unwrap();
        let text: &[u8] = if links == Links::Follow { b"new" } else { b"newer" };
        draft.file().write_all_at(text, 0).unwrap();
        scene.files.finish(draft, Existing::Replace, Durability::Later).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), real_content);
        assert_eq!(link.is_symlink(), still_a_link);
    }
    symlink("loop", scene.path("loop")).unwrap();
    let turning = scene.path("loop");
    refused(scene.files.create(&turning, 0o600, Links::Follow), ELOOP);
}

#[test]
fn drafts_are_bounded_and_leave_nothing() {
    let mut scene = Scene::new();
    let path = scene.path("file");
    let draft = scene.files.create(&path, 0o600, Links::Keep).unwrap();
    scene.files.abandon(draft).unwrap();
    assert_eq!(scene.names(), Vec::<String>::new());
    let drafts: Vec<_> = (0..64).map(|_| scene.files.create(&path, 0o600, Links::Keep).unwrap()).collect();
    refused(scene.files.create(&path, 0o600, Links::Keep), EMFILE);
    drop(drafts);
    let (mut worker, directory) = scene.close();
    worker.wait().unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_draft_that_was_exchanged_is_not_put_in_place() {
    let mut scene = Scene::new();
    let path = scene.path("file");
    let draft = scene.files.create(&path, 0o600, Links::Keep).unwrap();
    let name = scene.names().remove(0);
    fs::rename(scene.path(&name), scene.path("aside")).unwrap();
    scene.write(&name, "not what was written");
    refused(scene.files.finish(draft, Existing::Replace, Durability::Later), ESTALE);
    assert!(!path.exists());
}

#[test]
fn no_mode_makes_a_setuid_file() {
    let mut scene = Scene::new();
    let path = scene.write("file", "");
    for mode in [0o4755, 0o2755, 0o6777, 0o10000] {
        refused(scene.files.set_mode(&path, mode), EPERM);
        refused(scene.files.create(&path, mode, Links::Keep), EPERM);
        let directory = scene.path("directory");
        refused(scene.files.make_directory(&directory, mode, Parents::Exist), EPERM);
    }
    scene.files.set_mode(&path, 0o640).unwrap();
    assert_eq!(mode_of(&path), 0o640);
}

#[test]
fn directories_are_made_with_or_without_those_above() {
    let mut scene = Scene::new();
    let deep = scene.path("a/b/c");
    refused(scene.files.make_directory(&deep, 0o700, Parents::Exist), ENOENT);
    scene.files.make_directory(&deep, 0o711, Parents::Make).unwrap();
    assert_eq!((mode_of(&deep), mode_of(&scene.path("a"))), (0o711, 0o755));
    scene.files.make_directory(&deep, 0o700, Parents::Make).unwrap();
    refused(scene.files.make_directory(&deep, 0o700, Parents::Exist), EEXIST);
    let file = scene.write("file", "");
    refused(scene.files.make_directory(&file, 0o700, Parents::Make), EEXIST);
}

#[test]
fn renames_links_times_and_lengths() {
    let mut scene = Scene::new();
    let (a, b) = (scene.write("a", "aaaa"), scene.write("b", "b"));
    refused(scene.files.rename(&a, &b, Existing::Refuse), EEXIST);
    scene.files.rename(&a, &b, Existing::Replace).unwrap();
    assert_eq!((fs::read_to_string(&b).unwrap().as_str(), a.exists()), ("aaaa", false));

    scene.files.truncate(&b, 2).unwrap();
    assert_eq!(fs::read_to_string(&b).unwrap(), "aa");
    refused(scene.files.truncate(&b, u64::MAX), EINVAL);

    let link = scene.path("link");
    scene.files.symlink(Path::new("b"), &link).unwrap();
    refused(scene.files.symlink(Path::new("b"), &link), EEXIST);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("b"));

    let time = Timestamp { seconds: 1_000_000_000, nanoseconds: 123_456_789 };
    scene.files.set_modified(&link, time).unwrap();
    let at = |metadata: fs::Metadata| (metadata.mtime(), metadata.mtime_nsec());
    assert_eq!(at(fs::symlink_metadata(&link).unwrap()), (1_000_000_000, 123_456_789));
    assert_ne!(at(fs::metadata(&b).unwrap()), (1_000_000_000, 123_456_789));
}

#[test]
fn removing_follows_no_link_and_empties_only_what_it_is_told_to() {
    let mut scene = Scene::new();
    let outside = Scene::new();
    let kept = outside.write("kept", "x");
    fs::create_dir_all(scene.path("tree/a/b")).unwrap();
    symlink(outside.path(""), scene.path("tree/a/link")).unwrap();
    scene.write("tree/a/b/file", "x");
    make_fifo(&scene.path("tree/fifo"));
    let tree = scene.path("tree");
    refused(scene.files.remove(&tree, Reach::One), ENOTEMPTY);
    scene.files.remove(&tree, Reach::Tree).unwrap();
    assert!(!tree.exists() && kept.exists());
    symlink(outside.path(""), scene.path("top")).unwrap();
    let top = scene.path("top");
    scene.files.remove(&top, Reach::Tree).unwrap();
    assert!(!top.is_symlink() && kept.exists());
    refused(scene.files.remove(&top, Reach::Tree), ENOENT);
    for path in ["/", "/tmp/.."] {
        refused(scene.files.remove(Path::new(path), Reach::Tree), EINVAL);
    }
}

#[test]
fn the_worker_ends_when_its_channel_closes() {
    let (mut worker, _directory) = Scene::new().close();
    let begin = Instant::now();
    while worker.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the worker still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}
