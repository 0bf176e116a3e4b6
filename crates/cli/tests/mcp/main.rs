//! The Model Context Protocol, through a real `ringfence mcp` and a real `ringfence serve`.

mod ahead;
mod approvals;
mod asking;
mod client;
mod compat;
mod crowd;
mod denials;
mod ends;
mod file_rules;
mod files;
mod hostile;
mod http;
mod output;
mod protocol;
mod rules;
mod skills;
mod tools;

use ringfence_testing::{Identity, Scene};

fn scene() -> Scene {
    Scene::new(if rustix::process::geteuid().is_root() { Identity::Root } else { Identity::User })
}
