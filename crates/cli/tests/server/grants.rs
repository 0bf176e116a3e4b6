//! Rules on what a run brings with it: hosts are a grant of their own, beside the run that asks for them.

use ringfence_testing::Test;
use serde_json::{Value, json};

use crate::actions::{configured, decide, run, with_action};
use crate::scene;

const OPEN: &str = "[roles.operator.ceiling.network]\nallow = ['example.org', '*.example.net']\n";

#[test]
fn a_rule_on_grants_holds_wherever_hosts_are_asked_for() {
    let scene = scene();
    let rules = format!(
        "{OPEN}[[actions.rules]]\nname = 'no way out'\nthen = 'deny'\nkinds = ['egress.grant']\nhosts = ['example.org']\n\
         [[actions.rules]]\nname = 'look'\nthen = 'ask'\nkinds = ['egress.grant']\n\
         [[actions.rules]]\nname = 'runs'\nthen = 'allow'\nkinds = ['run', 'sandbox.create']\n"
    );
    let server = configured(&scene, &rules);
    let (ada, root, eve) =
        (server.key("ada", "operator"), server.key("root", "admin"), server.key("eve", "approver"));
    let to = |host: &str| json!({ "network": { "enabled": true, "allowed_domains": [host] } });
    let of = |mut body: Value| {
        body["command"] = json!(["true"]);
        body
    };
    // Without a host nobody is asked.
    let _ = run(&server, &ada, &of(json!({}))).status(200);
    let denied = run(&server, &ada, &of(to("example.org"))).refused(403, "denied_by_rule").json();
    assert!(denied["error"]["message"].as_str().is_some_and(|text| text.contains("no way out")), "{denied}");
    server
        .ask(Some(&ada), "POST", "/v1/run/stream", Some(&of(to("example.org"))))
        .refused(403, "denied_by_rule");
    server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&to("example.org"))).refused(403, "denied_by_rule");
    let in_policy = json!({ "policy": { "network": { "allow": ["example.org:443"] } } });
    run(&server, &ada, &of(in_policy)).refused(403, "denied_by_rule");
    server
        .ask(Some(&ada), "POST", "/v1/actions", Some(&json!({ "run": of(to("example.org")) })))
        .refused(403, "denied_by_rule");
    // The open network has that host too.
    run(&server, &root, &of(json!({ "network": { "enabled": true } }))).refused(403, "denied_by_rule");
    // An ask is stricter than what allows the run itself, and is asked once for both.
    let body = of(to("a.example.net"));
    let waiting = run(&server, &ada, &body).status(202).json();
    assert_eq!(waiting["kind"], "run");
    let id = waiting["id"].as_str().expect("an id");
    let _ = decide(&server, &eve, id, "approve", json!({})).status(200);
    let _ = run(&server, &ada, &with_action(&body, id)).status(200);
    let _ = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&to("a.example.net"))).status(202);
}

#[test]
fn a_rule_that_nothing_can_match_is_refused_at_start() {
    let scene = scene();
    scene.write(
        "server.toml",
        "[[actions.rules]]\nname = 'none'\nthen = 'deny'\nkinds = ['run', 'install']\n",
    );
    let config = scene.path("server.toml").display().to_string();
    let outcome =
        Test::in_scene(&scene).verb(["serve"]).args(["--listen", "127.0.0.1:0", "--config", &config]).call();
    assert_ne!(outcome.exit, 0, "{}", outcome.describe());
    let told = outcome.describe();
    assert!(told.contains("install") && told.contains("egress.grant"), "{told}");
}
