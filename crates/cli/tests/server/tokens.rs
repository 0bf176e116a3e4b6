//! Tokens of an issuer, through a real server: believed as far as the configuration goes, and no further.

use std::os::unix::fs::PermissionsExt;

use ringfence_testing::{Scene, Server, Test, eventually};
use rustix::process::Signal;
use serde_json::json;

use crate::issuer::{KeyServer, SECRET, SigningKey, by_secret, claims, key_set, unsigned};
use crate::{scene, tls};

const BASE: &str = "[jwt]\nissuer = 'https://id.example'\naudience = 'ringfence'\n";

fn with_secret(scene: &Scene, more: &str) -> String {
    scene.write("jwt.secret", SECRET);
    let secret = scene.path("jwt.secret");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("a mode");
    scene.write("server.toml", &format!("{BASE}secret_file = '{}'\n{more}", secret.display()));
    scene.path("server.toml").display().to_string()
}

#[test]
fn a_token_is_a_user_of_its_own_kind() {
    let scene = scene();
    let config = with_secret(&scene, "[jwt.users]\n'boss' = 'ada'\n'ghost' = 'nobody'\n");
    let server = Server::start(&scene, ["--config", &config]);
    let (ada, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
    let token = |subject: &str, role: &str| by_secret(SECRET, &claims(subject, role));
    let me = |token: &str| server.ask(Some(token), "GET", "/v1/me", None).status(200).json();
    // The same name as a local user is another user.
    let eve = token("ada", "operator");
    let name = me(&eve)["user"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("jwt.ada."), "{name}");
    let make = json!({});
    let mine = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&make)).status(201).json();
    let path = format!("/v1/sandboxes/{}", mine["id"].as_str().expect("an id"));
    server.ask(Some(&eve), "GET", &path, None).refused(404, "not_found");
    let run = json!({ "command": ["sh", "-c", "cat f; echo theirs > f"] });
    let ran = server.ask(Some(&eve), "POST", "/v1/run", Some(&run)).status(200).json();
    assert_eq!((&ran["exit_code"], &ran["stdout"]), (&json!(0), &json!("")));
    let look = json!({ "command": ["sh", "-c", "cat f"] });
    let ran = server.ask(Some(&ada), "POST", "/v1/run", Some(&look)).status(200).json();
    assert_eq!(ran["stdout"], "", "their workspace is not ours");
    // Mapped: the local user themselves, and still no admin.
    assert_eq!(me(&token("boss", "admin")), json!({ "user": "ada", "role": "operator" }));
    let _ = server.ask(Some(&token("boss", "operator")), "GET", &path, None).status(200);
    assert_eq!(me(&token("boss", "viewer"))["role"], "viewer");
    server.ask(Some(&token("ghost", "operator")), "GET", "/v1/me", None).refused(401, "wrong_key");
    // Never above max_role, and no key that outlives the token.
    assert_eq!(me(&token("eve", "admin"))["role"], "operator");
    server.ask(Some(&token("eve", "admin")), "GET", "/v1/users", None).refused(403, "forbidden");
    server.ask(Some(&eve), "POST", "/v1/keys", Some(&make)).refused(403, "forbidden");
    // An admin has the last word: nobody local can take the name, and who is out is out.
    let take = json!({ "name": name, "role": "operator" });
    server.ask(Some(&admin), "POST", "/v1/users", Some(&take)).refused(400, "bad_request");
    let cli = Test::in_scene(&scene).verb(["key", "create", "--user", &name]).call();
    assert_ne!(cli.exit, 0);
    let user = format!("/v1/users/{name}");
    let lower = json!({ "role": "viewer" });
    let _ = server.ask(Some(&admin), "PATCH", &user, Some(&lower)).status(200);
    server.ask(Some(&eve), "POST", "/v1/run", Some(&run)).refused(403, "forbidden");
    let off = json!({ "disabled": true });
    let _ = server.ask(Some(&admin), "PATCH", &user, Some(&off)).status(200);
    server.ask(Some(&eve), "GET", "/v1/me", None).refused(401, "wrong_key");
    let _ = server.ask(Some(&admin), "DELETE", &user, None).status(204);
    server.ask(Some(&eve), "GET", "/v1/me", None).refused(401, "wrong_key");
    let _ = server.ask(Some(&ada), "DELETE", &path, None).status(204);
}

#[test]
fn a_token_that_is_not_good_gets_nothing() {
    let scene = scene();
    let config = with_secret(&scene, "");
    let server = Server::start(&scene, ["--config", &config]);
    let good = claims("eve", "operator");
    let changed = |name: &str, value: serde_json::Value| {
        let mut all = good.clone();
        all[name] = value;
        by_secret(SECRET, &all)
    };
    let _ = server.ask(Some(&by_secret(SECRET, &good)), "GET", "/v1/me", None).status(200);
    for wrong in [
        unsigned(&good),
        by_secret("another-secret-of-tokens-0123456789abcdef", &good),
        SigningKey::new("k").sign(&good),
        changed("exp", json!(1)),
        changed("nbf", json!(9_999_999_999_u64)),
        changed("aud", json!("another")),
        changed("iss", json!("https://evil.example")),
        changed("role", json!("emperor")),
        changed("sub", json!("x".repeat(300))),
        changed("more", json!("x".repeat(7000))),
        "a.b.c".into(),
        "..".into(),
    ] {
        server.ask(Some(&wrong), "GET", "/v1/me", None).refused(401, "wrong_key");
        server
            .ask(Some(&wrong), "POST", "/v1/run", Some(&json!({ "command": ["true"] })))
            .refused(401, "wrong_key");
    }
    // Neither the secret nor a token is in a log, and no sandbox shows the file.
    let key = server.key("ada", "operator");
    let secret = scene.path("jwt.secret");
    let cat =
        json!({ "command": ["cat", secret.to_string_lossy(), scene.path("server.toml").to_string_lossy()] });
    let ran = server.ask(Some(&key), "POST", "/v1/run", Some(&cat)).status(200).json();
    assert_ne!(ran["exit_code"], 0);
    let said = server.stop();
    assert!(said.errors.contains("a token is not believed"), "{}", said.errors);
    for secret in [SECRET, &by_secret(SECRET, &good), &key] {
        assert!(!said.errors.contains(secret) && !said.output.contains(secret), "{}", said.errors);
    }
}

#[test]
fn without_an_issuer_no_token_is_believed() {
    let scene = scene();
    let server = crate::server(&scene);
    for token in [by_secret("", &claims("eve", "admin")), unsigned(&claims("eve", "admin"))] {
        server.ask(Some(&token), "GET", "/v1/me", None).refused(401, "wrong_key");
    }
}

#[test]
fn keys_are_followed_and_a_dead_server_of_keys_stops_nobody() {
    let scene = scene();
    let (first, second) = (SigningKey::new("one"), SigningKey::new("two"));
    let keys = KeyServer::start(key_set(&[&first]), None);
    scene.write(
        "server.toml",
        &format!("{BASE}jwks_url = 'http://{}/keys'\njwks_plain_loopback = true\n", keys.address),
    );
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let me = |token: &str| server.ask(Some(token), "GET", "/v1/me", None).status;
    let good = claims("eve", "operator");
    eventually("the keys are fetched", || me(&first.sign(&good)) == 200);
    assert_eq!(me(&second.sign(&good)), 401);
    // Made-up names of keys don't have them fetched each time.
    let before = keys.asked();
    for _ in 0..20 {
        assert_eq!(me(&SigningKey::new("made up").sign(&good)), 401);
    }
    assert!(keys.asked() <= before + 1, "{} then {}", before, keys.asked());
    for (status, body) in
        [(500, String::new()), (200, "{".into()), (200, "x".repeat(300 << 10)), (302, String::new())]
    {
        keys.says(status, body);
        let asked = keys.asked();
        server.signal(Signal::HUP);
        eventually("it looks again", || keys.asked() > asked);
        assert_eq!(me(&first.sign(&good)), 200, "what is known stays known");
    }
    keys.says(200, key_set(&[&second]));
    server.signal(Signal::HUP);
    eventually("the new key is known", || me(&second.sign(&good)) == 200);
    assert_eq!(me(&first.sign(&good)), 401, "what was taken out is out");
}

#[test]
fn keys_come_over_verified_tls() {
    let scene = scene();
    let key = SigningKey::new("one");
    let certificate = tls::certificate(&["localhost"]);
    let keys = KeyServer::start(key_set(&[&key]), Some(certificate.server_config()));
    scene.write("ca.pem", &certificate.chain);
    scene.write(
        "server.toml",
        &format!("{BASE}jwks_url = 'https://localhost:{}/keys'\n", keys.address.port()),
    );
    let config = scene.path("server.toml").display().to_string();
    let token = key.sign(&claims("eve", "operator"));
    let ca = scene.path("ca.pem").display().to_string();
    {
        let server = Server::start_with(&scene, ["--config", &config], &[("SSL_CERT_FILE", &ca)]);
        eventually("the keys are fetched", || server.ask(Some(&token), "GET", "/v1/me", None).status == 200);
    }
    // The twin: nobody vouches for that server, so it is not believed.
    let asked = keys.asked();
    let server = Server::start(&scene, ["--config", &config]);
    eventually("it asked", || keys.asked() > asked);
    server.ask(Some(&token), "GET", "/v1/me", None).refused(401, "wrong_key");
}

#[test]
fn a_set_in_a_file_is_read_again_when_asked() {
    let scene = scene();
    let (first, second) = (SigningKey::new("one"), SigningKey::new("two"));
    scene.write("keys.json", &key_set(&[&first]));
    scene.write("server.toml", &format!("{BASE}jwks_file = '{}'\n", scene.path("keys.json").display()));
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let me = |token: &str| server.ask(Some(token), "GET", "/v1/me", None).status;
    let good = claims("eve", "operator");
    assert_eq!((me(&first.sign(&good)), me(&second.sign(&good))), (200, 401));
    scene.write("keys.json", &key_set(&[&second]));
    server.signal(Signal::HUP);
    eventually("the new key is known", || me(&second.sign(&good)) == 200);
    assert_eq!(me(&first.sign(&good)), 401);
}

#[test]
fn a_configuration_that_is_not_safe_does_not_start() {
    let scene = scene();
    for (more, word) in [
        ("", "give one of"),
        ("jwks_url = 'http://127.0.0.1:1/'\n", "must be https"),
        ("jwks_url = 'http://192.0.2.1/'\njwks_plain_loopback = true\nsecret_file = '/x'\n", "give one of"),
        ("secret_file = '/nonexistent'\n", "No such file"),
        ("secret = 'in the file itself, which is no place for it'\n", "unknown field"),
        ("max_role = 'emperor'\nsecret_file = '/x'\n", "emperor"),
    ] {
        scene.write("server.toml", &format!("{BASE}{more}"));
        let config = scene.path("server.toml").display().to_string();
        let outcome =
            Test::in_scene(&scene).verb(["serve", "--listen", "127.0.0.1:0", "--config", &config]).call();
        assert_eq!(outcome.exit, 125, "{}", outcome.describe());
        outcome.stderr_contains(word);
    }
}
