use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ringfence_store::{AuditFilter, AuditRow, FoldReport, spool_append};

use crate::support::{Scene, entries, entry};

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

async fn rows(scene: &Scene) -> Vec<AuditRow> {
    scene.store.audit().query(&AuditFilter { limit: 1000, ..AuditFilter::default() }).await.expect("read")
}

#[tokio::test]
async fn records_are_folded_in_their_order_and_their_files_go() {
    let scene = Scene::new().await;
    let spool = scene.directory.path().join("state/spool");
    let audit = scene.store.audit();
    assert_eq!(audit.fold(&spool).await.expect("nothing there"), FoldReport::default());
    for entry in entries(5) {
        spool_append(&spool, &entry).expect("spooled");
    }
    assert_eq!(fs::metadata(&spool).expect("there").permissions().mode() & 0o777, 0o700);
    for file in files(&spool, "record") {
        assert_eq!(fs::metadata(file).expect("there").permissions().mode() & 0o777, 0o600);
    }
    let report = audit.fold(&spool).await.expect("folded");
    assert_eq!(report, FoldReport { folded: 5, already: 0, torn: Vec::new() });
    assert_eq!(fs::read_dir(&spool).expect("there").count(), 0);
    let folded: BTreeSet<_> =
        rows(&scene).await.into_iter().map(|row| row.entry.target.expect("one")).collect();
    assert_eq!(folded, entries(5).into_iter().map(|entry| entry.target.expect("one")).collect());
    audit.anchored().await;
    assert!(audit.verify(&[]).await.expect("verified").is_whole());
    assert_eq!(audit.fold(&spool).await.expect("nothing left"), FoldReport::default());
}

#[tokio::test]
async fn a_record_that_comes_back_is_folded_once_whatever_it_is_called() {
    let scene = Scene::new().await;
    let spool = scene.directory.path().join("spool");
    spool_append(&spool, &entry("once")).expect("spooled");
    let file = files(&spool, "record").remove(0);
    let bytes = fs::read(&file).expect("read");
    let other = spool.join("9999999999999-copy.record");
    fs::write(&other, &bytes).expect("a copy in the same folding");
    let audit = scene.store.audit();
    let report = audit.fold(&spool).await.expect("folded");
    assert_eq!((report.folded, report.already), (1, 1));
    // As if killed between the commit and the removal.
    fs::write(&file, &bytes).expect("back again");
    fs::write(&other, &bytes).expect("back again");
    let report = audit.fold(&spool).await.expect("folded");
    assert_eq!((report.folded, report.already), (0, 2));
    assert_eq!(rows(&scene).await.len(), 1);
    assert!(files(&spool, "record").is_empty());
}

#[tokio::test]
async fn torn_records_are_reported_once_and_stop_nothing() {
    let scene = Scene::new().await;
    let spool = scene.directory.path().join("spool");
    for entry in entries(2) {
        spool_append(&spool, &entry).expect("spooled");
    }
    let whole = fs::read(&files(&spool, "record")[0]).expect("read");
    let mut flipped = whole.clone();
    let last = flipped.len() - 10;
    flipped[last] ^= 1;
    let longer = [whole.as_slice(), b"x"].concat();
    let torn: [(&str, &[u8]); 7] = [
        ("empty", b""),
        ("no-heading", b"{}"),
        ("other-heading", b"something else\n{}"),
        ("cut", &whole[..whole.len() / 2]),
        ("flipped", &flipped),
        ("longer", &longer),
        ("zeros", &[0; 300]),
    ];
    for (name, bytes) in torn {
        fs::write(spool.join(format!("0-{name}.record")), bytes).expect("written");
    }
    symlink("/etc/passwd", spool.join("0-link.record")).expect("a link");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        spool.join("0-pipe.record"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    fs::create_dir(spool.join("0-directory.record")).expect("a directory");
    let report = scene.store.audit().fold(&spool).await.expect("folded");
    assert_eq!(report.folded, 2);
    assert_eq!(report.torn.len(), torn.len() + 3, "{:#?}", report.torn);
    assert!(report.torn.iter().all(|torn| torn.path.symlink_metadata().is_ok()));
    assert_eq!(rows(&scene).await.len(), 2);
    assert_eq!(scene.store.audit().fold(&spool).await.expect("folded"), FoldReport::default());
}

#[tokio::test]
async fn what_a_dead_writer_left_unfinished_goes_and_what_is_being_written_stays() {
    let scene = Scene::new().await;
    let spool = scene.directory.path().join("spool");
    spool_append(&spool, &entry("one")).expect("spooled");
    fs::write(spool.join("dead.tmp"), "ringfence-aud").expect("written");
    let living = fs::File::create(spool.join("living.tmp")).expect("made");
    rustix::fs::flock(&living, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    scene.store.audit().fold(&spool).await.expect("folded");
    assert_eq!(files(&spool, "tmp"), [spool.join("living.tmp")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_and_two_that_fold_at_once_lose_nothing_and_double_nothing() {
    let scene = Scene::new().await;
    let spool = scene.directory.path().join("spool");
    let stores = [scene.store.clone(), scene.another().await];
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let spool = spool.clone();
            tokio::task::spawn_blocking(move || {
                for number in 0..100 {
                    spool_append(&spool, &entry(&format!("{writer} {number}"))).expect("spooled");
                }
            })
        })
        .collect();
    let folders: Vec<_> = stores
        .iter()
        .map(|store| {
            let (audit, spool) = (store.audit(), spool.clone());
            tokio::spawn(async move {
                let mut folded = 0;
                for _ in 0..10 {
                    let report = audit.fold(&spool).await.expect("folded");
                    assert!(report.torn.is_empty(), "{report:?}");
                    folded += report.folded;
                }
                folded
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let mut folded = 0;
    for folder in folders {
        folded += folder.await.expect("a folder");
    }
    folded += scene.store.audit().fold(&spool).await.expect("the rest").folded;
    assert_eq!(folded, 400);
    let targets: BTreeSet<_> = rows(&scene).await.into_iter().map(|row| row.entry.target).collect();
    assert_eq!(targets.len(), 400);
    assert_eq!(fs::read_dir(&spool).expect("there").count(), 0);
}

#[test]
fn a_spool_that_can_t_be_written_says_so() {
    let refused = spool_append(Path::new("/proc/no/spool"), &entry("x")).expect_err("refused");
    assert!(refused.to_string().contains("can't write to the spool /proc/no/spool"), "{refused}");
    let directory = tempfile::tempdir().expect("a directory");
    let mut large = entry("x");
    large.result = "x".repeat(17 * 1024 * 1024).into();
    let refused = spool_append(directory.path(), &large).expect_err("refused");
    assert!(refused.to_string().contains("too large"), "{refused}");
    assert_eq!(fs::read_dir(directory.path()).expect("there").count(), 0);
}
