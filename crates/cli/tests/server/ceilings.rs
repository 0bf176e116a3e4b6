//! Ceilings and quotas bound what is asked for; they give nobody what nobody asked for, and never refuse a plain run.

use ringfence_testing::Server;
use serde_json::{Value, json};

use crate::actions::{configured, run};
use crate::scene;

/// The policy that a run would have.
fn resolved(server: &Server<'_>, key: &str, body: Value) -> Value {
    let body = json!({ "run": body });
    let action = server.ask(Some(key), "POST", "/v1/actions", Some(&body)).status(201).json();
    action["request"]["policy"].clone()
}

#[test]
fn a_ceiling_is_no_default() {
    let scene = scene();
    let server = configured(
        &scene,
        "[roles.operator.ceiling]\nprofile = 'permissive'\n[roles.operator.ceiling.network]\nmode = 'open'\n\
         [[actions.rules]]\nthen = 'allow'\n",
    );
    let key = server.key("ada", "operator");
    let plain = resolved(&server, &key, json!({ "command": ["true"] }));
    assert_eq!(
        (&plain["profile"], &plain["network"]["mode"]),
        (&json!("moderate"), &json!("off")),
        "{plain}"
    );
    let ran = run(&server, &key, &json!({ "command": ["true"] })).status(200).json();
    assert_eq!(ran["network"], Value::Null, "{ran}");
    // A sandbox that stays is made alike.
    let made = server.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    assert_eq!(made["profile"], "moderate", "{made}");
    let at = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
    // What is asked for within it is had.
    let asked = resolved(&server, &key, json!({ "command": ["true"], "profile": "permissive" }));
    assert_eq!(asked["profile"], "permissive", "{asked}");
    let open = resolved(&server, &key, json!({ "command": ["true"], "network": { "enabled": true } }));
    assert_eq!((&open["profile"], &open["network"]["mode"]), (&json!("moderate"), &json!("open")), "{open}");
}

#[test]
fn a_ceiling_below_the_default_lowers_it() {
    let scene = scene();
    let server = configured(&scene, "[roles.operator.ceiling]\nprofile = 'restrictive'\n");
    let key = server.key("ada", "operator");
    let plain = resolved(&server, &key, json!({ "command": ["true"] }));
    assert_eq!(plain["profile"], "restrictive", "{plain}");
    let _ = run(&server, &key, &json!({ "command": ["true"] })).status(200);
    let made = server.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    assert_eq!(made["profile"], "restrictive", "{made}");
    let at = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

#[test]
fn a_small_quota_lowers_the_default_and_says_what_never_fits() {
    let scene = scene();
    let server = configured(
        &scene,
        "[roles.operator.quotas]\nmemory = '256M'\ncpus = 1\n[roles.admin.quotas]\nmemory = '1T'\n[server]\nmemory = '512M'\n",
    );
    let (ada, root) = (server.key("ada", "operator"), server.key("root", "admin"));
    let plain = json!({ "command": ["sh", "-c", "cat /sys/fs/cgroup/memory.max 2>/dev/null; true"] });
    for key in [&ada, &root] {
        let ran = run(&server, key, &plain).status(200).json();
        assert_eq!(ran["exit_code"], 0, "{ran}");
    }
    let made = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    // Now it is used up: that passes, and is waited for.
    run(&server, &ada, &plain).refused(429, "quota");
    let at = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
    // What was asked for and is more than all of it never fits.
    let asked = |memory: &str| json!({ "command": ["true"], "policy": { "limits": { "memory": memory } } });
    let told = run(&server, &ada, &asked("300M")).refused(403, "beyond_quota").json();
    assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("256 MiB")), "{told}");
    run(&server, &root, &asked("600M")).refused(403, "beyond_quota");
    let cpus = json!({ "command": ["true"], "policy": { "limits": { "cpus": 2.0 } } });
    run(&server, &ada, &cpus).refused(403, "beyond_quota");
    let _ = run(&server, &ada, &asked("128M")).status(200);
}
