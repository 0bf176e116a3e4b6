//! An image over HTTP: only the one that the ceiling of a role has.

use ringfence_testing::{Server, Test};
use serde_json::json;

#[test]
fn no_image_is_allowed_by_default() {
    let scene = crate::scene();
    let server = crate::server(&scene);
    let ada = server.key("ada", "operator");
    let body = json!({ "command": ["true"], "image": "any" });
    server.ask(Some(&ada), "POST", "/v1/run", Some(&body)).refused(403, "beyond_ceiling");
    let body = json!({ "command": ["true"], "policy": { "image": "any" } });
    server.ask(Some(&ada), "POST", "/v1/run", Some(&body)).refused(403, "beyond_ceiling");
    server
        .ask(Some(&ada), "POST", "/v1/sandboxes", Some(&json!({ "image": "any" })))
        .refused(403, "beyond_ceiling");
}

#[test]
fn the_image_of_the_ceiling_is_everybodys() {
    let scene = crate::scene();
    let build = ["image", "build", "shell", "--from", "host", "--with", "coreutils"];
    Test::in_scene(&scene).verb(build).call().code(0);
    scene.write("server.toml", "[roles.operator.ceiling]\nprofile = 'moderate'\nimage = 'shell'\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let ada = server.key("ada", "operator");
    for body in [
        json!({ "command": ["sh", "-c", "ls /usr/share/doc || echo gone"] }),
        json!({ "command": ["sh", "-c", "ls /usr/share/doc || echo gone"], "image": "shell" }),
    ] {
        let answer = server.ask(Some(&ada), "POST", "/v1/run", Some(&body)).status(200).json();
        assert_eq!(answer["stdout"], "gone\n", "{answer}");
        let clauses = answer["receipt"]["clauses"].as_array().expect("clauses");
        let host = clauses.iter().find(|line| line["clause"] == "filesystem.host").expect("the clause");
        assert!(host["value"].as_str().is_some_and(|value| value.starts_with("image shell (")), "{host}");
    }
    let other = json!({ "command": ["true"], "image": "other" });
    server.ask(Some(&ada), "POST", "/v1/run", Some(&other)).refused(403, "beyond_ceiling");
    let at = crate::sandbox(&server, &ada, &json!({ "image": "shell" }));
    let line = json!({ "command": ["sh", "-c", "test ! -e /usr/share/doc && echo inside"] });
    let answer = server.ask(Some(&ada), "POST", &format!("{at}/exec"), Some(&line)).status(200).json();
    assert_eq!(answer["stdout"], "inside\n", "{answer}");
    Test::in_scene(&scene).verb(["image", "rm", "shell"]).call().refused("in use");
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}
