use std::collections::BTreeSet;

use ringfence_store::{AuditFilter, AuditRow, REDACTED};
use serde_json::{Value, json};

use crate::support::{Chance, START, Scene, entries, entry};

#[tokio::test]
async fn rows_are_chained_from_the_first() {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    assert!(audit.append(Vec::new()).await.expect("nothing").is_empty());
    let mut rows = audit.append(entries(3)).await.expect("appended");
    rows.extend(audit.append(entries(2)).await.expect("appended"));
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(rows[0].previous, "0".repeat(64));
    for pair in rows.windows(2) {
        assert_eq!(pair[1].previous, pair[0].digest);
    }
    let read = audit.query(&AuditFilter { limit: 100, ..AuditFilter::default() }).await.expect("read");
    assert_eq!(read, rows);
    let verdict = audit.verify(&[]).await.expect("verified");
    assert!(verdict.is_whole(), "{verdict:?}");
    assert_eq!((verdict.rows, verdict.head.digest), (5, rows[4].digest.clone()));
}

#[tokio::test]
async fn an_empty_audit_is_whole() {
    let scene = Scene::new().await;
    let verdict = scene.store.audit().verify(&[]).await.expect("verified");
    assert!(verdict.is_whole(), "{verdict:?}");
    assert_eq!((verdict.rows, verdict.head.seq), (0, 0));
}

#[tokio::test]
async fn what_is_asked_for_is_found() {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    let mut all = entries(6);
    for (number, entry) in all.iter_mut().enumerate() {
        entry.at = START + i64::try_from(number).expect("small") * 10;
        entry.user = if number % 2 == 0 { "ann" } else { "bob" }.into();
        entry.kind = if number < 3 { "run" } else { "commit" }.into();
    }
    audit.append(all).await.expect("appended");
    let found = async |filter: AuditFilter| -> Vec<i64> {
        let filter = AuditFilter { limit: filter.limit.max(2), ..filter };
        audit.query(&filter).await.expect("read").into_iter().map(|row| row.seq).collect()
    };
    let all = AuditFilter { limit: 10, ..AuditFilter::default() };
    assert_eq!(found(AuditFilter { user: Some("ann".into()), ..all.clone() }).await, [1, 3, 5]);
    assert_eq!(found(AuditFilter { kind: Some("commit".into()), ..all.clone() }).await, [4, 5, 6]);
    let span = AuditFilter { since: Some(START + 10), until: Some(START + 30), ..all.clone() };
    assert_eq!(found(span).await, [2, 3]);
    assert_eq!(found(AuditFilter { after_seq: Some(2), limit: 2, ..all }).await, [3, 4]);
}

#[tokio::test]
async fn an_export_is_one_line_a_row_and_reads_back() {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    let mut odd = entry("line\nbreak \u{2028} \"quoted\" \\ \u{0}");
    odd.denials = json!({"text": "a\nb"});
    audit.append(vec![odd]).await.expect("appended");
    audit.append(entries(1200)).await.expect("appended");
    let mut text = Vec::new();
    assert_eq!(audit.export(&mut text, 0).await.expect("exported"), 1201);
    let rows: Vec<AuditRow> = String::from_utf8(text)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    assert_eq!(rows.len(), 1201);
    let first = audit.query(&AuditFilter { limit: 1, ..AuditFilter::default() }).await.expect("read");
    assert_eq!(rows[0], first[0]);
    let mut tail = Vec::new();
    assert_eq!(audit.export(&mut tail, 1200).await.expect("exported"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_that_append_at_once_make_one_chain_without_a_gap() {
    let scene = Scene::new().await;
    let stores = [scene.store.clone(), scene.another().await];
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let audit = stores[task % 2].audit();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for number in 0..50 {
                    // Two rows take a transaction, one goes by a guess of where the chain ends, which is often wrong here.
                    let some: Vec<_> =
                        (0..1 + number % 2).map(|which| entry(&format!("{task} {number} {which}"))).collect();
                    let count = some.len();
                    let rows = audit.append(some).await.expect("appended");
                    assert_eq!(rows.len(), count);
                    assert!(rows.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
                    seen.extend(rows.into_iter().map(|row| row.seq));
                }
                seen
            })
        })
        .collect();
    let mut seen = BTreeSet::new();
    for task in tasks {
        for seq in task.await.expect("a task") {
            assert!(seen.insert(seq), "{seq} was given twice");
        }
    }
    assert_eq!(seen, (1..=1200).collect());
    for store in &stores {
        store.audit().anchored().await;
    }
    let verdict = scene.store.audit().verify(&[]).await.expect("verified");
    assert!(verdict.is_whole(), "{verdict:?}");
    assert_eq!(verdict.rows, 1200);
}

#[tokio::test]
async fn a_row_follows_whoever_wrote_last() {
    let scene = Scene::new().await;
    let stores = [scene.store.clone(), scene.another().await];
    let mut previous = "0".repeat(64);
    for number in 0..20 {
        // Twice each: by a guess that is wrong, and by one that is right.
        let audit = stores[number / 2 % 2].audit();
        let rows = audit.append(entries(1)).await.expect("appended");
        assert_eq!(rows[0].previous, previous, "row {}", rows[0].seq);
        previous.clone_from(&rows[0].digest);
    }
    let verdict = scene.store.audit().verify(&[]).await.expect("verified");
    assert!(verdict.is_whole(), "{verdict:?}");
    assert_eq!(verdict.rows, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_append_that_is_dropped_halfway_leaves_a_whole_chain_and_a_working_store() {
    let scene = Scene::new().await;
    let mut chance = Chance::new();
    let mut acknowledged = Vec::new();
    for _ in 0..40 {
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                let audit = scene.store.audit();
                tokio::spawn(async move { audit.append(vec![entry(&number.to_string()); 3]).await })
            })
            .collect();
        for _ in 0..chance.below(60) {
            tokio::task::yield_now().await;
        }
        tasks.iter().for_each(|task| task.abort());
        for task in tasks {
            if let Ok(rows) = task.await {
                acknowledged.extend(rows.expect("appended"));
            }
        }
    }
    acknowledged.extend(scene.store.audit().append(entries(1)).await.expect("it still works"));
    let verdict = scene.store.audit().verify(&[]).await.expect("verified");
    assert!(verdict.is_whole(), "{verdict:?}");
    for row in acknowledged {
        let filter = AuditFilter { after_seq: Some(row.seq - 1), limit: 1, ..AuditFilter::default() };
        assert_eq!(scene.store.audit().query(&filter).await.expect("read"), [row]);
    }
}

#[tokio::test]
async fn planted_secrets_are_in_no_file() {
    let scene = Scene::new().await;
    let secret = "s3cr\"et/va lue+%\u{e9}";
    let mut planted = entry(&format!("curl -H 'authorization: {secret}'"));
    planted.user = format!("ann {secret}");
    planted.request_id = Some(secret.into());
    planted.denials = json!([{ secret: [secret, {"deep": format!("x{secret}x")}] }]);
    planted.result = json!({"text": Value::String(secret.into()).to_string(), "number": 12_345_678});
    let audit = scene.store.audit();
    let rows = audit.append_redacted(vec![planted], &[secret, "12345678"]).await.expect("appended");
    assert_eq!(rows[0].entry.request_id.as_deref(), Some(REDACTED));
    assert_eq!(rows[0].entry.result["number"], REDACTED);
    audit.anchored().await;
    scene.store.close().await;
    for file in std::fs::read_dir(scene.directory.path()).expect("the directory") {
        let text =
            String::from_utf8_lossy(&std::fs::read(file.expect("a file").path()).expect("read")).into_owned();
        for piece in ["s3cr", "lue+", "12345678"] {
            assert!(!text.contains(piece), "{piece}");
        }
    }
}
