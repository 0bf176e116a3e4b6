//! The server, through a real `ringfence serve` and its HTTP.

mod doors;
mod kills;
mod life;
mod runs;
mod sandboxes;
mod tenancy;

use ringfence_testing::{Identity, Scene, Server};

/// A server in a scene of whoever runs the tests.
fn scene() -> Scene {
    Scene::new(if rustix::process::geteuid().is_root() { Identity::Root } else { Identity::User })
}

fn server(scene: &Scene) -> Server<'_> {
    Server::start(scene, [] as [&str; 0])
}
