use ringfence_store::{Answer, Begun, RequestKey, StoreError};
use serde_json::json;

use crate::support::Scene;

const KEY: RequestKey<'static> = RequestKey { user: "ann", route: "POST /v1/sandboxes", key: "abc" };
const DAY: i64 = 24 * 60 * 60 * 1000;

fn answer() -> Answer {
    Answer {
        status: 201,
        headers: Some(json!({"location": "/v1/sandboxes/s1"})),
        body: vec![0, 159, 146, 150],
    }
}

#[tokio::test]
async fn an_answer_is_given_again() {
    let scene = Scene::new().await;
    let answers = scene.store.idempotency();
    assert_eq!(answers.begin(KEY, "d1").await.expect("begun"), Begun::Fresh);
    assert_eq!(answers.begin(KEY, "d1").await.expect("begun"), Begun::Running);
    assert_eq!(answers.begin(KEY, "d2").await.expect("begun"), Begun::Mismatch);
    answers.finish(KEY, &answer()).await.expect("finished");
    assert_eq!(answers.begin(KEY, "d1").await.expect("begun"), Begun::Done(answer()));
    assert_eq!(answers.begin(KEY, "d2").await.expect("begun"), Begun::Mismatch);
    // Finished once; abandoned no more.
    assert!(matches!(answers.finish(KEY, &answer()).await, Err(StoreError::NotFound { .. })));
    answers.abandon(KEY).await.expect("nothing");
    assert_eq!(answers.begin(KEY, "d1").await.expect("begun"), Begun::Done(answer()));
    for other in [
        RequestKey { user: "bob", ..KEY },
        RequestKey { route: "POST /v1/run", ..KEY },
        RequestKey { key: "abcd", ..KEY },
    ] {
        assert_eq!(answers.begin(other, "d1").await.expect("begun"), Begun::Fresh);
    }
}

#[tokio::test]
async fn what_came_to_nothing_begins_afresh() {
    let scene = Scene::new().await;
    let answers = scene.store.idempotency();
    assert_eq!(answers.begin(KEY, "d1").await.expect("begun"), Begun::Fresh);
    answers.abandon(KEY).await.expect("abandoned");
    assert_eq!(answers.begin(KEY, "d2").await.expect("begun"), Begun::Fresh);
}

#[tokio::test]
async fn a_day_later_it_is_forgotten() {
    let scene = Scene::new().await;
    let answers = scene.store.idempotency();
    answers.begin(KEY, "d1").await.expect("begun");
    answers.finish(KEY, &answer()).await.expect("finished");
    scene.pass(DAY - 1);
    assert_eq!(answers.purge().await.expect("none"), 0);
    assert_eq!(answers.begin(KEY, "d1").await.expect("begun"), Begun::Done(answer()));
    scene.pass(1);
    assert_eq!(answers.begin(KEY, "d2").await.expect("begun"), Begun::Fresh);
    // What runs for longer than a day still runs.
    scene.pass(2 * DAY);
    assert_eq!(answers.purge().await.expect("none"), 0);
    assert_eq!(answers.begin(KEY, "d2").await.expect("begun"), Begun::Running);
    answers.finish(KEY, &answer()).await.expect("finished");
    assert_eq!(answers.purge().await.expect("one"), 1);
}

#[tokio::test]
async fn what_a_dead_server_began_counts_as_abandoned() {
    let scene = Scene::new().await;
    let finished = RequestKey { key: "finished", ..KEY };
    let before = scene.store.idempotency();
    before.begin(KEY, "d1").await.expect("begun");
    before.begin(finished, "d1").await.expect("begun");
    before.finish(finished, &answer()).await.expect("finished");
    let store = scene.another().await;
    let after = store.idempotency();
    assert_eq!(after.begin(KEY, "d1").await.expect("begun"), Begun::Fresh);
    assert_eq!(after.begin(finished, "d1").await.expect("begun"), Begun::Done(answer()));
    // The first one, should it not be dead, does not answer for the second.
    assert!(before.finish(KEY, &answer()).await.is_err());
    before.abandon(KEY).await.expect("nothing");
    assert_eq!(after.begin(KEY, "d1").await.expect("begun"), Begun::Running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_begin_at_once_one_carries_it_out() {
    let scene = Scene::new().await;
    let tasks: Vec<_> = (0..24)
        .map(|_| {
            let answers = scene.store.idempotency();
            tokio::spawn(async move { answers.begin(KEY, "d1").await.expect("begun") })
        })
        .collect();
    let mut fresh = 0;
    for task in tasks {
        match task.await.expect("a task") {
            Begun::Fresh => fresh += 1,
            other => assert_eq!(other, Begun::Running),
        }
    }
    assert_eq!(fresh, 1);
}

#[tokio::test]
async fn the_oldest_answers_go_and_what_was_carried_out_stays_known() {
    let scene = Scene::new().await;
    let answers = scene.store.idempotency();
    for key in ["one", "two", "three"] {
        let request = RequestKey { key, ..KEY };
        answers.begin(request, "d1").await.expect("begun");
        answers.finish(request, &Answer { body: vec![1; 100], ..answer() }).await.expect("finished");
        scene.pass(1);
    }
    let other = RequestKey { user: "bob", ..KEY };
    answers.begin(other, "d1").await.expect("begun");
    answers.finish(other, &answer()).await.expect("finished");
    assert_eq!(answers.kept("ann").await.expect("read"), 300);
    assert_eq!(answers.let_go("ann", 150).await.expect("gone"), 100);
    assert_eq!(
        (answers.kept("ann").await.expect("read"), answers.kept("bob").await.expect("read")),
        (100, 4)
    );
    for (key, gone) in [("one", true), ("two", true), ("three", false)] {
        let again = answers.begin(RequestKey { key, ..KEY }, "d1").await.expect("begun");
        let Begun::Done(again) = again else { panic!("{key} would be carried out again: {again:?}") };
        let headers = again.headers.expect("headers");
        assert_eq!(
            (again.status, headers["let_go"] == true, again.body.is_empty()),
            (201, gone, gone),
            "{key}"
        );
    }
    assert_eq!(answers.begin(RequestKey { key: "one", ..KEY }, "d2").await.expect("begun"), Begun::Mismatch);
}
