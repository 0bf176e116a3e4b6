//! Who was refused for want of a right is in the audit, whatever they tried, and once.

use ringfence_testing::Server;
use serde_json::{Value, json};

use crate::actions::configured;
use crate::{sandbox, scene, server};

fn denied(server: &Server<'_>, admin: &str, user: &str) -> Vec<Value> {
    let path = format!("/v1/audit?user={user}&limit=1000");
    let page = server.ask(Some(admin), "GET", &path, None).status(200).json();
    let rows = page["rows"].as_array().cloned().unwrap_or_default();
    rows.into_iter().filter(|row| row["decision"] == "deny").collect()
}

#[test]
fn what_a_viewer_is_refused_is_written_down() {
    let scene = scene();
    let server = server(&scene);
    let (root, ada, vic) =
        (server.key("root", "admin"), server.key("ada", "operator"), server.key("ada", "viewer"));
    let at = sandbox(&server, &ada, &json!({}));
    let command = json!({ "command": ["true"] });
    let tried = [
        ("POST", format!("{at}/exec"), command.clone()),
        ("POST", format!("{at}/processes"), command.clone()),
        ("DELETE", format!("{at}/files?path=f"), Value::Null),
        ("POST", format!("{at}/commit"), json!({})),
        ("PUT", "/v1/secrets/TOKEN".to_owned(), json!({ "value": "planted-secret-value" })),
        ("POST", "/v1/users".to_owned(), json!({ "name": "x", "role": "admin" })),
        ("POST", "/v1/keys".to_owned(), json!({ "role": "admin" })),
        ("POST", "/v1/run".to_owned(), command.clone()),
        ("GET", "/v1/metrics".to_owned(), Value::Null),
        ("GET", format!("{at}/terminal"), Value::Null),
    ];
    for (at, (method, path, body)) in tried.iter().enumerate() {
        let body = Some(body).filter(|body| !body.is_null());
        server.ask(Some(&vic), method, path, body).refused(403, "forbidden");
        let rows = denied(&server, &root, "ada");
        assert_eq!(rows.len(), at + 1, "{method} {path}");
        let row = &rows[at];
        assert!(row["request_id"].is_string() && row["result"]["code"] == "forbidden", "{row}");
        assert!(!row.to_string().contains("planted-secret-value"), "{row}");
    }
    let rows = denied(&server, &root, "ada");
    let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
    assert_eq!((kinds[0], kinds[7]), ("refused", "run"), "{kinds:?}");
    assert_eq!(rows[0]["result"]["route"], "/v1/sandboxes/{id}/exec");
    assert_eq!(rows[0]["target"], format!("{at}/exec"));
    // What is not there, is wrong or is done is no refusal.
    let _ = server.ask(Some(&vic), "GET", "/v1/sandboxes/none", None).refused(404, "not_found");
    let _ = server.ask(Some(&vic), "GET", "/v1/me", None).status(200);
    assert_eq!(denied(&server, &root, "ada").len(), tried.len());
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}

#[test]
fn what_a_rule_denies_is_written_down_once() {
    let scene = scene();
    let server = configured(&scene, "[[actions.rules]]\nthen = 'deny'\nkinds = ['run', 'exec']\n");
    let (root, ada) = (server.key("root", "admin"), server.key("ada", "operator"));
    let at = sandbox(&server, &ada, &json!({}));
    let command = json!({ "command": ["true"] });
    for (count, path) in ["/v1/run".to_owned(), format!("{at}/exec")].iter().enumerate() {
        server.ask(Some(&ada), "POST", path, Some(&command)).refused(403, "denied_by_rule");
        assert_eq!(denied(&server, &root, "ada").len(), count + 1, "{path}");
    }
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}
