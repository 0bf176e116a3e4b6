//! What no sandbox sees, however much its ceiling and its request show: the server's home, state, configuration and keys.

use ringfence_testing::Server;
use serde_json::{Value, json};

use crate::issuer::SECRET;
use crate::scene;
use crate::tls::{certificate, curl};

/// An answer over TLS, as text.
fn told(server: &Server<'_>, key: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    let url = format!("https://localhost:{}{path}", server.address().port());
    let key = format!("Authorization: Bearer {key}");
    let kind = "Content-Type: application/json";
    curl(&["-k", "-X", method, "-H", &key, "-H", kind, "-d", &body.to_string(), &url])
}

fn ask(server: &Server<'_>, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = told(server, key, method, path, body);
    (status, serde_json::from_str(&text).unwrap_or_default())
}

#[test]
fn the_widest_profile_shows_nothing_of_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let scene = scene();
    let private = |path: &str| {
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(scene.path(path), mode).expect("a mode");
    };
    scene.write("home/notes", &scene.token);
    scene.write("home/.config/ringfence/notes", &scene.token);
    scene.write("keys/jwt.secret", SECRET);
    scene.write("outside/private", &scene.token);
    scene.mkdir("elsewhere");
    let (root, anchors) = (scene.root().display().to_string(), scene.path("elsewhere"));
    // Where the state is reached by another name too.
    scene.symlink(&scene.state().display().to_string(), "link");
    let ceiling = |role: &str| {
        format!(
            "[roles.{role}.ceiling]\nprofile = 'permissive'\n[roles.{role}.ceiling.filesystem]\nhost = 'all'\nread = ['{root}']\n"
        )
    };
    let config = format!(
        "{}{}[jwt]\nissuer = 'https://id.example'\naudience = 'ringfence'\nsecret_file = '{root}/keys/jwt.secret'\n\
         [audit]\nanchors = ['{}/audit.anchor']\n[[actions.rules]]\nthen = 'allow'\n",
        ceiling("operator"),
        ceiling("admin"),
        anchors.display(),
    );
    scene.write("server.toml", &config);
    let mut flags = certificate(&["localhost"]).place_in(&scene, "keys").to_vec();
    flags.extend(["--config".into(), format!("{root}/server.toml")]);
    for path in ["keys/jwt.secret", "outside/private"] {
        private(path);
    }
    let server = Server::start(&scene, flags);
    // Which file of the server's, and what would give it away.
    let hidden = [
        ("home", "notes"),
        ("home/notes", scene.token.as_str()),
        ("home/.config/ringfence/notes", &scene.token),
        ("state", "server.db"),
        ("state/server.db", "SQLite"),
        ("link/server.db", "SQLite"),
        ("server.toml", "id.example"),
        ("keys", "pem"),
        ("keys/key.pem", "PRIVATE KEY"),
        ("keys/chain.pem", "CERTIFICATE"),
        ("keys/jwt.secret", SECRET),
        ("elsewhere", "audit.anchor"),
        ("elsewhere/audit.anchor", "\"seq\""),
    ];
    assert!(anchors.join("audit.anchor").exists(), "there is something to see");
    // The test means something: what is beside them is seen, and what only their owner may read too.
    let beside = ["outside/secret", "outside/private"].map(|path| (path, scene.token.as_str()));
    let look = "for path; do echo \"== $path\"; cat $path; ls -aR $path; done 2>/dev/null; true";
    let mut command = vec!["sh".to_owned(), "-c".into(), look.into(), "sh".into()];
    command.extend(hidden.iter().chain(&beside).map(|(path, _)| format!("{root}/{path}")));
    for role in ["operator", "admin"] {
        let key = server.key(&format!("a-{role}"), role);
        let mut widest =
            json!({ "profile": "permissive", "policy": { "filesystem": { "host": "all", "read": [root] } } });
        let (status, made) = ask(&server, &key, "POST", "/v1/sandboxes", &widest);
        assert_eq!(status, 201, "{made}");
        let at = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
        widest["command"] = json!(command);
        for (route, body) in
            [("/v1/run".to_owned(), &widest), (format!("{at}/exec"), &json!({ "command": command }))]
        {
            let (status, told) = ask(&server, &key, "POST", &route, body);
            assert_eq!(status, 200, "{told}");
            let all = told["stdout"].as_str().expect("text");
            let seen = |path: &str| {
                let whole = format!("{root}/{path}");
                let parts = all.split("== ").find_map(|part| part.strip_prefix(&format!("{whole}\n")));
                parts.expect("what was seen there").replace(&whole, "")
            };
            for (path, sign) in beside {
                assert!(seen(path).contains(sign), "{role} {route} {path}: {all}");
            }
            for (path, sign) in hidden {
                let seen = seen(path);
                assert!(!seen.contains(sign), "{role} {route} {path}: {seen}");
            }
        }
        // Nor by the route that reads files.
        for (path, sign) in hidden {
            let url = format!("{at}/files?path={root}/{path}");
            let (_, text) = told(&server, &key, "GET", &url, &Value::Null);
            assert!(!text.replace(path, "").contains(sign), "{role} {path}: {text}");
        }
        // To name one of them is to be refused.
        for path in ["home", "home/notes", "state", "keys", "keys/key.pem", "elsewhere", "server.toml"] {
            let read = json!([format!("{root}/{path}")]);
            let body = json!({ "command": ["true"], "policy": { "filesystem": { "read": read } } });
            let (status, told) = ask(&server, &key, "POST", "/v1/run", &body);
            assert!((400..500).contains(&status), "{role} {path}: {status} {told}");
        }
        // A key that is renewed takes the place of the one that was hidden: it is not seen where that was.
        let _ = certificate(&["localhost"]).place_in(&scene, "keys");
        scene.write("keys/jwt.new", SECRET);
        private("keys/jwt.new");
        std::fs::rename(scene.path("keys/jwt.new"), scene.path("keys/jwt.secret")).expect("rename");
        let look = format!("ls -A {root}/keys; cat {root}/keys/*");
        let body = json!({ "command": ["sh", "-c", look] });
        let (status, told) = ask(&server, &key, "POST", &format!("{at}/exec"), &body);
        assert_eq!((status, told["stdout"].as_str()), (200, Some("")), "{told}");
        assert_eq!(ask(&server, &key, "DELETE", &at, &Value::Null).0, 204);
    }
}
