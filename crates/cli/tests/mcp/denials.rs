//! What is blocked comes back as data, and nobody gets more than the user's policy by asking.

use std::net::TcpListener;

use serde_json::json;

use crate::client::Client;
use crate::scene;

#[test]
fn a_blocked_connection_is_a_denial_with_advice() {
    let scene = scene();
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/192.0.2.1/{port}");
    let mut client = Client::start(&scene);
    let run = client.call("sandbox_run", json!({ "command": ["bash", "-c", connect] }));
    assert_ne!(run["exit_code"], 0);
    let denial = &run["denials"][0];
    assert_eq!(denial["kind"], "network", "{run}");
    assert!(denial["what"].as_str().unwrap().contains("192.0.2.1"), "{denial}");
    assert!(denial["rule"].is_string() && denial["remedy"].is_string(), "{denial}");
    assert!(run["advice"].as_str().unwrap().contains("tell the user"), "{run}");
    // A closed system call too; and what is allowed has neither.
    let run = client.call("sandbox_run", json!({ "command": "unshare -U true" }));
    assert_eq!(run["denials"][0]["kind"], "syscall", "{run}");
    let run = client.call("sandbox_run", json!({ "command": "true" }));
    assert!(run.get("denials").is_none() && run.get("advice").is_none(), "{run}");
}

/// The sandbox's loopback is its own, where a server of the host's is not: a model would look for the mistake elsewhere.
#[test]
fn a_port_of_the_hosts_loopback_has_a_reason() {
    let scene = scene();
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let mut client = Client::start(&scene);
    let run = client.call("sandbox_run", json!({ "command": ["bash", "-c", connect] }));
    let denial = &run["denials"][0];
    assert_eq!((&denial["kind"], &denial["inferred"]), (&json!("network"), &json!(true)), "{run}");
    assert_eq!(denial["flag"], format!("--allow-local {port}"), "{run}");
    assert!(denial["remedy"].as_str().unwrap().contains("loopback is its own"), "{run}");
    drop(client);
    // Where the port is granted, and nobody listens, that is no doing of the sandbox.
    drop(outside);
    let mut granted = Client::named(&scene, ["--allow-local".to_owned(), port.to_string()], "test");
    let run = granted.call("sandbox_run", json!({ "command": ["bash", "-c", connect] }));
    assert!(!run.to_string().contains("loopback is its own"), "{run}");
}

#[test]
fn nobody_gets_more_than_the_user_allows() {
    let scene = scene();
    let flags =
        ["--allow-host", "a.example.org", "--read", scene.outside().to_str().unwrap()].map(str::to_owned);
    scene.write("ws/here", "");
    let mut client = Client::named(&scene, flags, "test");
    for wish in [
        json!({ "profile": "permissive" }),
        json!({ "network": { "enabled": true } }),
        json!({ "network": { "enabled": true, "allowed_domains": ["b.example.org"] } }),
        json!({ "network": { "enabled": true, "allowed_domains": ["a.example.org:22"] } }),
    ] {
        let mut arguments = wish.clone();
        arguments["command"] = json!(["true"]);
        let refused = client.refusal("sandbox_run", arguments);
        assert_eq!(refused["code"], "beyond_ceiling", "{wish}: {refused}");
        assert!(refused["hint"].as_str().unwrap().contains("ask the user"), "{refused}");
        assert_eq!(
            client.refusal("sandbox_session_create", wish.clone())["code"],
            "beyond_ceiling",
            "{wish}"
        );
    }
    // Less is always fine.
    for wish in [
        json!({ "profile": "restrictive" }),
        json!({ "network": { "enabled": false } }),
        json!({ "network": { "enabled": true, "allowed_domains": ["a.example.org"] } }),
    ] {
        let mut arguments = wish.clone();
        arguments["command"] = json!("echo fine; cd /workspace && ls here");
        let run = client.call("sandbox_run", arguments);
        assert_eq!(run["stdout"], "fine\nhere\n", "{wish}: {run}");
        assert!(run.get("session").is_none());
    }
}

#[test]
fn the_projects_file_holds_as_for_a_run() {
    let scene = scene();
    scene.write("ws/ringfence.toml", "[limits]\nopen_files = 99\n");
    let mut client = Client::start(&scene);
    assert_eq!(client.call("sandbox_run", json!({ "command": "ulimit -n" }))["stdout"], "99\n");
    let fresh = client.call("sandbox_run", json!({ "command": "ulimit -n", "profile": "restrictive" }));
    assert_eq!(fresh["stdout"], "99\n");
    // One that loosens is not believed before its user trusts it.
    drop(client);
    scene.write("ws/ringfence.toml", "profile = 'permissive'\n");
    let mut client = Client::silent(&scene, [] as [&str; 0]);
    assert_eq!(client.end().exit, 125);
}
