use std::str::FromStr;

use ringfence_store::{NewKey, Quotas, Role, StoreError};

use crate::support::{START, Scene, sandbox};

const ROOM: Quotas = Quotas { of_user: 10, in_all: 10 };

#[tokio::test]
async fn a_user_is_added_changed_disabled_and_removed() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let ann = store.add_user("ann", Role::Operator).await.expect("added");
    assert_eq!((ann.created, ann.disabled), (START, false));
    assert_eq!(store.user("ann").await.expect("read"), Some(ann));
    assert_eq!(store.user("Ann").await.expect("read"), None);
    let taken = store.add_user("ann", Role::Admin).await.expect_err("taken");
    assert_eq!(taken.to_string(), r#"the user "ann" is taken: there is such a user; choose another"#);

    store.set_user_role("ann", Role::Approver).await.expect("changed");
    store.disable_user("ann", true).await.expect("disabled");
    let ann = store.user("ann").await.expect("read").expect("there");
    assert_eq!((ann.role, ann.disabled), (Role::Approver, true));
    store.disable_user("ann", false).await.expect("enabled");
    assert!(!store.users().await.expect("read")[0].disabled);

    for outcome in [
        store.set_user_role("nobody", Role::Viewer).await,
        store.disable_user("nobody", true).await,
        store.remove_user("nobody").await,
    ] {
        assert!(matches!(outcome, Err(StoreError::NotFound { what: "user", .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn an_empty_name_is_nobodys() {
    let scene = Scene::new().await;
    assert!(scene.store.add_user("", Role::Viewer).await.is_err());
}

#[tokio::test]
async fn nobody_is_removed_while_a_sandbox_of_theirs_lives_and_nobody_gets_their_name() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    store.add_sandbox(sandbox("s1", "ann"), ROOM).await.expect("a sandbox");
    let key = NewKey {
        id: "k1".into(),
        user: "ann".into(),
        role: Role::Operator,
        label: None,
        expires: None,
        secret_hash: [7; 32],
        maker: None,
    };
    store.add_key(key).await.expect("a key");
    let refused = store.remove_user("ann").await.expect_err("refused");
    assert_eq!(
        refused.to_string(),
        r#"the user "ann" can't be removed: they own 1 living sandboxes; delete those first"#
    );
    store.sandbox_ended("s1", "deleted").await.expect("ended");
    store.remove_user("ann").await.expect("removed");
    assert_eq!(store.user("ann").await.expect("read"), None);
    assert_eq!(store.key_by_hash(&[7; 32]).await.expect("read"), None);
    assert_eq!(store.sandbox("s1").await.expect("read"), None);
    // The workspace, the audit and old tokens speak of the first ann.
    let taken = store.add_user("ann", Role::Admin).await.expect_err("taken");
    assert!(matches!(taken, StoreError::Taken { what: "user", .. }), "{taken}");
}

#[test]
fn roles_are_words_and_no_ladder() {
    for role in Role::ALL {
        assert_eq!(Role::from_str(role.as_str()), Ok(*role));
        assert_eq!(serde_json::to_string(role).expect("JSON"), format!("\"{role}\""));
        assert!(Role::Admin.covers(*role) && role.covers(Role::Viewer) && role.covers(*role));
    }
    assert!(!Role::Approver.covers(Role::Operator) && !Role::Operator.covers(Role::Approver));
    assert!(!Role::Operator.covers(Role::Admin) && !Role::Viewer.covers(Role::Operator));
    assert_eq!(Role::Approver.shared_with(Role::Operator), Role::Viewer);
    assert_eq!(Role::Admin.shared_with(Role::Operator), Role::Operator);
    assert_eq!(Role::Viewer.shared_with(Role::Admin), Role::Viewer);
    let unknown = Role::from_str("Root").expect_err("unknown");
    assert_eq!(unknown.to_string(), r#""Root" is not a role: one of viewer, operator, approver, admin"#);
}
