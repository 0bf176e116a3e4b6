//! Workers that lie, stall and flood: what a client takes from them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ringfence_guard::{
    FILES_VERSION, FileChange, FileEntry, FileEvent, FileKind, FileReply, FileStat, Timestamp,
};
use ringfence_linux::{control_pair, recv_with_fds, send_with_fds};
use ringfence_sandbox::{CopyLimits, FileError, FileProblem, FileTimeouts, Files, Links, ListLimit, Reach};
use tempfile::{TempDir, tempfile};

const INSIDE: &str = "/workspace";

/// A client whose worker greets, hears one request and then does `lie`.
fn lied_to(lie: impl FnOnce(BorrowedFd<'_>) + Send + 'static) -> (Files, JoinHandle<()>) {
    let (ours, theirs) = control_pair().unwrap();
    let worker = std::thread::spawn(move || {
        hear(theirs.as_fd());
        say(theirs.as_fd(), &FileReply::Hello { version: FILES_VERSION });
        hear(theirs.as_fd());
        lie(theirs.as_fd());
    });
    let timeouts = FileTimeouts { answer: Duration::from_secs(20), operation: Duration::from_secs(60) };
    (Files::connect(ours, timeouts).unwrap(), worker)
}

fn hear(channel: BorrowedFd<'_>) {
    recv_with_fds(channel).unwrap();
}

fn say(channel: BorrowedFd<'_>, reply: &FileReply) -> bool {
    send_with_fds(channel, &reply.encode(), &[]).is_ok()
}

fn stat(kind: FileKind) -> FileStat {
    let time = Timestamp { seconds: 0, nanoseconds: 0 };
    FileStat { kind, mode: 0o6777, size: 1, modified: time, changed: time, device: 1, inode: 1, links: 1 }
}

fn entry(name: &OsStr, kind: FileKind) -> FileEntry {
    FileEntry { name: name.into(), stat: stat(kind), target: None }
}

#[track_caller]
fn broken<T: std::fmt::Debug>(result: Result<T, FileError>) {
    let error = result.expect_err("it should be refused");
    assert!(matches!(error.problem, FileProblem::Broken(_)), "{error}");
}

#[test]
fn an_answer_that_means_nothing_is_refused_and_nothing_is_asked_afterwards() {
    let (mut files, _worker) = lied_to(|channel| {
        send_with_fds(channel, b"rubbish", &[]).unwrap();
        say(channel, &FileReply::Done);
        hear(channel);
    });
    broken(files.stat(Path::new(INSIDE), Links::Keep));
    broken(files.truncate(Path::new(INSIDE), 0));
}

#[test]
fn an_answer_to_another_question_is_refused() {
    let (mut files, _worker) = lied_to(|channel| {
        say(channel, &FileReply::Done);
    });
    broken(files.stat(Path::new(INSIDE), Links::Keep));
}

#[test]
fn a_message_beyond_the_largest_is_refused() {
    let (mut files, _worker) = lied_to(|channel| {
        send_with_fds(channel, &vec![b'd'; 100_000], &[]).unwrap();
    });
    broken(files.truncate(Path::new(INSIDE), 0));
}

#[test]
fn an_error_number_that_does_not_exist_is_refused() {
    for errno in [0, 4096, u32::MAX] {
        let (mut files, _worker) = lied_to(move |channel| {
            say(channel, &FileReply::Failed { errno });
        });
        broken(files.truncate(Path::new(INSIDE), 0));
    }
}

/// How many descriptors of this process are the file `of`.
fn copies_of(of: &File) -> usize {
    use std::os::unix::fs::MetadataExt;
    let wanted = of.metadata().map(|file| (file.dev(), file.ino())).unwrap();
    fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(|file| (file.dev(), file.ino()) == wanted)
        .count()
}

#[test]
fn descriptors_that_were_not_asked_for_are_closed() {
    for (reply, count) in [
        (FileReply::Opened, 2),
        (FileReply::Opened, 32),
        (FileReply::Done, 1),
        (FileReply::Failed { errno: 2 }, 1),
    ] {
        let file = tempfile().unwrap();
        let sent = file.try_clone().unwrap();
        let (mut files, worker) = lied_to(move |channel| {
            send_with_fds(channel, &reply.encode(), &vec![sent.as_fd(); count]).unwrap();
        });
        broken(files.open_read(Path::new(INSIDE), Links::Keep));
        worker.join().unwrap();
        assert_eq!(copies_of(&file), 1);
    }
}

#[test]
fn an_opened_file_without_its_descriptor_is_refused() {
    let (mut files, _worker) = lied_to(|channel| {
        say(channel, &FileReply::Opened);
    });
    broken(files.open_read(Path::new(INSIDE), Links::Keep));
}

#[test]
fn a_descriptor_of_anything_but_a_regular_file_is_refused() {
    let directory: OwnedFd = File::open("/").unwrap().into();
    let device: OwnedFd = File::open("/dev/zero").unwrap().into();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let (socket, _other) = control_pair().unwrap();
    for fd in [directory, device, pipe.into(), socket] {
        let again = fd.try_clone().unwrap();
        let (mut files, _worker) = lied_to(move |channel| {
            send_with_fds(channel, &FileReply::Opened.encode(), &[fd.as_fd()]).unwrap();
        });
        broken(files.open_read(Path::new(INSIDE), Links::Keep));
        let (mut files, _worker) = lied_to(move |channel| {
            send_with_fds(channel, &FileReply::Created { draft: 1 }.encode(), &[again.as_fd()]).unwrap();
        });
        broken(files.create(Path::new(INSIDE), 0o600, Links::Keep));
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let long = [b'a'; 256];
    for name in [b"..".as_slice(), b".", b"", b"a/b", b"/etc", b"a\0b", &long] {
        let name = OsStr::from_bytes(name).to_owned();
        let (mut files, _worker) = lied_to(move |channel| {
            say(channel, &FileReply::Entries(vec![entry(&name, FileKind::Regular)]));
            say(channel, &FileReply::Done);
        });
        let error = files.list(Path::new(INSIDE), ListLimit::default()).unwrap_err();
        assert!(matches!(error.problem, FileProblem::BadName(_)), "{error}");
        broken(files.list(Path::new(INSIDE), ListLimit::default()));
    }
}

#[test]
fn an_endless_listing_ends_at_the_limit() {
    let (mut files, worker) = lied_to(|channel| {
        let entries = FileReply::Entries(vec![entry(OsStr::new("a"), FileKind::Regular); 100]);
        while say(channel, &entries) {}
    });
    let error = files.list(Path::new(INSIDE), ListLimit(10_000)).unwrap_err();
    assert!(matches!(error.problem, FileProblem::TooMuch { limit: 10_000, .. }), "{error}");
    drop(files);
    worker.join().unwrap();
}

/// A listing of nothing, for ever, or a worker that is always at it: only the clock ends these.
#[test]
fn signs_of_life_do_not_hold_a_client_for_ever() {
    for reply in [FileReply::Working, FileReply::Entries(Vec::new())] {
        let (ours, theirs) = control_pair().unwrap();
        let worker = std::thread::spawn(move || {
            hear(theirs.as_fd());
            say(theirs.as_fd(), &FileReply::Hello { version: FILES_VERSION });
            while say(theirs.as_fd(), &reply) {}
        });
        let timeouts =
            FileTimeouts { answer: Duration::from_secs(20), operation: Duration::from_millis(300) };
        let mut files = Files::connect(ours, timeouts).unwrap();
        let error = files.list(Path::new(INSIDE), ListLimit::default()).unwrap_err();
        assert!(matches!(error.problem, FileProblem::NoAnswer(_)), "{error}");
        drop(files);
        worker.join().unwrap();
    }
}

#[test]
fn a_worker_that_is_silent_is_given_up() {
    let (ours, _theirs) = control_pair().unwrap();
    let timeouts = FileTimeouts { answer: Duration::from_millis(200), operation: Duration::from_secs(60) };
    let begin = Instant::now();
    let error = Files::connect(ours, timeouts).unwrap_err();
    assert!(matches!(error.problem, FileProblem::NoAnswer(_)), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_worker_of_another_version_or_none_is_refused() {
    let (ours, theirs) = control_pair().unwrap();
    say(theirs.as_fd(), &FileReply::Hello { version: FILES_VERSION + 1 });
    let error = Files::connect(ours, FileTimeouts::default()).unwrap_err();
    assert!(matches!(error.problem, FileProblem::Version { .. }), "{error}");
    let (ours, theirs) = control_pair().unwrap();
    drop(theirs);
    let error = Files::connect(ours, FileTimeouts::default()).unwrap_err();
    assert!(matches!(error.problem, FileProblem::Gone), "{error}");
}

#[test]
fn an_event_of_another_place_ends_a_watch() {
    for path in ["/etc/passwd", "/workspace/../etc", "/workspaces"] {
        let (files, _worker) = lied_to(move |channel| {
            say(channel, &FileReply::Done);
            let change = FileChange::Created;
            let event = FileEvent { change, path: path.into(), directory: false, cookie: 0 };
            say(channel, &FileReply::Event(event));
        });
        let mut watch = files.watch(Path::new(INSIDE), Reach::Tree).unwrap();
        broken(watch.next().unwrap());
        assert!(watch.next().is_none());
    }
}

/// The worker answers a copy: first what the top is, then its listing.
fn copied_from(entries: Vec<FileEntry>) -> (Result<(), FileError>, TempDir) {
    let (mut files, _worker) = lied_to(move |channel| {
        say(channel, &FileReply::Stat { stat: stat(FileKind::Directory), target: None });
        hear(channel);
        say(channel, &FileReply::Entries(entries));
        say(channel, &FileReply::Done);
    });
    let directory = TempDir::new().unwrap();
    let to = directory.path().join("copy");
    let copied = files.copy_out(Path::new(INSIDE), &to, &CopyLimits::default(), &mut |_| {});
    (copied.map(drop), directory)
}

#[test]
fn a_name_that_comes_twice_is_not_copied() {
    let link = FileEntry { target: Some("/etc".into()), ..entry(OsStr::new("a"), FileKind::Symlink) };
    let (copied, _directory) = copied_from(vec![link, entry(OsStr::new("a"), FileKind::Directory)]);
    let error = copied.unwrap_err();
    assert!(matches!(error.problem, FileProblem::SameName(_)), "{error}");
}

#[test]
fn special_files_and_links_without_a_target_are_not_copied() {
    for kind in [FileKind::Fifo, FileKind::Socket, FileKind::CharacterDevice, FileKind::BlockDevice] {
        let (copied, _directory) = copied_from(vec![entry(OsStr::new("a"), kind)]);
        let error = copied.unwrap_err();
        assert!(matches!(error.problem, FileProblem::NotCopied(_)), "{error}");
    }
    let (copied, _directory) = copied_from(vec![entry(OsStr::new("a"), FileKind::Symlink)]);
    broken(copied);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_makes_a_client_panic_or_wait(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 1..4)
    ) {
        let (mut files, worker) = lied_to(move |channel| {
            for message in messages {
                let _ = send_with_fds(channel, &message, &[]);
            }
        });
        let _ = files.list(Path::new(INSIDE), ListLimit::default());
        let _ = files.stat(Path::new(INSIDE), Links::Keep);
        drop(files);
        worker.join().unwrap();
    }
}
