//! Lists that can be long come by the page: every row once, in the order that the document promises.

use ringfence_testing::Server;
use serde_json::{Value, json};

use crate::actions::{STEERING, decide, waiting};
use crate::{sandbox, scene, server};

/// All rows, so many at a time.
fn walked(server: &Server<'_>, key: &str, path: &str, rows: &str, limit: usize) -> Vec<Value> {
    let joiner = if path.contains('?') { '&' } else { '?' };
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let at = format!("{path}{joiner}limit={limit}{after}");
        let page = server.ask(Some(key), "GET", &at, None).status(200).json();
        let found = page[rows].as_array().expect("rows");
        assert!(found.len() <= limit && (all.is_empty() || !found.is_empty()), "{page}");
        all.extend(found.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
        assert!(all.len() < 1000, "it ends");
    }
}

/// Whoever made them: a key of the command line has an id of another kind.
#[test]
fn keys_are_listed_the_oldest_first() {
    let scene = scene();
    let server = server(&scene);
    let root = server.key("root", "admin");
    for number in 0..4 {
        let _ = server.key("ada", "operator");
        let made = json!({ "label": number.to_string() });
        let _ = server.ask(Some(&root), "POST", "/v1/keys", Some(&made)).status(201);
        let _ = server.key("root", "viewer");
    }
    for limit in [1, 2, 1000] {
        let rows = walked(&server, &root, "/v1/keys", "keys", limit);
        assert_eq!(rows.len(), 13, "{rows:?}");
        let times: Vec<i64> = rows.iter().map(|row| row["created"].as_i64().expect("a time")).collect();
        assert!(times.is_sorted(), "{times:?}");
        let labels: Vec<&str> = rows.iter().filter_map(|row| row["label"].as_str()).collect();
        assert_eq!(labels, ["0", "1", "2", "3"]);
    }
    server
        .ask(Some(&root), "GET", &format!("/v1/keys?after={}", "x".repeat(513)), None)
        .refused(400, "bad_request");
}

#[test]
fn a_directory_is_listed_by_the_page_whatever_its_names() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    // Two that are shown alike, the longest that there can be, and more than a page has unasked.
    let script = "mkdir d && cd d && i=0; while [ $i -lt 120 ]; do : > n$i; i=$((i+1)); done; \
                  python3 -c 'import os; [open(name, \"w\").close() for name in (b\"\\xfe\", b\"\\xff\", b\"\\xff\" * 255)]'";
    let made = json!({ "command": ["sh", "-c", script] });
    let done = server.ask(Some(&key), "POST", &format!("{at}/exec"), Some(&made)).status(200).json();
    assert_eq!(done["exit_code"], 0, "{done}");
    let path = format!("{at}/files/list?path=d");
    let whole = server.ask(Some(&key), "GET", &format!("{path}&limit=1000"), None).status(200).json();
    assert_eq!((whole["entries"].as_array().map(Vec::len), &whole["next"]), (Some(123), &Value::Null));
    for limit in [1, 7, 100] {
        let rows = walked(&server, &key, &path, "entries", limit);
        assert_eq!(Some(&rows), whole["entries"].as_array(), "{limit}");
    }
    let names: Vec<&str> =
        whole["entries"].as_array().into_iter().flatten().filter_map(|row| row["name"].as_str()).collect();
    assert!(names[..120].is_sorted() && names[120] == names[121], "{names:?}");
    let usual = server.ask(Some(&key), "GET", &path, None).status(200).json();
    assert_eq!(usual["entries"].as_array().map(Vec::len), Some(100));
    server.ask(Some(&key), "GET", &format!("{path}&limit=0"), None).refused(400, "bad_query");
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

#[test]
fn approvals_that_are_remembered_are_listed_by_the_page() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "approver"));
    for number in 0..5 {
        let body = json!({ "command": ["echo", STEERING, number.to_string()] });
        let id = waiting(&server, &ada, &body);
        let _ = decide(&server, &eve, &id, "approve", json!({ "remember": "hour" })).status(200);
    }
    let whole = walked(&server, &ada, "/v1/actions/remembered", "remembered", 1000);
    let times: Vec<i64> = whole.iter().map(|row| row["made"].as_i64().expect("a time")).collect();
    assert!(whole.len() == 5 && times.is_sorted(), "{whole:?}");
    for limit in [1, 2, 5] {
        assert_eq!(walked(&server, &eve, "/v1/actions/remembered", "remembered", limit), whole, "{limit}");
    }
    let bob = server.key("bob", "operator");
    assert!(walked(&server, &bob, "/v1/actions/remembered", "remembered", 2).is_empty());
}
