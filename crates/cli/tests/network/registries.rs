//! Package clients with `--allow-registry`: the only tests that leave the machine, in its own namespace, each to the
//! registry that the client here is configured to use. Nothing names one.

use std::process::{Command, Stdio};

use ringfence_testing::{Identity, Internet, Scene, Test};

/// A client that can't reach its registry here without a sandbox proves nothing: a notice, or a failure in CI.
fn reaches(what: &str, scene: &Scene, script: &str) -> bool {
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", script]).current_dir(scene.workspace()).env("HOME", home(scene));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    scene.identity.apply(&mut command);
    if command.status().is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what} can't reach its registry from here");
    eprintln!("skipped: {what} can't reach its registry from here");
    false
}

/// The caller's own, whose configuration counts; another identity can't read that one.
fn home(scene: &Scene) -> String {
    if scene.identity.uid() == rustix::process::geteuid().as_raw() {
        return std::env::var("HOME").unwrap_or_else(|_| "/root".into());
    }
    scene.home().display().to_string()
}

/// What a line of shell prints as this identity, without a sandbox.
fn outside(scene: &Scene, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(scene.workspace()).env("HOME", home(scene)).stdin(Stdio::null());
    scene.identity.apply(&mut command);
    let output = command.output().expect("bash starts");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// As the caller is set up: their own HOME and the variables that configure clients.
fn as_configured(scene: &Scene) -> Test {
    let mut test = Test::in_scene(scene).args(["--timeout", "80s"]).env("HOME", home(scene));
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

/// Far below what a client that is left hanging waits ([`PATIENT`], and apt's 30 seconds), and far above what a busy machine
/// takes to start one.
const FAST: u64 = 29_000;
const PATIENT: &str = "export PIP_DEFAULT_TIMEOUT=120 CARGO_HTTP_TIMEOUT=120 npm_config_fetch_timeout=120000 npm_config_fetch_retries=0;";

/// Where another host is granted, and not the registry: refused at once, by name, with the flag that would grant it.
fn is_refused(scene: &Scene, script: &str) {
    let script = format!("{PATIENT} {script}");
    let outcome =
        as_configured(scene).args(["--allow-host", "nobody.invalid:1"]).run(["bash", "-c", &script]);
    assert!(outcome.exit != 0 && outcome.exit != 124, "it needs no registry: {}", outcome.describe());
    let took = outcome.json.as_ref().and_then(|json| json["duration_ms"].as_u64());
    assert!(took.is_some_and(|took| took < FAST), "it took {took:?} ms to fail: {}", outcome.describe());
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

/// As people write it: into a directory, which stays, and without one, which lands in what is thrown away.
#[test]
fn pip_installs_what_can_be_imported() {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let quiet = "-q --no-cache-dir --retries 0";
        let target = format!(
            "python3 -m pip install {quiet} --target lib six && PYTHONPATH=lib python3 -c 'import six; print(six.__file__)'"
        );
        if !reaches("pip", &scene, &target) {
            continue;
        }
        std::fs::remove_dir_all(scene.path("ws/lib")).unwrap();
        let run = |script: &str| {
            let test = as_configured(&scene).profile("moderate").args(["--allow-registry", "pip"]);
            test.run(["bash", "-c", script])
        };
        run(&target).code(0).stdout_contains("lib/six.py");
        assert!(scene.path("ws/lib/six.py").exists(), "it did not stay");
        // Wherever the Python is: what it has outside is as before.
        let installed = "python3 -c \"import importlib.util as u, os; s = u.find_spec('six'); \
                         print(s and (s.origin, os.stat(s.origin).st_ino, os.stat(s.origin).st_ctime_ns))\"";
        let before = outside(&scene, installed);
        assert!(!before.is_empty());
        let outcome = run(&format!(
            "python3 -m pip install {quiet} --force-reinstall six && \
             python3 -c 'import os, six, time; print(\"age\", int(time.time() - os.stat(six.__file__).st_ctime))'"
        ));
        let managed = "python3 -c \"import os, sysconfig; print(os.path.exists(sysconfig.get_path('stdlib') + '/EXTERNALLY-MANAGED'))\"";
        if outside(&scene, managed) == "True" {
            // Such a Python takes nothing without a virtual environment, here as on the machine, and says so itself.
            assert_ne!(outcome.exit, 0, "{}", outcome.describe());
            let said = format!("{}{}", outcome.output, outcome.errors);
            assert!(said.contains("externally-managed-environment"), "{}", outcome.describe());
        } else {
            let age =
                outcome.code(0).output.trim().strip_prefix("age ").and_then(|age| age.parse::<u64>().ok());
            assert!(age.is_some_and(|age| age < 300), "it imports another one\n{}", outcome.describe());
        }
        assert_eq!(outside(&scene, installed), before, "it was changed outside");
    }
}

/// On the test internet: an index may send pip to public addresses, and to nothing nearer.
#[test]
fn an_index_opens_nothing_near_by_linking_to_it() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let has_pip = outside(&scene, "/usr/bin/python3 -I -c 'import pip; print(\"yes\")'");
        if has_pip != "yes" {
            eprintln!("skipped: /usr/bin/python3 has no pip");
            return;
        }
        let try_all = "for at in 169.254.169.254 10.1.2.3 '[fd00::7]' 203.0.113.2:8099 192.0.2.66; do \
                       curl -gsS --noproxy '*' --max-time 5 http://$at/; done; true";
        let run = |flags: &[&str]| {
            let index = ("PIP_INDEX_URL", "http://evil.test/hostile-index/");
            let test = Test::in_scene(&scene).args(["--timeout", "60s"]).args(flags.iter().copied());
            let test = test.env(index.0, index.1).env("PIP_TRUSTED_HOST", "evil.test");
            let test = test.env("PIP_CONFIG_FILE", "/dev/null");
            internet.machine.within(|| test.run(["bash", "-c", try_all]))
        };
        let outcome = run(&["--allow-registry", "pip"]);
        let text = &outcome.output;
        assert_eq!(text.matches("page of").count(), 1, "{}", outcome.describe());
        assert!(text.contains("at 192.0.2.66"), "what is public is granted: {}", outcome.describe());
        assert!(outcome.describe().contains("a metadata address: not granted"), "{}", outcome.describe());
        // They are there to be reached.
        let near = ["169.254.169.254:80", "10.1.2.3:80", "[fd00::7]:80"];
        let flags: Vec<&str> = near.iter().flat_map(|at| ["--allow-host", at]).collect();
        let outcome = run(&flags);
        assert_eq!(outcome.output.matches("page of").count(), 3, "{}", outcome.describe());
    }
}

#[test]
fn npm_installs() {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        scene.write("ws/package.json", "{\"name\": \"x\", \"version\": \"1.0.0\"}");
        let script = "npm install --no-audit --no-fund --fetch-retries 0 --cache ./cache is-number@7.0.0";
        if !reaches("npm", &scene, script) {
            continue;
        }
        for dir in ["ws/node_modules", "ws/cache"] {
            std::fs::remove_dir_all(scene.path(dir)).unwrap();
        }
        is_refused(&scene, script);
        let outcome = as_configured(&scene).args(["--allow-registry", "npm"]).run(["bash", "-c", script]);
        outcome.code(0);
        assert!(scene.path("ws/node_modules/is-number/package.json").exists(), "{}", outcome.describe());
    }
}

/// As the caller alone: a toolchain that is installed in a home is there for nobody else.
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
    for identity in Identity::all() {
        let scene = Scene::new(identity);
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
            continue;
        }
        std::fs::remove_dir_all(scene.path("ws/apt")).unwrap();
        is_refused(&scene, script);
        let outcome = as_configured(&scene).args(["--allow-registry", "apt"]).run(["bash", "-c", script]);
        outcome.code(0);
        assert!(std::fs::read_dir(scene.path("ws/apt/got")).unwrap().count() == 1, "{}", outcome.describe());
    }
}
