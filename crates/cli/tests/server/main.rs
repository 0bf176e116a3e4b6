//! The server, through a real `ringfence serve` and its HTTP.

mod actions;
mod approvals;
mod bounds;
mod ceilings;
mod crowd;
mod disk;
mod doors;
mod grants;
mod hidden;
mod images;
mod issuer;
mod keys;
mod kills;
mod life;
mod lists;
mod pool;
mod ports;
mod recorded;
mod refusals;
mod repeated;
mod reviewed;
mod revoked;
mod routes;
mod runs;
mod sandboxes;
mod secrets;
mod skill_actions;
mod skills;
mod slow;
mod snapshots;
mod spool;
mod surface;
mod telemetry;
mod tenancy;
mod terminal;
mod tls;
mod tokens;
mod top;
mod trees;
mod unseen;

use ringfence_testing::{Identity, Scene, Server};

/// A server in a scene of whoever runs the tests.
fn scene() -> Scene {
    Scene::new(if rustix::process::geteuid().is_root() { Identity::Root } else { Identity::User })
}

/// A sandbox of whoever has the key; its path.
fn sandbox(server: &Server<'_>, key: &str, body: &serde_json::Value) -> String {
    let made = server.ask(Some(key), "POST", "/v1/sandboxes", Some(body)).status(201).json();
    format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"))
}

fn server(scene: &Scene) -> Server<'_> {
    Server::start(scene, [] as [&str; 0])
}
