//! `kill -9` in the middle of it: a child of this very program appends, spools and folds, says what was acknowledged, and is
//! killed after a number of lines that nobody knows beforehand. What it had said must be there.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ringfence_store::{AuditFilter, Store, spool_append};

use crate::support::{Chance, entry};

const DATABASE: &str = "RINGFENCE_TEST_STORE";
const ROUNDS: u64 = 30;

/// Runs one of the functions below that are no tests unless they are called so.
fn child(name: &str, directory: &Path, round: u64) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .args([name, "--exact", "--nocapture", "--ignored", "--test-threads=1"])
        .env(DATABASE, directory)
        .env("RINGFENCE_TEST_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Kills it after that many acknowledgements; more may come until it is dead, and count too.
fn acknowledged(mut child: Child, lines: u64) -> Vec<String> {
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut seen = Vec::new();
    let mut line = Vec::new();
    loop {
        if seen.len() as u64 >= lines {
            // Killing what is dead already is no failure.
            let _ = child.kill();
        }
        line.clear();
        if output.read_until(b'\n', &mut line).expect("its output") == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        if let Some(said) = text.strip_prefix("ack ").and_then(|said| said.strip_suffix('\n')) {
            seen.push(said.to_owned());
        }
    }
    let status = child.wait().expect("its end");
    assert!(!status.success(), "it was killed, and did not end by itself");
    seen
}

fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "ack {text}").and_then(|()| output.flush()).expect("the reader");
}

fn directory() -> Option<std::path::PathBuf> {
    env::var_os(DATABASE).map(Into::into)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of other tests, run by them"]
async fn appends_until_it_is_killed() {
    let Some(directory) = directory() else { return };
    let store = Store::open(&directory.join("ringfence.db")).await.expect("open");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let audit = store.audit();
        tasks.spawn(async move {
            loop {
                for row in audit.append(vec![entry("a"), entry("b")]).await.expect("appended") {
                    say(&format!("{} {}", row.seq, row.digest));
                }
            }
        });
    }
    panic!("it ended by itself: {:?}", tasks.join_next().await);
}

#[tokio::test]
async fn no_acknowledged_row_is_lost_by_thirty_kills() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut chance = Chance::new();
    let mut rows: BTreeMap<i64, String> = BTreeMap::new();
    for round in 0..ROUNDS {
        let child = child("kills::appends_until_it_is_killed", directory.path(), round);
        for line in acknowledged(child, chance.below(120)) {
            let (seq, digest) = line.split_once(' ').expect("two words");
            let twice = rows.insert(seq.parse().expect("a number"), digest.to_owned());
            assert_eq!(twice, None, "row {seq} was given twice");
        }
        let store = Store::open(&directory.path().join("ringfence.db")).await.expect("open");
        assert_eq!(store.audit().anchor_trouble(), None);
        let verdict = store.audit().verify(&[]).await.expect("verified");
        assert!(verdict.is_whole(), "round {round}: {verdict:?}");
        let mut text = Vec::new();
        store.audit().export(&mut text, 0).await.expect("exported");
        let there: BTreeMap<i64, String> = String::from_utf8(text)
            .expect("text")
            .lines()
            .map(|line| {
                let row: ringfence_store::AuditRow = serde_json::from_str(line).expect("a row");
                (row.seq, row.digest)
            })
            .collect();
        for (seq, digest) in &rows {
            assert_eq!(there.get(seq), Some(digest), "round {round}: row {seq}");
        }
        store.close().await;
    }
    assert!(!rows.is_empty());
    println!("{} rows were acknowledged", rows.len());
}

/// As soon as there is a file of that name: in the middle of making the database.
#[tokio::test]
async fn a_file_whose_making_was_killed_is_made_by_the_next() {
    for name in ["ringfence.db", "ringfence.db-wal", "ringfence.db-shm", "audit.anchor.lock", "audit.anchor"]
    {
        for round in 0..4 {
            let directory = tempfile::tempdir().expect("a directory");
            let mut child = child("kills::appends_until_it_is_killed", directory.path(), round);
            while !directory.path().join(name).exists() {
                assert!(child.try_wait().expect("its state").is_none(), "it ended before {name} was there");
                std::thread::yield_now();
            }
            acknowledged(child, 0);
            let store = Store::open(&directory.path().join("ringfence.db")).await.expect("open");
            assert_eq!(store.audit().anchor_trouble(), None, "{name}");
            store.audit().append(vec![entry("after")]).await.expect("appended");
            store.audit().anchored().await;
            let verdict = store.audit().verify(&[]).await.expect("verified");
            assert!(verdict.is_whole(), "{name}: {verdict:?}");
        }
    }
}

#[test]
#[ignore = "a part of other tests, run by them"]
fn spools_until_it_is_killed() {
    let Some(directory) = directory() else { return };
    let round = env::var("RINGFENCE_TEST_ROUND").expect("a number");
    for number in 0.. {
        let name = format!("{round} {number}");
        spool_append(&directory.join("spool"), &entry(&name)).expect("spooled");
        say(&name);
    }
}

#[tokio::test]
#[ignore = "a part of other tests, run by them"]
async fn folds_until_it_is_killed() {
    let Some(directory) = directory() else { return };
    let store = Store::open(&directory.join("ringfence.db")).await.expect("open");
    loop {
        let report = store.audit().fold(&directory.join("spool")).await.expect("folded");
        assert!(report.torn.is_empty(), "{report:?}");
        say("folded");
    }
}

#[tokio::test]
async fn every_spooled_record_is_folded_once_whoever_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = directory.path().join("spool");
    let mut chance = Chance::new();
    let mut said = Vec::new();
    for round in 0..ROUNDS {
        let folder = child("kills::folds_until_it_is_killed", directory.path(), round);
        let writer = child("kills::spools_until_it_is_killed", directory.path(), round);
        said.extend(acknowledged(writer, chance.below(200)));
        acknowledged(folder, chance.below(6));
    }
    let store = Store::open(&directory.path().join("ringfence.db")).await.expect("open");
    let report = store.audit().fold(&spool).await.expect("folded");
    assert!(report.torn.is_empty(), "{report:?}");
    assert_eq!(fs::read_dir(&spool).expect("there").count(), 0);
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut after = 0;
    loop {
        let filter = AuditFilter { after_seq: Some(after), limit: 1000, ..AuditFilter::default() };
        let page = store.audit().query(&filter).await.expect("read");
        let Some(last) = page.last() else { break };
        after = last.seq;
        for row in page {
            *times.entry(row.entry.target.expect("a target")).or_default() += 1;
        }
    }
    for name in &said {
        assert_eq!(times.get(name), Some(&1), "{name}");
    }
    assert!(times.values().all(|count| *count == 1));
    store.audit().anchored().await;
    let verdict = store.audit().verify(&[]).await.expect("verified");
    assert!(verdict.is_whole(), "{verdict:?}");
    assert!(!said.is_empty());
    println!("{} records were acknowledged, {} folded", said.len(), times.len());
}
