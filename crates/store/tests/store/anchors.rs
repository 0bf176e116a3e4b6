//! Anchors follow the chain, and never let themselves be talked into another one.

use std::fs;

use ringfence_store::{Anchor, Store, StoreOptions};

use crate::support::{Scene, entries};

const UNLOCK: &str = "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted;";

#[tokio::test]
async fn an_anchor_is_there_from_the_start_and_follows() {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    assert_eq!(Anchor::read(&scene.anchor()).expect("read").expect("there").seq, 0);
    for round in 1..=5 {
        let rows = audit.append(entries(2)).await.expect("appended");
        audit.anchored().await;
        let anchor = Anchor::read(&scene.anchor()).expect("read").expect("there");
        assert_eq!((anchor.seq, &anchor.digest), (round * 2, &rows[1].digest));
    }
    assert_eq!(audit.anchor_trouble(), None);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(scene.anchor()).expect("there").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_chain_beyond_its_anchor_is_whole_and_the_anchor_catches_up() {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    audit.append(entries(2)).await.expect("appended");
    audit.anchored().await;
    let behind = fs::read(scene.anchor()).expect("read");
    audit.append(entries(2)).await.expect("appended");
    audit.anchored().await;
    fs::write(scene.anchor(), behind).expect("as if killed in between");
    assert!(audit.verify(&[]).await.expect("verified").is_whole());
    let again = scene.another().await;
    assert_eq!(Anchor::read(&scene.anchor()).expect("read").expect("there").seq, 4);
    assert_eq!(again.audit().anchor_trouble(), None);
}

#[tokio::test]
async fn a_cut_tail_is_not_covered_up_by_appending() {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    audit.append(entries(6)).await.expect("appended");
    audit.anchored().await;
    let before = fs::read(scene.anchor()).expect("read");
    scene.tamper(&format!("{UNLOCK} DELETE FROM audit WHERE seq > 3")).await;
    for count in [1, 10] {
        audit.append(entries(count)).await.expect("it goes on");
        audit.anchored().await;
        assert_eq!(fs::read(scene.anchor()).expect("read"), before, "the anchor stays");
        assert!(audit.anchor_trouble().expect("trouble").contains("row 6"));
    }
    let again = scene.another().await;
    assert!(again.audit().anchor_trouble().expect("trouble").contains("row 6 is not the one it was"));
    assert!(!again.audit().verify(&[]).await.expect("verified").is_whole());
    // A person has looked into it.
    again.audit().reset_anchors().await.expect("reset");
    assert_eq!(again.audit().anchor_trouble(), None);
    let verdict = again.audit().verify(&[]).await.expect("verified");
    assert!(verdict.problems.iter().all(|problem| problem.what.contains("trigger")), "{verdict:?}");
    again.audit().append(entries(1)).await.expect("appended");
    again.audit().anchored().await;
    assert_eq!(Anchor::read(&scene.anchor()).expect("read").expect("there").seq, 15);
}

#[tokio::test]
async fn a_missing_or_damaged_anchor_is_a_finding_and_is_not_replaced() {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    audit.append(entries(2)).await.expect("appended");
    audit.anchored().await;
    fs::remove_file(scene.anchor()).expect("removed");
    audit.append(entries(2)).await.expect("appended");
    audit.anchored().await;
    assert!(audit.anchor_trouble().expect("trouble").contains("gone"));
    assert!(!scene.anchor().exists());
    let problems = audit.verify(&[]).await.expect("verified").problems;
    assert!(problems[0].what.contains("taken away"), "{problems:?}");
    fs::write(scene.anchor(), "{\"seq\": 4").expect("torn");
    assert!(!audit.verify(&[]).await.expect("verified").is_whole());
    let again = scene.another().await;
    assert!(again.audit().anchor_trouble().expect("trouble").contains("damaged"));
}

#[tokio::test]
async fn a_database_that_was_replaced_by_an_empty_one_is_found() {
    let scene = Scene::new().await;
    scene.store.audit().append(entries(3)).await.expect("appended");
    scene.store.clone().close().await;
    fs::remove_file(scene.path()).expect("removed");
    let again = scene.another().await;
    assert!(again.audit().anchor_trouble().expect("trouble").contains("row 3 is not there any more"));
    assert!(!again.audit().verify(&[]).await.expect("verified").is_whole());
}

#[tokio::test]
async fn anchors_elsewhere_are_kept_too() {
    let scene = Scene::new().await;
    scene.store.audit().append(entries(3)).await.expect("appended");
    scene.store.clone().close().await;
    let elsewhere = tempfile::tempdir().expect("a directory");
    let path = elsewhere.path().join("ringfence.anchor");
    let options = || StoreOptions { anchors: vec![path.clone()], ..StoreOptions::default() };
    let store = Store::open_with(&scene.path(), options()).await.expect("open");
    assert_eq!(Anchor::read(&path).expect("read").expect("there").seq, 3);
    store.audit().append(entries(2)).await.expect("appended");
    store.close().await;
    assert_eq!(Anchor::read(&path).expect("read").expect("there").seq, 5);
    // The one that nobody here can reach shows what the one beside the database no longer does.
    scene.tamper(&format!("{UNLOCK} DELETE FROM audit WHERE seq > 1")).await;
    fs::remove_file(scene.anchor()).expect("removed");
    let store = Store::open_with(&scene.path(), options()).await.expect("open");
    let verdict = store.audit().verify(&[]).await.expect("verified");
    assert!(verdict.problems.iter().any(|problem| problem.seq == 5 && problem.what.contains("tail cut")));
    assert_eq!(Anchor::read(&path).expect("read").expect("there").seq, 5);
}

#[tokio::test]
async fn a_directory_that_can_t_be_written_stops_no_append() {
    let scene = Scene::new().await;
    let options = StoreOptions { anchors: vec!["/proc/no/such/anchor".into()], ..StoreOptions::default() };
    let store = Store::open_with(&scene.path(), options).await.expect("open");
    assert!(store.audit().anchor_trouble().expect("trouble").contains("/proc/no/such/anchor"));
    store.audit().append(entries(1)).await.expect("appended");
    store.close().await;
    assert_eq!(Anchor::read(&scene.anchor()).expect("read").expect("there").seq, 1);
}
