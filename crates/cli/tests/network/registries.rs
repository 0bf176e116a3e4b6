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

/// Where another host is granted, and not the registry: refused at once, by name, with the flag that would grant it.
fn is_refused(scene: &Scene, script: &str) {
    let outcome = as_configured(scene).args(["--allow-host", "nobody.invalid:1"]).run(["bash", "-c", script]);
    assert!(outcome.exit != 0 && outcome.exit != 124, "it needs no registry: {}", outcome.describe());
    let denials = outcome.denials();
    let named = denials.iter().any(|denial| {
        denial.kind == "network"
            && denial.remedy.contains("add `--allow-host ")
            && denial.rule == "network.allow"
    });
    assert!(named, "no denial says what to grant: {}", outcome.describe());
}

#[test]
fn pip_installs() {
    let scene = Scene::new(Identity::all()[0]);
    let script = "python3 -m pip download --no-deps --no-cache-dir --retries 0 -q -d got six";
    if !reaches("pip", &scene, script) {
        return;
    }
    std::fs::remove_dir_all(scene.path("ws/got")).unwrap();
    is_refused(&scene, script);
    let outcome = as_configured(&scene).args(["--allow-registry", "pip"]).run(["bash", "-c", script]);
    outcome.code(0);
    assert!(std::fs::read_dir(scene.path("ws/got")).unwrap().count() == 1, "{}", outcome.describe());
}

#[test]
fn npm_installs() {
    let scene = Scene::new(Identity::all()[0]);
    scene.write("ws/package.json", "{\"name\": \"x\", \"version\": \"1.0.0\"}");
    let script = "npm install --no-audit --no-fund --fetch-retries 0 --cache ./cache is-number@7.0.0";
    if !reaches("npm", &scene, script) {
        return;
    }
    for dir in ["ws/node_modules", "ws/cache"] {
        std::fs::remove_dir_all(scene.path(dir)).unwrap();
    }
    is_refused(&scene, script);
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
    let script = "mkdir -p home && cp ${CARGO_HOME:-$HOME/.cargo}/config.toml home/ 2>/dev/null; CARGO_NET_RETRY=0 CARGO_HOME=$PWD/home cargo fetch -q";
    if !reaches("cargo", &scene, script) {
        return;
    }
    std::fs::remove_dir_all(scene.path("ws/home")).unwrap();
    is_refused(&scene, script);
    let outcome = as_configured(&scene).args(["--allow-registry", "cargo"]).run(["bash", "-c", script]);
    outcome.code(0);
    assert!(scene.path("ws/home/registry").exists(), "{}", outcome.describe());
}

/// Into directories of its own, which needs no privilege: the smallest package of one configured index.
#[test]
fn apt_fetches() {
    let scene = Scene::new(Identity::all()[0]);
    // Signatures are apt's affair.
    let source = "apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)' \
                  | awk '$1 == \"Packages\" { print (/-updates/ ? 0 : 1), $0 }' | sort -s -k1,1n | head -1 \
                  | awk '{ print \"deb [trusted=yes]\", $3, $4, $5 }' > apt.list";
    let script = "set -e; rm -rf apt; mkdir -p apt/lists/partial apt/archives/partial apt/got; touch apt/status; \
                  o=\"-qq -o Dir::State=$PWD/apt -o Dir::Cache=$PWD/apt -o Dir::State::status=$PWD/apt/status \
                  -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=0 \
                  -o Dir::Etc::sourcelist=$PWD/apt.list -o Dir::Etc::sourceparts=-\"; \
                  apt-get $o update; cd apt/got; \
                  apt-get $o download $(apt-cache $o dumpavail | awk '/^Package: / { name = $2 } /^Size: / { print $2, name }' \
                  | sort -n | awk 'NR == 1 { print $2 }'); test -n \"$(ls)\"";
    if !reaches("apt", &scene, &format!("{source}; {script}")) {
        return;
    }
    std::fs::remove_dir_all(scene.path("ws/apt")).unwrap();
    is_refused(&scene, script);
    let outcome = as_configured(&scene).args(["--allow-registry", "apt"]).run(["bash", "-c", script]);
    outcome.code(0);
    assert!(std::fs::read_dir(scene.path("ws/apt/got")).unwrap().count() == 1, "{}", outcome.describe());
}
