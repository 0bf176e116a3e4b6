use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use ringfence_store::{Role, Store, StoreError};

use crate::support::Scene;

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[tokio::test]
async fn the_files_are_their_owners_only() {
    let scene = Scene::new().await;
    scene.store.add_user("ann", Role::Viewer).await.expect("added");
    for file in fs::read_dir(scene.directory.path()).expect("the directory") {
        let path = file.expect("a file").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    scene.store.clone().close().await;
    fs::set_permissions(scene.path(), Permissions::from_mode(0o644)).expect("opened to others");
    let again = scene.another().await;
    assert_eq!(mode(&scene.path()), 0o600);
    assert!(again.user("ann").await.expect("read").is_some());
}

#[tokio::test]
async fn pragmas_are_as_promised() {
    let scene = Scene::new().await;
    let mut connection = scene.attacker().await;
    let mode: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut connection).await.expect("read");
    assert_eq!(mode, "wal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_that_open_a_new_file_at_once_find_one_schema() {
    for _ in 0..5 {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ringfence.db");
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let path = path.clone();
                tokio::spawn(async move {
                    let store = Store::open(&path).await.expect("open");
                    store.add_user(&format!("user{number}"), Role::Viewer).await.expect("added");
                    store.audit().append(crate::support::entries(1)).await.expect("appended");
                    assert_eq!(store.audit().anchor_trouble(), None);
                    store.close().await;
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
        let store = Store::open(&path).await.expect("open");
        assert_eq!(store.users().await.expect("read").len(), 8);
        let verdict = store.audit().verify(&[]).await.expect("verified");
        assert!(verdict.is_whole() && verdict.rows == 8, "{verdict:?}");
    }
}

#[tokio::test]
async fn what_is_no_database_is_left_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ringfence.db");
    let text = "this is a letter, and longer than the head of a database would be, so that nobody takes it for one\n";
    fs::write(&path, text.repeat(10)).expect("written");
    let refused = Store::open(&path).await.expect_err("refused");
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    assert_eq!(fs::read_to_string(&path).expect("read"), text.repeat(10));
    let nowhere = Store::open(&directory.path().join("no/such/directory.db")).await.expect_err("refused");
    assert!(matches!(nowhere, StoreError::File { .. }), "{nowhere}");
}

#[tokio::test]
async fn a_word_that_nobody_wrote_is_damage_and_not_a_role() {
    let scene = Scene::with_users().await;
    scene.tamper("UPDATE users SET role = 'superuser' WHERE name = 'ann'").await;
    let refused = scene.store.user("ann").await.expect_err("refused");
    assert!(matches!(&refused, StoreError::Corrupt { why, .. } if why.contains("superuser")), "{refused}");
}

#[tokio::test]
async fn instances_are_told_apart() {
    let scene = Scene::new().await;
    assert_ne!(scene.store.instance(), scene.another().await.instance());
    assert_eq!(scene.store.instance(), scene.store.clone().instance());
}
