use ringfence_store::{Claim, Enforced, NewSandbox, Quotas, SandboxFilter, SandboxState, StoreError};

use crate::support::{START, Scene, sandbox};

const ROOM: Quotas = Quotas { of_user: 100, in_all: 100 };

fn named(id: &str, user: &str, name: &str) -> NewSandbox {
    NewSandbox { name: Some(name.into()), ..sandbox(id, user) }
}

#[tokio::test]
async fn a_sandbox_is_made_lives_ends_and_is_forgotten() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    let made = store.add_sandbox(named("s1", "ann", "web"), ROOM).await.expect("made");
    assert_eq!((made.state, made.created), (SandboxState::Making, START));
    assert_eq!(store.sandbox("s1").await.expect("read"), Some(made));
    assert!(matches!(store.forget_sandbox("s1").await, Err(StoreError::Conflict { .. })));
    let enforced = Enforced { policy_digest: Some("p".into()), receipt_digest: Some("r".into()) };
    store.sandbox_is_alive("s1", &enforced).await.expect("alive");
    let alive = store.sandbox("s1").await.expect("read").expect("there");
    assert_eq!((alive.policy_digest.as_deref(), alive.receipt_digest.as_deref()), (Some("p"), Some("r")));
    assert!(matches!(store.sandbox_is_alive("s1", &enforced).await, Err(StoreError::Conflict { .. })));
    scene.pass(10);
    assert!(store.sandbox_ended("s1", "deleted").await.expect("ended"));
    scene.pass(10);
    assert!(!store.sandbox_ended("s1", "swept").await.expect("ended before"));
    let ended = store.sandbox("s1").await.expect("read").expect("there");
    assert_eq!(
        (ended.state, ended.ended, ended.ended_why.as_deref()),
        (SandboxState::Ended, Some(START + 10), Some("deleted"))
    );
    let late = store.sandbox_is_alive("s1", &enforced).await.expect_err("too late");
    assert_eq!(
        late.to_string(),
        r#"the sandbox "s1" can't be called alive: it has ended (deleted); make another"#
    );
    store.forget_sandbox("s1").await.expect("forgotten");
    assert_eq!(store.sandbox("s1").await.expect("read"), None);
    assert!(matches!(store.sandbox_ended("s1", "").await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_name_is_one_living_sandboxs_of_a_user() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    store.add_sandbox(named("s1", "ann", "web"), ROOM).await.expect("made");
    let taken = store.add_sandbox(named("s2", "ann", "web"), ROOM).await.expect_err("taken");
    assert!(matches!(taken, StoreError::Taken { what: "sandbox", ref name, .. } if name == "web"), "{taken}");
    store.add_sandbox(named("s3", "bob", "web"), ROOM).await.expect("another user's");
    store.sandbox_ended("s1", "deleted").await.expect("ended");
    store.add_sandbox(named("s4", "ann", "web"), ROOM).await.expect("free again");
    let nobody = store.add_sandbox(sandbox("s5", "nobody"), ROOM).await.expect_err("refused");
    assert!(matches!(nobody, StoreError::NotFound { what: "user", .. }), "{nobody}");
}

#[tokio::test]
async fn lists_are_filtered_and_paged_newest_first() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    for number in 0..10 {
        let user = if number % 2 == 0 { "ann" } else { "bob" };
        store.add_sandbox(sandbox(&format!("s{number}"), user), ROOM).await.expect("made");
    }
    store.sandbox_is_alive("s4", &Enforced::default()).await.expect("alive");
    let ids = async |filter: SandboxFilter| -> Vec<String> {
        store.sandboxes(&filter).await.expect("read").into_iter().map(|row| row.id).collect()
    };
    let ann = SandboxFilter { user: Some("ann".into()), limit: 3, ..SandboxFilter::default() };
    assert_eq!(ids(ann.clone()).await, ["s8", "s6", "s4"]);
    assert_eq!(ids(SandboxFilter { after: Some("s4".into()), ..ann }).await, ["s2", "s0"]);
    let alive = SandboxFilter { state: Some(SandboxState::Alive), limit: 50, ..SandboxFilter::default() };
    assert_eq!(ids(alive).await, ["s4"]);
    // A limit of nothing, or of everything, is none.
    assert_eq!(ids(SandboxFilter::default()).await.len(), 1);
    assert_eq!(ids(SandboxFilter { limit: u32::MAX, ..SandboxFilter::default() }).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quota_holds_however_many_ask_at_once() {
    let scene = Scene::with_users().await;
    let quotas = Quotas { of_user: 5, in_all: 8 };
    let stores = [scene.store.clone(), scene.another().await];
    let mut tasks = Vec::new();
    for number in 0..40 {
        let store = stores[number % 2].clone();
        let user = if number % 4 < 2 { "ann" } else { "bob" };
        tasks.push(tokio::spawn(async move {
            store.add_sandbox(sandbox(&format!("s{number:02}"), user), quotas).await
        }));
    }
    let mut made = 0;
    for task in tasks {
        match task.await.expect("a task") {
            Ok(_) => made += 1,
            Err(StoreError::Quota { limit, .. }) => assert!(limit == 5 || limit == 8),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(made, 8);
    for user in ["ann", "bob"] {
        let filter = SandboxFilter { user: Some(user.into()), limit: 50, ..SandboxFilter::default() };
        assert!(scene.store.sandboxes(&filter).await.expect("read").len() <= 5);
    }
    let full = scene.store.add_sandbox(sandbox("s99", "root"), quotas).await.expect_err("full");
    assert_eq!(
        full.to_string(),
        "no more than 8 sandboxes on this server: the quota is used up; end one, or ask an admin for more"
    );
    // What has ended makes room.
    let first =
        &scene.store.sandboxes(&SandboxFilter { limit: 1, ..SandboxFilter::default() }).await.expect("read")
            [0];
    scene.store.sandbox_ended(&first.id, "deleted").await.expect("ended");
    scene.store.add_sandbox(sandbox("s99", "root"), quotas).await.expect("room");
}

#[tokio::test]
async fn ports_are_shown_once_and_go_with_their_sandbox() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    store.add_sandbox(sandbox("s1", "ann"), ROOM).await.expect("a sandbox");
    assert!(store.add_port("s1", 8080).await.expect("shown"));
    assert!(!store.add_port("s1", 8080).await.expect("again"));
    assert!(matches!(store.add_port("none", 80).await, Err(StoreError::NotFound { .. })));
    for port in 1..32 {
        store.add_port("s1", port).await.expect("room");
    }
    assert!(matches!(store.add_port("s1", 9).await, Ok(false)));
    assert!(matches!(store.add_port("s1", 99).await, Err(StoreError::Quota { .. })));
    assert!(store.remove_port("s1", 8080).await.expect("removed"));
    assert!(!store.remove_port("s1", 8080).await.expect("gone"));
    assert_eq!(store.ports("s1").await.expect("read").len(), 31);
    store.sandbox_ended("s1", "test").await.expect("ended");
    store.forget_sandbox("s1").await.expect("forgotten");
    assert!(store.ports("s1").await.expect("read").is_empty());
}

#[tokio::test]
async fn what_living_sandboxes_may_use_is_added_up() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    for (id, user) in [("s1", "ann"), ("s2", "ann"), ("s3", "bob")] {
        store.add_sandbox(sandbox(id, user), ROOM).await.expect("a sandbox");
    }
    let of = |claims: u64| Claim { memory: claims << 20, cpus: claims * 500 };
    assert_eq!(store.claimed(Some("ann")).await.expect("read"), of(2));
    assert_eq!(store.claimed(None).await.expect("read"), of(3));
    store.sandbox_ended("s1", "test").await.expect("ended");
    assert_eq!(store.claimed(Some("ann")).await.expect("read"), of(1));
    assert_eq!(store.claimed(Some("nobody")).await.expect("read"), of(0));
}
