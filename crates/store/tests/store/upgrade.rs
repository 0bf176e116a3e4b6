//! Databases of other versions: older ones are brought up to date with all that is in them, newer ones are left alone.

use std::path::PathBuf;

use ringfence_store::{
    ActionState, AuditFilter, NewRemembered, Role, SandboxState, Scope, Store, StoreError,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::support::{Scene, entries};

/// As the first version left it.
const VERSION_1: &str = include_str!("../fixtures/version-1.sql");

async fn first_version(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("ringfence.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true).foreign_keys(false);
    let mut connection = options.connect().await.expect("a connection");
    sqlx::raw_sql(VERSION_1).execute(&mut connection).await.expect("the first version");
    connection.close().await.expect("closing");
    std::fs::write(directory.path().join("audit.anchor"), include_str!("../fixtures/version-1.anchor"))
        .expect("its anchor");
    path
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = first_version(&directory).await;
    let store = Store::open(&path).await.expect("upgraded");
    let names: Vec<_> =
        store.users().await.expect("read").into_iter().map(|user| (user.name, user.role)).collect();
    assert_eq!(names, [("ann".to_owned(), Role::Operator), ("eve".to_owned(), Role::Approver)]);
    let (key, user) = store.key_by_hash(&[7; 32]).await.expect("read").expect("found");
    assert_eq!((key.id.as_str(), user.name.as_str()), ("k1", "ann"));
    let sandbox = store.sandbox("s1").await.expect("read").expect("there");
    assert_eq!(sandbox.state, SandboxState::Alive);
    let action = store.action("a1").await.expect("read").expect("there");
    assert_eq!((action.state, action.reasons.len()), (ActionState::Waiting, 2));
    assert_eq!(store.last_event().await.expect("read"), 1);
    // The chain goes on from where it was.
    assert_eq!(store.audit().anchor_trouble(), None);
    store.audit().append(entries(2)).await.expect("appended");
    store.audit().anchored().await;
    let verdict = store.audit().verify(&[]).await.expect("verified");
    assert!(verdict.is_whole() && verdict.rows == 5, "{verdict:?}");
    assert_eq!(
        store.audit().query(&AuditFilter { limit: 9, ..AuditFilter::default() }).await.expect("read").len(),
        5
    );
    // What the second version brought is there.
    let always = NewRemembered {
        id: "r1".into(),
        user: "ann".into(),
        kind: "run".into(),
        shape: "s".into(),
        scope: Scope::Always,
        session: None,
        until: None,
        by: "eve".into(),
    };
    store.decisions().remember(always).await.expect("remembered");
    store.clone().close().await;
    let again = Store::open(&path).await.expect("opened again");
    assert!(again.decisions().find("ann", "run", "s", None).await.expect("read").is_some());
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_left_alone() {
    let scene = Scene::new().await;
    scene.store.clone().close().await;
    scene.tamper("INSERT INTO _sqlx_migrations VALUES (99, 'later', '2030-01-01', TRUE, x'00', 1)").await;
    let before = std::fs::read(scene.path()).expect("read");
    let refused = Store::open(&scene.path()).await.expect_err("refused");
    assert!(matches!(refused, StoreError::TooNew { found: 99, known: 5, .. }), "{refused}");
    assert!(refused.to_string().contains("a newer ringfence has written it"), "{refused}");
    assert_eq!(std::fs::read(scene.path()).expect("read"), before);
}

#[tokio::test]
async fn a_step_that_was_changed_after_it_was_taken_is_refused() {
    let scene = Scene::new().await;
    scene.store.clone().close().await;
    scene.tamper("UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 1").await;
    let refused = Store::open(&scene.path()).await.expect_err("refused");
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
}
