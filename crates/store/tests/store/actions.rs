use ringfence_store::{
    ActionFilter, ActionState, Decision, Level, NewAction, Outcome, RuleDecision, Scope, StoreError,
};
use serde_json::json;

use crate::support::{START, Scene, action};

fn why(error: &StoreError) -> &str {
    match error {
        StoreError::Conflict { why, .. } => why,
        other => panic!("not a conflict: {other}"),
    }
}

#[tokio::test]
async fn an_action_waits_is_approved_runs_and_is_done() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    let added = store.add_action(action("a1", "ann", Level::High)).await.expect("added");
    assert_eq!((added.state, added.created), (ActionState::Waiting, START));
    assert_eq!(store.action("a1").await.expect("read"), Some(added));
    scene.pass(5);
    let approved =
        store.decide_action("a1", "eve", Decision::Approve, Some("looks fine"), Some(Scope::Hour)).await;
    let approved = approved.expect("approved");
    assert_eq!(approved.state, ActionState::Approved);
    assert_eq!(approved.decided_by.as_deref(), Some("eve"));
    assert_eq!((approved.decided_at, approved.scope), (Some(START + 5), Some(Scope::Hour)));
    assert_eq!(approved.decided_why.as_deref(), Some("looks fine"));
    store.start_action("a1", "d1").await.expect("started");
    let done = store.finish_action("a1", Outcome::Done, json!({"code": 0})).await.expect("finished");
    assert_eq!((done.state, done.result.clone()), (ActionState::Done, Some(json!({"code": 0}))));
    assert_eq!(store.action("a1").await.expect("read"), Some(done));

    let states: Vec<_> = store
        .events_after(0, None, 100)
        .await
        .expect("events")
        .into_iter()
        .map(|event| (event.seq, event.state, event.by))
        .collect();
    assert_eq!(
        states,
        [
            (1, ActionState::Waiting, None),
            (2, ActionState::Approved, Some("eve".to_owned())),
            (3, ActionState::Running, None),
            (4, ActionState::Done, None),
        ]
    );
    assert_eq!(store.last_event().await.expect("read"), 4);
    assert!(store.events_after(4, None, 100).await.expect("events").is_empty());
    assert!(store.events_after(0, Some("bob"), 100).await.expect("events").is_empty());
}

#[tokio::test]
async fn nobody_decides_on_their_own_high_or_critical_action() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    for (id, level) in [("a1", Level::High), ("a2", Level::Critical)] {
        store.add_action(action(id, "root", level)).await.expect("added");
        for decision in [Decision::Approve, Decision::Deny] {
            let refused = store.decide_action(id, "root", decision, None, None).await.expect_err("refused");
            assert!(matches!(refused, StoreError::OwnAction { .. }), "{refused}");
        }
        assert_eq!(store.action(id).await.expect("read").expect("there").state, ActionState::Waiting);
    }
    for (id, level) in [("a3", Level::Low), ("a4", Level::Medium)] {
        store.add_action(action(id, "root", level)).await.expect("added");
        store.decide_action(id, "root", Decision::Approve, None, None).await.expect("their own is fine");
    }
}

#[tokio::test]
async fn what_was_approved_is_what_runs_and_once() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    store.add_action(action("a1", "ann", Level::High)).await.expect("added");
    let early = store.start_action("a1", "d1").await.expect_err("not approved");
    assert_eq!(why(&early), "nobody has approved it yet");
    store.decide_action("a1", "eve", Decision::Approve, None, None).await.expect("approved");
    let changed = store.start_action("a1", "d2").await.expect_err("another command");
    assert_eq!(why(&changed), "d1 was approved, and d2 is about to run");
    assert_eq!(store.action("a1").await.expect("read").expect("there").state, ActionState::Approved);
    store.start_action("a1", "d1").await.expect("started");
    let again = store.start_action("a1", "d1").await.expect_err("once");
    assert_eq!(why(&again), r#"it is running, and "eve" approved it"#);
    store.finish_action("a1", Outcome::Failed, json!(null)).await.expect("finished");
    assert!(store.finish_action("a1", Outcome::Done, json!(1)).await.is_err());
    assert!(store.start_action("a1", "d1").await.is_err());
}

#[tokio::test]
async fn nothing_is_decided_after_it_expired() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    store.add_action(action("a1", "ann", Level::High)).await.expect("added");
    store
        .add_action(NewAction { expires: START + 90_000, ..action("a2", "ann", Level::High) })
        .await
        .expect("added");
    scene.pass(59_999);
    assert!(store.expire_actions(START + 59_999).await.expect("none").is_empty());
    scene.pass(1);
    // Also before anybody has marked it.
    let late = store.decide_action("a1", "eve", Decision::Approve, None, None).await.expect_err("late");
    assert_eq!(why(&late), "nobody decided before it expired");
    let expired = store.expire_actions(START + 60_000).await.expect("expired");
    assert_eq!(
        expired.iter().map(|row| (row.id.as_str(), row.state)).collect::<Vec<_>>(),
        [("a1", ActionState::Expired)]
    );
    assert!(store.expire_actions(START + 60_000).await.expect("once").is_empty());
    let late = store.decide_action("a1", "eve", Decision::Approve, None, None).await.expect_err("late");
    assert_eq!(why(&late), "nobody decided before it expired");
    assert!(store.start_action("a1", "d1").await.is_err());
}

#[tokio::test]
async fn an_approval_that_is_not_used_in_time_lapses() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    for id in ["a1", "a2"] {
        store.add_action(action(id, "ann", Level::High)).await.expect("added");
    }
    assert_eq!(store.waiting_actions(Some("ann")).await.expect("counted"), 2);
    scene.pass(50_000);
    let approved = store.decide_action("a1", "eve", Decision::Approve, None, None).await.expect("in time");
    assert_eq!(approved.expires, START + 50_000 + 60_000, "as long again, from the approval on");
    store.decide_action("a2", "eve", Decision::Approve, None, None).await.expect("in time");
    assert_eq!(store.waiting_actions(Some("ann")).await.expect("counted"), 0);
    scene.pass(59_999);
    store.start_action("a2", "d1").await.expect("just in time");
    scene.pass(1);
    let late = store.start_action("a1", "d1").await.expect_err("late, also before anybody has marked it");
    assert_eq!(why(&late), "it was approved, and not begun before that approval expired");
    let lapsed = store.expire_actions(START + 110_000).await.expect("expired");
    assert_eq!(lapsed.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a1"], "a2 runs");
    let late = store.start_action("a1", "d1").await.expect_err("late");
    assert_eq!(why(&late), "it was approved, and not begun before that approval expired");
}

#[tokio::test]
async fn what_has_not_begun_can_be_cancelled() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    for id in ["a1", "a2", "a3"] {
        store.add_action(action(id, "ann", Level::High)).await.expect("added");
    }
    store.cancel_action("a1", "ann").await.expect("waiting");
    store.decide_action("a2", "eve", Decision::Approve, None, None).await.expect("approved");
    store.cancel_action("a2", "ann").await.expect("approved");
    assert!(store.start_action("a2", "d1").await.is_err());
    store.decide_action("a3", "eve", Decision::Deny, Some("no"), Some(Scope::Always)).await.expect("denied");
    let refused = store.cancel_action("a3", "ann").await.expect_err("denied");
    assert_eq!(why(&refused), r#""eve" denied it"#);
    // A denial is of this action only.
    assert_eq!(store.action("a3").await.expect("read").expect("there").scope, None);
    assert!(matches!(store.cancel_action("a9", "ann").await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_rule_decides_at_once() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    let rule = |decision| RuleDecision { decision, by: "rule 3".into(), why: None, scope: None };
    let allowed = NewAction { decided: Some(rule(Decision::Approve)), ..action("a1", "ann", Level::Low) };
    let denied = NewAction { decided: Some(rule(Decision::Deny)), ..action("a2", "ann", Level::Low) };
    assert_eq!(store.add_action(allowed).await.expect("added").state, ActionState::Approved);
    assert_eq!(store.add_action(denied).await.expect("added").state, ActionState::Denied);
    store.start_action("a1", "d1").await.expect("started");
    let refused = store.start_action("a2", "d1").await.expect_err("denied");
    assert_eq!(why(&refused), r#""rule 3" denied it"#);
}

#[tokio::test]
async fn lists_are_filtered_and_the_finished_are_forgotten() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    for number in 0..6 {
        let user = if number % 2 == 0 { "ann" } else { "bob" };
        store.add_action(action(&format!("a{number}"), user, Level::High)).await.expect("added");
    }
    store.cancel_action("a2", "ann").await.expect("cancelled");
    let ids = async |filter: ActionFilter| -> Vec<String> {
        store.actions(&filter).await.expect("read").into_iter().map(|row| row.id).collect()
    };
    let waiting = ActionFilter { state: Some(ActionState::Waiting), limit: 3, ..ActionFilter::default() };
    assert_eq!(ids(waiting.clone()).await, ["a5", "a4", "a3"]);
    assert_eq!(ids(ActionFilter { after: Some("a3".into()), ..waiting }).await, ["a1", "a0"]);
    let ann = ActionFilter { user: Some("ann".into()), limit: 9, ..ActionFilter::default() };
    assert_eq!(ids(ann.clone()).await, ["a4", "a2", "a0"]);
    assert_eq!(store.forget_actions(START).await.expect("none yet"), 0);
    assert_eq!(store.forget_actions(START + 1).await.expect("one"), 1);
    assert_eq!(ids(ann).await, ["a4", "a0"]);
    // Numbers of events are not given again.
    let last = store.last_event().await.expect("read");
    store.cancel_action("a4", "ann").await.expect("cancelled");
    assert_eq!(store.last_event().await.expect("read"), last + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_approvers_one_decides_and_the_other_is_told_who() {
    let scene = Scene::with_users().await;
    let other = scene.another().await;
    for round in 0..40 {
        let id = format!("a{round:02}");
        scene.store.add_action(action(&id, "ann", Level::Critical)).await.expect("added");
        let decide = |store: ringfence_store::Store, by: &'static str, decision| {
            let id = id.clone();
            tokio::spawn(async move { store.decide_action(&id, by, decision, None, None).await })
        };
        let first = decide(scene.store.clone(), "eve", Decision::Approve);
        let second = decide(other.clone(), "max", Decision::Deny);
        let outcomes = (first.await.expect("a task"), second.await.expect("a task"));
        let (row, told) = match outcomes {
            (Ok(row), Err(error)) => {
                assert_eq!(why(&error), r#""eve" approved it"#);
                (row, ActionState::Approved)
            }
            (Err(error), Ok(row)) => {
                assert_eq!(why(&error), r#""max" denied it"#);
                (row, ActionState::Denied)
            }
            both => panic!("not exactly one: {both:?}"),
        };
        assert_eq!(row.state, told);
        assert_eq!(scene.store.action(&id).await.expect("read"), Some(row));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_start_it_one_does() {
    let scene = Scene::with_users().await;
    let stores = [scene.store.clone(), scene.another().await];
    scene.store.add_action(action("a1", "ann", Level::High)).await.expect("added");
    scene.store.decide_action("a1", "eve", Decision::Approve, None, None).await.expect("approved");
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move { store.start_action("a1", "d1").await.is_ok() })
        })
        .collect();
    let mut started = 0;
    for task in tasks {
        started += usize::from(task.await.expect("a task"));
    }
    assert_eq!(started, 1);
}

#[tokio::test]
async fn waiting_actions_still_wait_after_a_restart() {
    let scene = Scene::with_users().await;
    scene.store.add_action(action("a1", "ann", Level::High)).await.expect("added");
    scene.store.clone().close().await;
    let again = scene.another().await;
    assert_eq!(again.action("a1").await.expect("read").expect("there").state, ActionState::Waiting);
    again.decide_action("a1", "eve", Decision::Approve, None, None).await.expect("approved");
    again.start_action("a1", "d1").await.expect("started");
    assert!(matches!(again.remove_user("ann").await, Err(StoreError::Conflict { .. })));
}

#[tokio::test]
async fn what_is_over_says_no_longer_what_it_would_have_done_where_there_is_too_much_of_it() {
    let scene = Scene::with_users().await;
    let store = &scene.store;
    let long = json!({ "shown": "x".repeat(10_000), "sandbox": "s1", "target": "t" });
    for id in ["a1", "a2", "a3", "a4"] {
        let new = NewAction { request: long.clone(), ..action(id, "ann", Level::High) };
        store.add_action(new).await.expect("added");
    }
    for id in ["a1", "a2", "a3"] {
        store.cancel_action(id, "ann").await.expect("cancelled");
    }
    let size = long.to_string().len() as u64;
    assert_eq!(store.shown_bytes("ann").await.expect("read"), 4 * size);
    let kept = store.let_shown_go("ann", 2 * size).await.expect("gone");
    assert_eq!(store.shown_bytes("ann").await.expect("read"), kept);
    assert!(kept < 2 * size + 1000, "{kept}");
    for (id, whole) in [("a1", false), ("a2", false), ("a3", true), ("a4", true)] {
        let row = store.action(id).await.expect("read").expect("there");
        assert_eq!((row.request == long, &row.request["sandbox"]), (whole, &json!("s1")), "{id}");
    }
    // What waits stays whole, however much of it there is.
    store.let_shown_go("ann", 0).await.expect("gone");
    assert_eq!(store.action("a4").await.expect("read").expect("there").request, long);
}
