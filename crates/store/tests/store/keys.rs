use ringfence_store::{NewKey, Role, StoreError};

use crate::support::{START, Scene};

fn key(id: &str, user: &str, role: Role, byte: u8) -> NewKey {
    NewKey {
        id: id.into(),
        user: user.into(),
        role,
        label: Some("laptop".into()),
        expires: Some(START + 1000),
        secret_hash: [byte; 32],
        maker: None,
    }
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_with_its_user() {
    let scene = Scene::with_users().await;
    let made = scene.store.add_key(key("k1", "ann", Role::Operator, 1)).await.expect("a key");
    let (found, user) = scene.store.key_by_hash(&[1; 32]).await.expect("read").expect("found");
    assert_eq!(found, made);
    assert_eq!((user.name.as_str(), user.role, user.disabled), ("ann", Role::Operator, false));
    assert_eq!(scene.store.key_by_hash(&[2; 32]).await.expect("read"), None);
    // What a key is refused for is the caller's to say: it is all there.
    scene.store.disable_user("ann", true).await.expect("disabled");
    scene.store.set_user_role("ann", Role::Viewer).await.expect("lowered");
    let (found, user) = scene.store.key_by_hash(&[1; 32]).await.expect("read").expect("found");
    assert!(user.disabled);
    assert_eq!(found.role.shared_with(user.role), Role::Viewer);
}

#[tokio::test]
async fn a_key_is_never_more_than_its_user() {
    let scene = Scene::with_users().await;
    for (user, role) in
        [("ann", Role::Admin), ("ann", Role::Approver), ("eve", Role::Operator), ("eve", Role::Admin)]
    {
        let refused = scene.store.add_key(key("k1", user, role, 1)).await.expect_err("refused");
        assert!(matches!(refused, StoreError::Conflict { what: "key", .. }), "{refused}");
    }
    let nobody = scene.store.add_key(key("k1", "nobody", Role::Viewer, 1)).await.expect_err("refused");
    assert!(matches!(nobody, StoreError::NotFound { what: "user", .. }), "{nobody}");
    assert!(scene.store.keys(None).await.expect("read").is_empty());
    scene.store.add_key(key("k1", "eve", Role::Viewer, 1)).await.expect("a lesser key");
}

#[tokio::test]
async fn neither_id_nor_secret_is_used_twice() {
    let scene = Scene::with_users().await;
    scene.store.add_key(key("k1", "ann", Role::Operator, 1)).await.expect("a key");
    for twice in [key("k1", "bob", Role::Operator, 2), key("k2", "bob", Role::Operator, 1)] {
        let refused = scene.store.add_key(twice).await.expect_err("refused");
        assert!(matches!(refused, StoreError::Taken { what: "key", .. }), "{refused}");
    }
}

#[tokio::test]
async fn use_is_noted_once_a_minute() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    store.add_key(key("k1", "ann", Role::Operator, 1)).await.expect("a key");
    assert!(store.touch_key("k1").await.expect("first"));
    scene.pass(59_999);
    assert!(!store.touch_key("k1").await.expect("too soon"));
    scene.pass(1);
    assert!(store.touch_key("k1").await.expect("due"));
    assert_eq!(store.keys(Some("ann")).await.expect("read")[0].last_used, Some(START + 60_000));
    // A clock that was set back does not stop it.
    scene.pass(-3_600_000);
    assert!(store.touch_key("k1").await.expect("due"));
    assert!(matches!(store.touch_key("k9").await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn revoked_is_revoked_since_the_first_time() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    store.add_key(key("k1", "ann", Role::Operator, 1)).await.expect("a key");
    store.add_key(key("k2", "bob", Role::Operator, 2)).await.expect("a key");
    store.revoke_key("k1").await.expect("revoked");
    scene.pass(5);
    store.revoke_key("k1").await.expect("revoked again");
    let keys = store.keys(None).await.expect("read");
    assert_eq!(keys.iter().map(|key| key.revoked).collect::<Vec<_>>(), [Some(START), None]);
    assert_eq!(store.keys(Some("bob")).await.expect("read").len(), 1);
    assert!(matches!(store.revoke_key("k9").await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn the_secret_is_in_no_file() {
    let scene = Scene::with_users().await;
    let secret = b"rf_live_Zm9vYmFyYmF6cXV4";
    let new = NewKey { secret_hash: *blake3::hash(secret).as_bytes(), ..key("k1", "ann", Role::Operator, 1) };
    scene.store.add_key(new).await.expect("a key");
    scene.store.close().await;
    for file in std::fs::read_dir(scene.directory.path()).expect("the directory") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("its content");
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
}
