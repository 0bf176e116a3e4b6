use ringfence_store::{NewRemembered, Scope, StoreError};

use crate::support::{START, Scene};

fn always(id: &str) -> NewRemembered {
    NewRemembered {
        id: id.into(),
        user: "ann".into(),
        kind: "run".into(),
        shape: "shape-1".into(),
        scope: Scope::Always,
        session: None,
        until: None,
        by: "eve".into(),
    }
}

#[tokio::test]
async fn an_approval_is_found_for_the_same_user_kind_and_shape() {
    let scene = Scene::with_users().await;
    let decisions = scene.store.decisions();
    let made = decisions.remember(always("r1")).await.expect("remembered");
    assert_eq!(decisions.find("ann", "run", "shape-1", None).await.expect("read"), Some(made));
    for (user, kind, shape) in
        [("bob", "run", "shape-1"), ("ann", "commit", "shape-1"), ("ann", "run", "shape-2")]
    {
        assert_eq!(decisions.find(user, kind, shape, None).await.expect("read"), None);
    }
    decisions.forget("r1").await.expect("forgotten");
    assert_eq!(decisions.find("ann", "run", "shape-1", None).await.expect("read"), None);
    assert!(matches!(decisions.forget("r1").await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn it_holds_as_long_as_its_scope() {
    let scene = Scene::with_users().await;
    let decisions = scene.store.decisions();
    let hour = NewRemembered { scope: Scope::Hour, until: Some(START + 3_600_000), ..always("r1") };
    decisions.remember(hour).await.expect("remembered");
    scene.pass(3_599_999);
    assert!(decisions.find("ann", "run", "shape-1", None).await.expect("read").is_some());
    scene.pass(1);
    assert!(decisions.find("ann", "run", "shape-1", None).await.expect("read").is_none());
    assert_eq!(decisions.purge().await.expect("purged"), 1);

    let session = NewRemembered { scope: Scope::Session, session: Some("s1".into()), ..always("r2") };
    decisions.remember(session).await.expect("remembered");
    assert!(decisions.find("ann", "run", "shape-1", Some("s1")).await.expect("read").is_some());
    assert!(decisions.find("ann", "run", "shape-1", Some("s2")).await.expect("read").is_none());
    assert!(decisions.find("ann", "run", "shape-1", None).await.expect("read").is_none());
    assert_eq!(decisions.forget_session("s1").await.expect("forgotten"), 1);
    assert!(decisions.list(None).await.expect("read").is_empty());
}

#[tokio::test]
async fn a_scope_without_an_end_is_refused() {
    let scene = Scene::with_users().await;
    let decisions = scene.store.decisions();
    for scope in [Scope::Once, Scope::Session, Scope::Hour] {
        let refused = decisions.remember(NewRemembered { scope, ..always("r1") }).await.expect_err("refused");
        assert!(matches!(refused, StoreError::Conflict { .. }), "{refused}");
    }
    let nobody = NewRemembered { user: "nobody".into(), ..always("r1") };
    assert!(matches!(decisions.remember(nobody).await, Err(StoreError::NotFound { .. })));
    decisions.remember(always("r1")).await.expect("remembered");
    assert!(matches!(decisions.remember(always("r1")).await, Err(StoreError::Taken { .. })));
    assert_eq!(decisions.list(Some("bob")).await.expect("read"), []);
    scene.store.remove_user("ann").await.expect("removed");
    assert_eq!(decisions.list(None).await.expect("read"), []);
}
