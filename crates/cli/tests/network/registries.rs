//! Package clients with `--allow-registry`: the only tests that leave the machine, in its own namespace, each to the
//! registry that the client here is configured to use. Nothing names one.

use std::process::{Command, Stdio};

use ringfence_testing::{Identity, Scene, Test};

/// A client that can't reach its registry here without a sandbox proves nothing: a notice, or a failure in CI.
fn reaches(what: &str, scene: &Scene, script: &str) -> bool {
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", script]).current_dir(scene.workspace()).env("HOME", caller_home());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what} can't reach its registry from here");
    eprintln!("skipped: {what} can't reach its registry from here");
    false
}

fn caller_home() -> String {
    std::env::var("HOME").unwrap_or_else(|_| "/root".into())
}

/// As the caller is set up: their own HOME and the variables that configure clients.
fn as_configured(scene: &Scene) -> Test {
    let mut test = Test::in_scene(scene).args(["--timeout", "80s"]).env("HOME", caller_home());
    for (name, value) in std::env::vars_os() {
        let known = name.to_string_lossy().into_owned();
        let configures =
            ["PIP_", "npm_config_", "NPM_CONFIG_", "CARGO_REGISTR", "SSL_CERT", "CARGO_HTTP", "CARGO_HOME"];
        let is_path = known == "PATH" || known == "RUSTUP_HOME";
        if is_path || configures.iter().any(|prefix| known.starts_with(prefix)) {
            test = test.env(name, value);
        }
    }
    test
}

#[test]
fn pip_installs() {
    let scene = Scene::new(Identity::all()[0]);
    let script = "python3 -m pip download --no-deps --no-cache-dir -q -d got six";
    if !reaches("pip", &scene, script) {
        return;
    }
    std::fs::remove_dir_all(scene.path("ws/got")).unwrap();
    let without = as_configured(&scene).run(["bash", "-c", script]);
    assert!(without.exit != 0, "it needs no registry: {}", without.describe());
    let outcome = as_configured(&scene).args(["--allow-registry", "pip"]).run(["bash", "-c", script]);
    outcome.code(0);
    assert!(std::fs::read_dir(scene.path("ws/got")).unwrap().count() == 1, "{}", outcome.describe());
}

#[test]
fn npm_installs() {
    let scene = Scene::new(Identity::all()[0]);
    scene.write("ws/package.json", "{\"name\": \"x\", \"version\": \"1.0.0\"}");
    let script = "npm install --no-audit --no-fund --cache ./cache is-number@7.0.0";
    if !reaches("npm", &scene, script) {
        return;
    }
    for dir in ["ws/node_modules", "ws/cache"] {
        std::fs::remove_dir_all(scene.path(dir)).unwrap();
    }
    let outcome = as_configured(&scene).args(["--allow-registry", "npm"]).run(["bash", "-c", script]);
    outcome.code(0);
    assert!(scene.path("ws/node_modules/is-number/package.json").exists(), "{}", outcome.describe());
}

#[test]
fn cargo_fetches() {
    let scene = Scene::new(Identity::all()[0]);
    scene.write(
        "ws/Cargo.toml",
        "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n",
    );
    scene.write("ws/lib.rs", "");
    // A home of its own has nothing cached, but the caller's configuration.
    let script = "mkdir -p home && cp ${CARGO_HOME:-$HOME/.cargo}/config.toml home/ 2>/dev/null; CARGO_HOME=$PWD/home cargo fetch -q";
    if !reaches("cargo", &scene, script) {
        return;
    }
    std::fs::remove_dir_all(scene.path("ws/home")).unwrap();
    let outcome = as_configured(&scene).args(["--allow-registry", "cargo"]).run(["bash", "-c", script]);
    outcome.code(0);
    assert!(scene.path("ws/home/registry").exists(), "{}", outcome.describe());
}
