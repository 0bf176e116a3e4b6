//! What a role may do, and forty ways to get more: all refused.

use ringfence_testing::Server;
use serde_json::{Value, json};

use crate::{scene, server};

/// What a role may do, route by route.
#[test]
fn each_role_does_what_it_may_and_nothing_else() {
    let scene = scene();
    let server = server(&scene);
    let roles = ["viewer", "operator", "approver", "admin"];
    let keys: Vec<String> = roles.iter().map(|role| server.key(&format!("a-{role}"), role)).collect();
    let run = json!({ "command": ["true"] });
    let (none, user) = (Value::Null, json!({ "name": "new", "role": "boss" }));
    // Statuses for viewer, operator, approver, admin. A body that is wrong in itself shows that the role was fine.
    let table: [(&str, &str, &Value, [u16; 4]); 20] = [
        ("GET", "/v1/me", &none, [200, 200, 200, 200]),
        ("GET", "/v1/status", &none, [200, 200, 200, 200]),
        ("GET", "/v1/sandboxes", &none, [200, 200, 200, 200]),
        ("GET", "/v1/sandboxes?all=true", &none, [403, 403, 403, 200]),
        ("POST", "/v1/run", &run, [403, 200, 403, 200]),
        ("POST", "/v1/run/stream", &run, [403, 200, 403, 200]),
        ("POST", "/v1/sandboxes", &json!({ "profile": "none" }), [403, 400, 403, 400]),
        ("GET", "/v1/workspaces", &none, [200, 200, 200, 200]),
        ("DELETE", "/v1/workspaces/none", &none, [403, 404, 403, 404]),
        ("GET", "/v1/users", &none, [403, 403, 403, 200]),
        ("POST", "/v1/users", &user, [403, 403, 403, 400]),
        ("GET", "/v1/audit", &none, [200, 200, 200, 200]),
        ("GET", "/v1/audit/verify", &none, [403, 403, 403, 200]),
        ("GET", "/v1/metrics", &none, [403, 403, 403, 200]),
        ("GET", "/metrics", &none, [403, 403, 403, 200]),
        ("POST", "/run", &run, [403, 200, 403, 200]),
        ("POST", "/run/stream", &run, [403, 200, 403, 200]),
        ("GET", "/.well-known/agent-skills/index.json", &none, [200, 200, 200, 200]),
        ("GET", "/v1/sandboxes/none/ports/80/http/", &none, [403, 404, 403, 404]),
        ("POST", "/mcp", &none, [406, 406, 406, 406]),
    ];
    for (method, path, body, expected) in table {
        for ((key, role), status) in keys.iter().zip(roles).zip(expected) {
            let reply = server.ask(Some(key), method, path, Some(body).filter(|body| !body.is_null()));
            assert_eq!(
                reply.status,
                status,
                "{role} {method} {path}: {}",
                String::from_utf8_lossy(&reply.body)
            );
        }
    }
}

/// Of those below, what nobody may have, as it says what no policy and no request can.
const MALFORMED: [&str; 2] = ["a provider by path", "a provider beside the policy"];

/// Requests of an operator that ask for more than the shipped ceiling.
fn beyond() -> Vec<(&'static str, Value)> {
    let policy = |policy: Value| json!({ "policy": policy });
    vec![
        ("permissive", json!({ "profile": "permissive" })),
        ("permissive in a policy", policy(json!({ "profile": "permissive" }))),
        ("the host's files", policy(json!({ "filesystem": { "host": "all" } }))),
        ("the server's toolchains", policy(json!({ "filesystem": { "toolchains": true } }))),
        ("a path of the host", policy(json!({ "filesystem": { "read": ["/srv"] } }))),
        ("the root directory", policy(json!({ "filesystem": { "read": ["/"] } }))),
        ("a path to write", policy(json!({ "filesystem": { "write": ["/var/tmp"] } }))),
        ("a workspace by path", policy(json!({ "filesystem": { "workspace": "/etc" } }))),
        ("the current directory", policy(json!({ "filesystem": { "workspace": "current" } }))),
        ("protected names", policy(json!({ "filesystem": { "unprotect": [".git/hooks"] } }))),
        ("a larger /tmp", policy(json!({ "filesystem": { "tmp": "1T" } }))),
        ("a waiver of the network", policy(json!({ "waive": ["network"] }))),
        ("a waiver of system calls", policy(json!({ "waive": ["syscalls"] }))),
        ("another provider", policy(json!({ "provider": "bwrap" }))),
        ("a provider of containers", policy(json!({ "provider": "docker" }))),
        ("a runtime's provider", policy(json!({ "provider": "oci" }))),
        ("a provider by path", policy(json!({ "provider": "/usr/bin/true" }))),
        ("a provider beside the policy", json!({ "provider": "bwrap" })),
        ("an image", policy(json!({ "image": "debian" }))),
        ("an image beside the policy", json!({ "image": "debian" })),
        ("a runtime", policy(json!({ "runtime": "runc" }))),
        ("a host", policy(json!({ "network": { "allow": ["example.org"] } }))),
        ("a host by domains", json!({ "network": { "enabled": true, "allowed_domains": ["example.org"] } })),
        ("the open network", json!({ "network": { "enabled": true } })),
        ("the open network in a policy", policy(json!({ "network": { "mode": "open" } }))),
        ("the server's loopback", policy(json!({ "network": { "local": [7070] } }))),
        ("private addresses", policy(json!({ "network": { "private": ["10.0.0.0/8"] } }))),
        ("an address", policy(json!({ "network": { "allow": ["192.0.2.10:22"] } }))),
        ("no server name", policy(json!({ "network": { "no_sni": ["example.org"] } }))),
        (
            "a group of hosts",
            policy(json!({ "network": { "groups": { "x": ["example.org"] }, "allow": ["@x"] } })),
        ),
        (
            "a secret of the server's environment",
            policy(
                json!({ "network": { "secrets": [{ "name": "A", "from": "env:HOME", "hosts": ["example.org"] }] } }),
            ),
        ),
        (
            "a secret from a file",
            policy(
                json!({ "network": { "secrets": [{ "name": "A", "from": "file:/etc/shadow", "hosts": ["example.org"] }] } }),
            ),
        ),
        (
            "a secret by a command on the host",
            policy(
                json!({ "network": { "secrets": [{ "name": "A", "from": "cmd:id", "hosts": ["example.org"] }] } }),
            ),
        ),
        (
            "a secret of the store",
            policy(
                json!({ "network": { "secrets": [{ "name": "A", "from": "store:A", "hosts": ["example.org"] }] } }),
            ),
        ),
        ("more memory", policy(json!({ "limits": { "memory": "none" } }))),
        ("more processes", policy(json!({ "limits": { "processes": "none" } }))),
        ("more disk", policy(json!({ "limits": { "disk": "none" } }))),
        ("more time", json!({ "timeout_ms": 86_400_000 })),
        ("all the time", policy(json!({ "limits": { "wall_time": "none" } }))),
        ("a system call", policy(json!({ "syscalls": { "allow": ["ptrace"] } }))),
        ("32-bit calls", policy(json!({ "syscalls": { "compat": true } }))),
        ("the server's variables", policy(json!({ "environment": { "pass": ["AWS_SECRET_ACCESS_KEY"] } }))),
        ("all the server's variables", policy(json!({ "environment": { "pass": ["A*"] } }))),
    ]
}

#[test]
fn what_goes_beyond_the_ceiling_is_refused_by_name() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("eve", "operator");
    let mut others = Vec::new();
    for (what, mut body) in beyond() {
        body["command"] = json!(["true"]);
        // The caller's own limit of time is for a run alone.
        let in_sandbox = body.get("timeout_ms").is_none().then(|| {
            let mut body = body.clone();
            body.as_object_mut().expect("an object").remove("command");
            body
        });
        let asked = [("/v1/run", Some(body)), ("/v1/sandboxes", in_sandbox)];
        for (path, body) in asked.into_iter().filter_map(|(path, body)| Some((path, body?))) {
            let reply = server.ask(Some(&key), "POST", path, Some(&body));
            let said = format!("{what} {path}: {}", String::from_utf8_lossy(&reply.body));
            let expected = match MALFORMED.contains(&what) {
                true => 400,
                false => 403,
            };
            if reply.status != expected {
                others.push(said);
            } else if expected == 403 {
                reply.refused(403, "beyond_ceiling");
            }
        }
    }
    assert!(others.is_empty(), "{others:#?}");
    let left = server.ask(Some(&key), "GET", "/v1/sandboxes", None).status(200).json();
    assert_eq!(left["sandboxes"], json!([]));
    let tried = server.ask(Some(&key), "GET", "/v1/audit?kind=run&limit=1000", None).status(200).json();
    let denied =
        tried["rows"].as_array().into_iter().flatten().filter(|row| row["decision"] == "deny").count();
    assert!(denied > 25, "what was tried is in the audit: {denied}");
}

/// Somebody else's things, by their ids.
#[test]
fn what_is_somebody_elses_is_not_there() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
    let made = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    let id = made["id"].as_str().expect("an id");
    let run = json!({ "command": ["true"] });
    let own: [(&str, &str, Option<Value>); 16] = [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/exec", Some(run.clone())),
        ("POST", "/exec/stream", Some(run.clone())),
        ("POST", "/processes", Some(run)),
        ("GET", "/processes", None),
        ("GET", "/processes/1/logs", None),
        ("POST", "/processes/1/stdin", Some(json!({ "text": "" }))),
        ("POST", "/processes/1/signal", Some(json!({ "signal": 9 }))),
        ("GET", "/files?path=/etc/passwd", None),
        ("GET", "/files/list?path=.", None),
        ("DELETE", "/files?path=x", None),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("GET", "/stats", None),
        ("POST", "/extend", Some(json!({ "ttl_ms": 1 }))),
    ];
    for (method, rest, body) in own {
        let path = format!("/v1/sandboxes/{id}{rest}");
        server.ask(Some(&eve), method, &path, body.as_ref()).refused(404, "not_found");
    }
    for name in ["..", "%2e%2e", "x%2fy", "../ada", "%00", "."] {
        let reply = server.ask(Some(&eve), "GET", &format!("/v1/sandboxes/{name}/stats"), None);
        assert!(matches!(reply.status, 400 | 404), "{name}: {}", reply.status);
    }
    for workspace in ["ada/default", "../ada/default", "..", "a/b", "", "ada\\default", "%2e%2e", "a\0"] {
        let body = json!({ "command": ["true"], "workspace": workspace });
        server.ask(Some(&eve), "POST", "/v1/run", Some(&body)).refused(400, "bad_request");
    }
    server.ask(Some(&eve), "GET", "/v1/audit?user=ada", None).refused(403, "forbidden");
    let rows = server.ask(Some(&eve), "GET", "/v1/audit", None).status(200).json();
    assert!(rows["rows"].as_array().into_iter().flatten().all(|row| row["user"] == "eve"), "{rows}");
    let _ = server.ask(Some(&ada), "DELETE", &format!("/v1/sandboxes/{id}"), None).status(204);
}

/// Files with a request stay in the workspace, whatever a command has put there before.
#[test]
fn files_of_a_request_stay_in_the_workspace() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("eve", "operator");
    let target = scene.path("outside");
    let links = format!(
        "ln -s {} link; ln -s /etc etc; ln -s {}/made name; mkfifo pipe",
        target.display(),
        target.display()
    );
    let body = json!({ "command": ["sh", "-c", links] });
    assert_eq!(server.ask(Some(&key), "POST", "/v1/run", Some(&body)).status(200).json()["exit_code"], 0);
    for path in ["../x", "/tmp/x", "link/x", "etc/x", "name", "pipe", "a/../../x", "", ".", "a\0b"] {
        let body = json!({ "command": ["true"], "files": [{ "path": path, "content": "x" }] });
        server.ask(Some(&key), "POST", "/v1/run", Some(&body)).refused(400, "bad_request");
    }
    let left: Vec<_> =
        std::fs::read_dir(&target).expect("read").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["secret"]);
}

/// Nothing of the server itself can be seen from inside.
#[test]
fn the_servers_own_files_are_not_visible() {
    let scene = scene();
    scene.write("home/.ssh/id_rsa", &scene.token);
    scene.write("home/notes", &scene.token);
    let server = server(&scene);
    let (ada, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
    let looked = |server: &Server<'_>, key: &str, path: String| {
        let script = format!("cat {path} 2>/dev/null; ls -a {path} 2>/dev/null; true");
        let body = json!({ "command": ["sh", "-c", script] });
        server.ask(Some(key), "POST", "/v1/run", Some(&body)).status(200).json()["stdout"].to_string()
    };
    for key in [&ada, &admin] {
        for path in ["home/.ssh/id_rsa", "home/notes", "state/server.db", "outside/secret"] {
            let seen = looked(&server, key, scene.path(path).display().to_string());
            assert!(!seen.contains(&scene.token) && !seen.contains("server.db"), "{path}: {seen}");
        }
        let seen = looked(&server, key, format!("{}/", scene.state().display()));
        assert!(!seen.contains("workspaces") && !seen.contains("audit"), "{seen}");
        let environment = looked(&server, key, "/proc/1/environ /proc/self/environ".into());
        assert!(!environment.contains("RINGFENCE_STATE_DIR"), "{environment}");
    }
}

/// Nor is it told where they are, or whose account serves.
#[test]
fn the_servers_surroundings_are_nobodys_to_know() {
    let scene = scene();
    let elsewhere = scene.path("programs").display().to_string();
    let path = format!("{elsewhere}:/usr/bin:/bin");
    let variables =
        [("PATH", path.as_str()), ("GOPATH", elsewhere.as_str()), ("CARGO_HOME", elsewhere.as_str())];
    let server = Server::start_with(&scene, [] as [&str; 0], &variables);
    let look =
        json!(["sh", "-c", "env; cat /etc/passwd; echo; ls -d $HOME && touch $HOME/x && echo home is there"]);
    for (user, role) in [("ada", "operator"), ("root", "admin")] {
        let key = server.key(user, role);
        let at = crate::sandbox(&server, &key, &json!({}));
        for route in ["/v1/run".to_owned(), format!("{at}/exec")] {
            let body = json!({ "command": look });
            let told = server.ask(Some(&key), "POST", &route, Some(&body)).status(200).json();
            let told = told["stdout"].as_str().expect("text");
            let home = scene.path("home").display().to_string();
            assert!(!told.contains(&home) && !told.contains(&elsewhere), "{route}: {told}");
            assert!(
                told.contains("HOME=/home/sandbox\n") && told.contains("home is there"),
                "{route}: {told}"
            );
            assert!(told.contains("USER=sandbox\n"), "{route}: {told}");
        }
        let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
    }
}

#[test]
fn quotas_are_told_with_what_to_wait_for() {
    let scene = scene();
    scene.write(
        "server.toml",
        "[roles.operator.quotas]\nsandboxes = 1\ncommands = 1\nrequests_per_minute = 40\n",
    );
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let key = server.key("ada", "operator");
    let made = server.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    let second = server.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).refused(429, "quota");
    assert!(second.header("retry-after").is_some());
    let mut events = server.events(
        &key,
        "/v1/run/stream",
        None,
        Some(&json!({ "command": ["sleep", "600"], "timeout_ms": 500_000 })),
    );
    while events.next_event().expect("an event").name != "start" {}
    server.ask(Some(&key), "POST", "/v1/run", Some(&json!({ "command": ["true"] }))).refused(429, "too_many");
    drop(events);
    let _ = server
        .ask(Some(&key), "DELETE", &format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id")), None)
        .status(204);
    let refused =
        (0..60).map(|_| server.ask(Some(&key), "GET", "/v1/me", None)).find(|reply| reply.status == 429);
    let refused = refused.expect("the rate is held").refused(429, "too_many");
    assert!(
        refused.header("retry-after").and_then(|text| text.parse::<u64>().ok()).is_some_and(|wait| wait >= 1)
    );
}

/// What a user's sandboxes and runs may use together, and how long they may take.
#[test]
fn memory_processors_and_time_have_quotas_too() {
    let scene = scene();
    scene.write(
        "server.toml",
        "[roles.operator.quotas]\nmemory = '600M'\n[roles.admin.quotas]\nrun_time = '1s'\n[server]\nmemory = '700M'\n",
    );
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let (ada, bob) = (server.key("ada", "operator"), server.key("bob", "operator"));
    let small = json!({ "policy": { "limits": { "memory": "256M" } } });
    let mut run = small.clone();
    run["command"] = json!(["true"]);
    let (first, second) = (crate::sandbox(&server, &ada, &small), crate::sandbox(&server, &ada, &small));
    let told = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&small)).refused(429, "quota").json();
    let message = told["error"]["message"].as_str().expect("a message");
    assert!(message.contains("512 of 600 MiB") && message.contains("needs 256"), "{message}");
    server.ask(Some(&ada), "POST", "/v1/run", Some(&run)).refused(429, "quota");
    // Bob has room, and the server has none.
    let told = server.ask(Some(&bob), "POST", "/v1/run", Some(&run)).refused(429, "quota").json();
    assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("the server's")), "{told}");
    let _ = server.ask(Some(&ada), "DELETE", &second, None).status(204);
    for key in [&ada, &bob] {
        let _ = server.ask(Some(key), "POST", "/v1/run", Some(&run)).status(200);
    }
    let _ = server.ask(Some(&ada), "DELETE", &first, None).status(204);
    let admin = server.key("root", "admin");
    let sleep = json!({ "command": ["sleep", "1.2"], "policy": { "limits": { "memory": "64M" } } });
    let _ = server.ask(Some(&admin), "POST", "/v1/run", Some(&sleep)).status(200);
    let refused = server.ask(Some(&admin), "POST", "/v1/run", Some(&sleep)).refused(429, "too_many");
    let wait = refused.header("retry-after").and_then(|text| text.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| wait > 3000), "{wait:?}");
}

/// Processors are counted as memory is: what is in use is waited for, and what is more than all of it never fits.
#[test]
fn processors_that_are_in_use_are_waited_for() {
    let scene = scene();
    scene.write("server.toml", "[roles.operator.quotas]\ncpus = 1\n[server]\ncpus = 2\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let (ada, bob, eve) =
        (server.key("ada", "operator"), server.key("bob", "operator"), server.key("eve", "operator"));
    let wanted = json!({ "policy": { "limits": { "cpus": 0.75 } } });
    let one = crate::sandbox(&server, &ada, &wanted);
    let told = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&wanted)).refused(429, "quota").json();
    let message = told["error"]["message"].as_str().expect("a message");
    assert!(message.contains("0.75 of 1 processors") && message.contains("your quota"), "{message}");
    let other = crate::sandbox(&server, &bob, &wanted);
    let told = server.ask(Some(&eve), "POST", "/v1/sandboxes", Some(&wanted)).refused(429, "quota").json();
    assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("the server's")), "{told}");
    for (key, path) in [(&ada, one), (&bob, other)] {
        let _ = server.ask(Some(key), "DELETE", &path, None).status(204);
    }
    let _ = server.ask(Some(&eve), "DELETE", &crate::sandbox(&server, &eve, &wanted), None).status(204);
}

#[test]
fn nobody_asks_for_all_processors() {
    let scene = scene();
    let server = server(&scene);
    for role in ["operator", "admin"] {
        let key = server.key(role, role);
        let many = json!({ "command": ["true"], "policy": { "limits": { "cpus": 4096.0 } } });
        server.ask(Some(&key), "POST", "/v1/run", Some(&many)).refused(403, "beyond_ceiling");
        let two = json!({ "command": ["true"], "policy": { "limits": { "cpus": 2.0 } } });
        let _ = server.ask(Some(&key), "POST", "/v1/run", Some(&two)).status(200);
        let none = json!({ "command": ["true"] });
        let _ = server.ask(Some(&key), "POST", "/v1/run", Some(&none)).status(200);
    }
}

/// What all users may do together is bounded too.
#[test]
fn time_and_requests_have_quotas_of_the_server() {
    let scene = scene();
    scene.write("server.toml", "[server]\nrun_time = '1s'\nrequests_per_minute = 50\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let (ada, bob) = (server.key("ada", "operator"), server.key("bob", "operator"));
    let sleep = json!({ "command": ["sleep", "1.2"] });
    let _ = server.ask(Some(&ada), "POST", "/v1/run", Some(&sleep)).status(200);
    let told = server.ask(Some(&bob), "POST", "/v1/run", Some(&sleep)).refused(429, "too_many");
    assert!(
        told.header("retry-after").and_then(|text| text.parse::<u64>().ok()).is_some_and(|wait| wait > 60)
    );
    let text = told.json();
    assert!(text["error"]["message"].as_str().is_some_and(|text| text.contains("the server's")), "{text}");
    let keys = [&ada, &bob];
    let asked = (0..120).map(|at| server.ask(Some(keys[at % 2]), "GET", "/v1/me", None));
    let refused = asked.into_iter().find(|reply| reply.status == 429).expect("the rate is held");
    let told = refused.refused(429, "too_many").json();
    assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("all users")), "{told}");
}

#[test]
fn wrong_keys_are_counted_and_lock_nobody_out() {
    let scene = scene();
    scene.write("server.toml", "[server]\nunknown_keys_per_minute = 20\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let key = server.key("ada", "operator");
    let _ = server.ask(Some(&key), "GET", "/v1/me", None).status(200);
    let wrong = |at: usize| format!("rf_{at:064}");
    let asked = (0..60).map(|at| server.ask(Some(&wrong(at)), "GET", "/v1/me", None).status);
    let (mut refused, mut limited) = (0, 0);
    for status in asked {
        match status {
            401 => refused += 1,
            429 => limited += 1,
            other => panic!("{other}"),
        }
    }
    assert!(refused >= 15 && limited >= 20, "{refused} refused, {limited} limited");
    let reply = server.ask(Some("rf_wrong"), "GET", "/v1/me", None).refused(429, "too_many");
    assert!(reply.header("retry-after").is_some());
    let _ = server.ask(Some(&key), "GET", "/v1/me", None).status(200);
}

#[test]
fn an_admin_sees_the_workspaces_of_all_and_nobody_else_does() {
    let scene = scene();
    let server = server(&scene);
    let (ada, bob, root) =
        (server.key("ada", "operator"), server.key("bob", "operator"), server.key("root", "admin"));
    let run = json!({ "command": ["sh", "-c", "echo 12345 > f"], "workspace": "mine" });
    let _ = server.ask(Some(&ada), "POST", "/v1/run", Some(&run)).status(200);
    let at = |rest: &str| format!("/v1/workspaces{rest}?user=ada");
    let listed = server.ask(Some(&root), "GET", &at(""), None).status(200).json();
    assert_eq!(listed["workspaces"][0]["name"], "mine", "{listed}");
    let one = server.ask(Some(&root), "GET", &at("/mine"), None).status(200).json();
    assert_eq!((&one["name"], &one["bytes"]), (&json!("mine"), &listed["workspaces"][0]["bytes"]));
    let _ = server.ask(Some(&root), "GET", &at("/mine/usage"), None).status(200);
    // Without saying whose, an admin's own are meant.
    server.ask(Some(&root), "GET", "/v1/workspaces/mine", None).refused(404, "not_found");
    for (method, rest) in [("GET", ""), ("GET", "/mine"), ("GET", "/mine/usage"), ("DELETE", "/mine")] {
        server.ask(Some(&bob), method, &at(rest), None).refused(403, "forbidden");
        // One's own name is nobody else's.
        assert_ne!(server.ask(Some(&ada), "GET", &at(rest), None).status, 403);
    }
    for name in ["..%2Fada%2Fmine", "%2E%2E", "none"] {
        server.ask(Some(&root), "DELETE", &at(&format!("/{name}")), None).refused(404, "not_found");
    }
    // It is somebody else's: a second person has to agree.
    let waits = server.ask(Some(&root), "DELETE", &at("/mine"), None).status(202).json();
    assert_eq!((&waits["level"], &waits["request"]["user"]), (&json!("high"), &json!("ada")), "{waits}");
    let _ = server.ask(Some(&ada), "DELETE", "/v1/workspaces/mine", None).status(204);
}
