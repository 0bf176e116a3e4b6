//! Secrets over HTTP: set, named, used by name, and never told.

use ringfence_testing::{Server, Test};
use serde_json::{Value, json};

use crate::{sandbox, scene, server};

#[test]
fn a_planted_secret_is_told_nowhere() {
    let scene = scene();
    scene.write(
        "server.toml",
        "[roles.operator.ceiling]\nprofile = 'moderate'\n[roles.operator.ceiling.filesystem]\ntoolchains = false\n\
         [roles.operator.ceiling.network]\nallow = ['api.example.com']\n\
         [[actions.rules]]\nthen = 'allow'\nkinds = ['run', 'sandbox.create', 'skill.run']\n",
    );
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config, "--json-logs"]);
    let (ada, eve, admin) =
        (server.key("ada", "operator"), server.key("eve", "operator"), server.key("root", "admin"));
    let viewer = server.key("ada", "viewer");
    let planted = "planted-value-5c41f0";
    let mut told = Vec::new();
    let mut ask = |key: &str, method: &str, path: &str, body: Value| {
        let reply = server.ask(Some(key), method, path, Some(&body).filter(|body| !body.is_null()));
        told.push(String::from_utf8_lossy(&reply.body).into_owned());
        reply
    };
    let value = json!({ "value": planted });
    let _ = ask(&ada, "PUT", "/v1/secrets/API_TOKEN", value.clone()).status(204);
    let _ = ask(&ada, "PUT", "/v1/secrets/OTHER", json!({ "value": "second" })).status(204);
    ask(&viewer, "PUT", "/v1/secrets/API_TOKEN", value.clone()).refused(403, "forbidden");
    ask(&viewer, "DELETE", "/v1/secrets/API_TOKEN", Value::Null).refused(403, "forbidden");
    for (name, body) in [
        ("a%20b", value.clone()),
        ("1X", value.clone()),
        ("..%2fx", value.clone()),
        ("EMPTY", json!({ "value": "" })),
        (planted, value.clone()),
    ] {
        let reply = ask(&ada, "PUT", &format!("/v1/secrets/{name}"), body);
        assert_eq!(reply.status, 400, "{name}: {}", String::from_utf8_lossy(&reply.body));
    }
    ask(&ada, "PUT", "/v1/secrets/X", json!({ "value": "x", "more": 1 })).refused(400, "bad_body");
    assert_eq!(ask(&ada, "GET", "/v1/secrets", Value::Null).json()["secrets"], json!(["API_TOKEN", "OTHER"]));
    let page = ask(&ada, "GET", "/v1/secrets?limit=1", Value::Null).json();
    assert_eq!((&page["secrets"], &page["next"]), (&json!(["API_TOKEN"]), &json!("API_TOKEN")));
    assert_eq!(ask(&eve, "GET", "/v1/secrets", Value::Null).json()["secrets"], json!([]));
    ask(&eve, "DELETE", "/v1/secrets/API_TOKEN", Value::Null).refused(404, "not_found");
    // Inside there is a placeholder; somebody else's is not theirs to use, and a host beyond the ceiling gets nothing.
    let network = json!({ "enabled": true, "allowed_domains": ["api.example.com"] });
    let run = |hosts: Value, network: &Value| {
        json!({
            "command": ["sh", "-c", "echo \"[$API_TOKEN]\"; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true"],
            "network": network, "secrets": [{ "name": "API_TOKEN", "hosts": hosts }],
        })
    };
    let granted = run(json!(["api.example.com"]), &network);
    let done = ask(&ada, "POST", "/v1/run", granted.clone()).status(200).json();
    let stdout = done["stdout"].as_str().unwrap_or_default();
    assert!(stdout.starts_with('[') && !stdout.starts_with("[]") && !stdout.contains(planted), "{done}");
    let other = ask(&eve, "POST", "/v1/run", granted);
    assert_ne!(other.status, 200, "{}", String::from_utf8_lossy(&other.body));
    for (hosts, network) in [
        (json!(["evil.example"]), network.clone()),
        (json!(["evil.example"]), json!({ "enabled": true, "allowed_domains": ["evil.example"] })),
        (json!([]), network.clone()),
        (json!(["api.example.com"]), json!({ "enabled": false })),
    ] {
        let reply = ask(&ada, "POST", "/v1/run", run(hosts.clone(), &network));
        assert!(
            matches!(reply.status, 400 | 403),
            "{hosts} {network}: {}",
            String::from_utf8_lossy(&reply.body)
        );
    }
    let body =
        json!({ "network": network, "secrets": [{ "name": "API_TOKEN", "hosts": ["api.example.com"] }] });
    let at = sandbox(&server, &ada, &body);
    let done = ask(&ada, "POST", &format!("{at}/exec"), json!({ "command": ["sh", "-c", "env"] }))
        .status(200)
        .json();
    assert!(done["stdout"].as_str().is_some_and(|text| text.contains("API_TOKEN=")), "{done}");
    for path in ["", "/stats", "/processes"] {
        let _ = ask(&ada, "GET", &format!("{at}{path}"), Value::Null).status(200);
    }
    let _ = ask(&ada, "DELETE", &at, Value::Null).status(204);
    for (key, path) in [
        (&ada, "/v1/audit?limit=1000"),
        (&admin, "/v1/audit/export"),
        (&admin, "/v1/metrics"),
        (&ada, "/v1/sandboxes"),
    ] {
        let _ = ask(key, "GET", path, Value::Null).status(200);
    }
    let _ = ask(&ada, "DELETE", "/v1/secrets/API_TOKEN", Value::Null).status(204);
    ask(&ada, "DELETE", "/v1/secrets/API_TOKEN", Value::Null).refused(404, "not_found");
    let outcome = server.stop();
    told.push(outcome.describe());
    for text in &told {
        assert!(!text.contains(planted), "it was told: {text}");
    }
    // Nor does the disk have it in any file of the server's.
    let found =
        std::process::Command::new("grep").args(["-rlF", planted]).arg(scene.state()).output().expect("grep");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let listed = Test::in_scene(&scene).verb(["secret", "ls"]).call();
    assert!(!listed.output.contains("OTHER"), "users' secrets are apart from the owner's own");
}

/// What a sandbox tells does not depend on what listens on the server's loopback.
#[test]
fn nothing_tells_what_listens_on_the_servers_loopback() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("eve", "operator");
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let told = |port: u16| {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let body = json!({ "command": ["bash", "-c", script], "trace": true });
        let done = server.ask(Some(&key), "POST", "/v1/run", Some(&body)).status(200).json();
        let text = json!([done["exit_code"], done["denials"], done["stderr"], done["network"]]).to_string();
        text.replace(&port.to_string(), "PORT")
    };
    assert_eq!(told(server.address().port()), told(closed));
}
