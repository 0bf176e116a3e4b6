//! Config files, their order and origins, the rule of trust, and denials that become rules.

use std::path::PathBuf;

use ringfence_testing::{Identity, Outcome, Scene, Test};

fn each(check: impl Fn(&Scene)) {
    for identity in Identity::all() {
        check(&Scene::new(identity));
    }
}

fn verb(scene: &Scene, words: &[&str]) -> Outcome {
    Test::in_scene(scene).verb(words.to_vec()).call()
}

/// The rows of `policy show`: clause, value, origin.
fn shown(test: Test, more: &[&str]) -> Vec<(String, String, String)> {
    let words: Vec<&str> = ["policy", "show", "--json"].iter().chain(more).copied().collect();
    let outcome = test.verb(words).call();
    outcome.code(0);
    let object: serde_json::Value = serde_json::from_str(&outcome.output).unwrap();
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = object["clauses"].as_array().unwrap().iter();
    rows.map(|row| (text(row, "clause"), text(row, "value"), text(row, "origin"))).collect()
}

fn row<'a>(rows: &'a [(String, String, String)], clause: &str) -> (&'a str, &'a str) {
    let found = rows.iter().find(|(name, ..)| name == clause).unwrap_or_else(|| panic!("no {clause}"));
    (&found.1, &found.2)
}

fn real(path: PathBuf) -> String {
    std::fs::canonicalize(path).unwrap().display().to_string()
}

const USER: &str = "home/.config/ringfence/config.toml";

#[test]
fn later_layers_win_and_each_clause_names_its_origin() {
    each(|scene| {
        scene.write(
            USER,
            "[limits]\nmemory = '3G'\nprocesses = 100\nopen_files = 500\ndisk = '1G'\nwall_time = '50m'",
        );
        scene.write(
            "ws/ringfence.toml",
            "[limits]\nprocesses = 90\nopen_files = 400\ndisk = '900M'\nwall_time = '40m'",
        );
        scene.write("env.toml", "[limits]\nopen_files = 300\ndisk = '800M'\nwall_time = '30m'");
        scene.write("file.json", r#"{"limits": {"disk": "700M", "wall_time": "20m"}}"#);
        let environment = scene.path("env.toml");
        let test = Test::in_scene(scene)
            .env("RINGFENCE_POLICY", &environment)
            .env("RINGFENCE_PROFILE", "restrictive");
        let rows = shown(test, &["--policy", "../file.json", "--timeout", "10m"]);
        let (home, workspace) = (scene.path(USER).display().to_string(), real(scene.workspace()));
        assert_eq!(row(&rows, "profile"), ("restrictive", "environment"));
        assert_eq!(row(&rows, "limits.memory"), ("3G", format!("user config {home}").as_str()));
        assert_eq!(
            row(&rows, "limits.processes"),
            ("90", format!("project {workspace}/ringfence.toml").as_str())
        );
        assert_eq!(row(&rows, "limits.open_files"), ("300", "environment"));
        assert_eq!(
            row(&rows, "limits.disk"),
            ("700M", format!("--policy {workspace}/../file.json").as_str())
        );
        assert_eq!(row(&rows, "limits.wall_time"), ("10m", "--timeout"));
        assert_eq!(row(&rows, "limits.cpus"), ("1", "profile restrictive"));
        let rows = shown(
            Test::in_scene(scene).env("RINGFENCE_PROFILE", "permissive"),
            &["--profile", "restrictive"],
        );
        assert_eq!(row(&rows, "profile"), ("restrictive", "--profile"));
    });
}

#[test]
fn xdg_config_home_is_the_users_config() {
    each(|scene| {
        scene.write("xdg/ringfence/config.toml", "[limits]\nprocesses = 77");
        let test = Test::in_scene(scene).env("XDG_CONFIG_HOME", scene.path("xdg"));
        assert_eq!(row(&shown(test, &[]), "limits.processes").0, "77");
    });
}

#[test]
fn paths_are_relative_to_the_file_or_the_home() {
    each(|scene| {
        scene.write("policies/p.toml", "[filesystem]\nread = ['data', '~/mine']\nhide = ['./x/./y']");
        let rows = shown(Test::in_scene(scene), &["--policy", "../policies/p.toml", "--write", "here"]);
        let values: Vec<&str> = rows
            .iter()
            .filter(|(clause, ..)| clause == "filesystem.read")
            .map(|(_, value, _)| value.as_str())
            .collect();
        let workspace = real(scene.workspace());
        assert_eq!(
            values,
            [&format!("{workspace}/../policies/data"), &scene.home().join("mine").display().to_string()]
        );
        assert_eq!(row(&rows, "filesystem.hide").0, format!("{workspace}/../policies/x/y"));
        assert_eq!(row(&rows, "filesystem.write"), (format!("{workspace}/here").as_str(), "--write"));
    });
}

#[test]
fn a_project_may_tighten_and_not_loosen() {
    each(|scene| {
        scene.write("ws/ringfence.toml", "[limits]\nprocesses = 20\n[filesystem]\nhide = ['private']");
        scene.write("ws/private", "for me");
        let outcome = Test::in_scene(scene).run(["cat", "private"]);
        assert!(!outcome.output.contains("for me"), "{}", outcome.describe());
        // In a directory below, too, and for a workspace that is named.
        scene.mkdir("ws/below");
        let below = || Test::in_scene(scene).cwd(scene.path("ws/below"));
        assert_eq!(row(&shown(below(), &[]), "limits.processes").0, "20");
        let named = || Test::in_scene(scene).cwd(scene.root()).workspace(scene.workspace());
        let rows = shown(Test::in_scene(scene).cwd(scene.root()), &["--workspace", "ws"]);
        assert_eq!(row(&rows, "limits.processes").0, "20");

        scene.write("ws/ringfence.toml", "profile = 'permissive'\n[syscalls]\nallow = ['unshare']");
        for test in [Test::in_scene(scene), below(), named()] {
            test.run(["echo", "ran"])
                .refused("would loosen the policy and is not trusted")
                .stderr_contains("syscalls.allow (adds unshare)")
                .stderr_contains("profile (from moderate to permissive)")
                .stderr_contains("ringfence trust");
        }
    });
}

#[test]
fn a_file_that_only_spells_out_the_default_does_not_hold_against_a_tighter_flag() {
    each(|scene| {
        scene.write("ws/ringfence.toml", "[filesystem]\nworkspace = 'current'");
        Test::in_scene(scene).run(["true"]).code(0);
        Test::in_scene(scene).profile("restrictive").run(["true"]).refused("filesystem.workspace");
    });
}

#[test]
fn trust_is_for_the_exact_content() {
    each(|scene| {
        let loosening = "[syscalls]\nallow = ['unshare']\n";
        scene.write("ws/ringfence.toml", loosening);
        let run = || Test::in_scene(scene).run(["unshare", "-U", "true"]);
        run().refused("not trusted");
        verb(scene, &["trust"]).code(0).stdout_contains("ringfence.toml is trusted as it is now");
        run().code(0);
        scene.write("ws/ringfence.toml", &format!("{loosening}# a comment\n"));
        run().refused("not trusted");
        verb(scene, &["trust", "--list"]).code(0).stdout_contains("changed since");
        verb(scene, &["trust", "ringfence.toml"]).code(0);
        run().code(0);
        // The same content at another path is another file.
        scene.write("ws/other/ringfence.toml", &format!("{loosening}# a comment\n"));
        Test::in_scene(scene).cwd(scene.path("ws/other")).run(["true"]).refused("not trusted");
        verb(scene, &["trust", "--list"]).stdout_contains("ringfence.toml\ttrusted\n");
        verb(scene, &["trust", "--revoke"]).code(0);
        run().refused("not trusted");
        verb(scene, &["trust", "--revoke"]).refused("is not trusted");
        verb(scene, &["trust", "--list"]).code(0).stdout("nothing is trusted\n");
    });
}

#[test]
fn trust_is_the_users_own_file() {
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new(Identity::all()[0]);
    scene.write("ws/ringfence.toml", "[syscalls]\nallow = ['unshare']\n");
    verb(&scene, &["trust"]).code(0);
    let mode = std::fs::metadata(scene.path("state/trust.json")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::metadata(scene.state()).unwrap().mode() & 0o022, 0);
    // Trust that can't be read is no trust.
    scene.write("state/trust.json", "{");
    Test::in_scene(&scene).run(["true"]).refused("trust.json");
}

#[test]
fn a_broken_file_stops_the_run_with_its_name() {
    each(|scene| {
        scene.write("ws/ringfence.toml", "[limits]\nmemroy = '1G'");
        Test::in_scene(scene).run(["true"]).refused("ringfence.toml: line 2: unknown key `limits.memroy`");
        scene.write("ws/ringfence.toml", "");
        scene.write(USER, "profil = 'moderate'");
        Test::in_scene(scene).run(["true"]).refused("did you mean `profile`?");
        verb(scene, &["trust", "../home/.config/ringfence/config.toml"]).refused("profil");
    });
}

#[test]
fn what_was_blocked_can_be_allowed_for_the_user() {
    each(|scene| {
        scene.write(USER, "# mine\n[limits]\nprocesses = 99 # enough\n");
        verb(scene, &["denials"]).code(0).stdout("nothing was denied\n");
        let run = || Test::in_scene(scene).run(["unshare", "-U", "true"]);
        run().code(1).denial("unshare");
        verb(scene, &["denials"]).code(0).stdout_contains("1\tunshare\tsyscalls\t");
        verb(scene, &["denials", "--allow", "1"])
            .code(0)
            .stdout_contains("now says: syscalls.allow = [\"unshare\"]");
        run().code(0).no_denials();
        let text = scene.read(USER).unwrap();
        assert_eq!(text, "# mine\n[limits]\nprocesses = 99 # enough\n\n[syscalls]\nallow = [\"unshare\"]\n");
        verb(scene, &["denials", "--allow", "1"]).code(0).stdout_contains("already says");
        assert_eq!(scene.read(USER).unwrap(), text);
        verb(scene, &["denials", "--allow", "2"]).refused("no denial number 2");
    });
}

#[test]
fn what_was_blocked_can_be_allowed_for_the_project_which_is_trusted_then() {
    each(|scene| {
        scene.mkdir("ws/.git");
        scene.mkdir("ws/deep");
        let run = || Test::in_scene(scene).cwd(scene.path("ws/deep")).run(["unshare", "-U", "true"]);
        run().code(1);
        let test = Test::in_scene(scene).cwd(scene.path("ws/deep"));
        test.verb(["denials", "--allow", "1", "--for", "project"]).call().code(0).stdout_contains("trusted");
        assert_eq!(scene.read("ws/ringfence.toml").as_deref(), Some("[syscalls]\nallow = [\"unshare\"]\n"));
        run().code(0);
        scene.write("ws/ringfence.toml", "[syscalls]\nallow = [\"unshare\", \"keyctl\"]\n");
        run().refused("not trusted");
    });
}

#[test]
fn denials_are_listed_newest_first_and_as_json() {
    each(|scene| {
        Test::in_scene(scene).run(["unshare", "-U", "true"]).code(1);
        Test::in_scene(scene).run(["true"]).code(0).no_denials();
        Test::in_scene(scene).args(["--timeout", "100ms"]).run(["sleep", "60"]).code(124);
        let outcome = verb(scene, &["denials", "--json"]);
        let rows: serde_json::Value = serde_json::from_str(&outcome.output).unwrap();
        let whats: Vec<&str> =
            rows.as_array().unwrap().iter().map(|row| row["denial"]["what"].as_str().unwrap()).collect();
        assert_eq!(whats, ["limits.wall_time", "unshare"]);
        assert_eq!(rows[0]["number"], 1);
        assert_eq!(rows[0]["exit_code"], 124);
        assert_eq!(rows[0]["command"], "sleep 60");
        let last = verb(scene, &["denials", "--last"]);
        last.stdout_contains("limits.wall_time");
        assert!(!last.output.contains("unshare"));
        // A limit from the command line is raised there: a file would hold for every run.
        verb(scene, &["denials", "--allow", "1"])
            .code(125)
            .stderr_contains("raise it with `--timeout 200ms`");
        // One from a file is raised in that file.
        scene.write("home/.config/ringfence/config.toml", "[limits]\nwall_time = \"100ms\"\n");
        Test::in_scene(scene).run(["sleep", "60"]).code(124);
        verb(scene, &["denials", "--allow", "1"]).code(0).stdout_contains("limits.wall_time = \"200ms\"");
    });
}

#[test]
fn network_flags_and_groups_are_clauses_with_origins() {
    each(|scene| {
        scene.write(USER, "[network.groups]\ncode = ['git.example:22', '*.code.example']\n");
        let flags = [
            "--allow-host",
            "@code",
            "--allow-host",
            "API.Example.com.:443",
            "--deny-host",
            "x.code.example",
        ];
        let more = [
            "--allow-local",
            "8080",
            "--allow-private",
            "10.1.0.0/16",
            "--connections",
            "9",
            "--bandwidth",
            "1M",
        ];
        let rows = shown(Test::in_scene(scene), &[flags.as_slice(), &more].concat());
        let values = |clause: &str| -> Vec<&str> {
            rows.iter().filter(|(name, ..)| name == clause).map(|(_, value, _)| value.as_str()).collect()
        };
        assert_eq!(row(&rows, "network.mode"), ("allow", "--allow-host"));
        assert_eq!(values("network.allow"), ["@code", "api.example.com:443"]);
        assert_eq!(values("network.groups"), ["@code git.example:22", "@code *.code.example"]);
        assert_eq!(row(&rows, "network.deny"), ("x.code.example", "--deny-host"));
        assert_eq!(row(&rows, "network.local"), ("8080", "--allow-local"));
        assert_eq!(row(&rows, "network.private"), ("10.1.0.0/16", "--allow-private"));
        assert_eq!(row(&rows, "limits.connections"), ("9", "--connections"));
        assert_eq!(row(&rows, "limits.bandwidth"), ("1M", "--bandwidth"));
        // What is asked for in so many words wins over what is implied.
        let rows = shown(Test::in_scene(scene), &["--network", "off", "--allow-host", "a.example"]);
        assert_eq!(row(&rows, "network.mode"), ("off", "--network"));
    });
}

#[test]
fn a_project_can_not_open_the_network_nor_fill_a_group_of_its_users() {
    each(|scene| {
        scene.write(USER, "[network]\nallow = ['@mine']\n[network.groups]\nmine = ['a.example']\n");
        for text in [
            "[network]\nallow = ['evil.example']",
            "[network]\nmode = 'open'",
            "[network]\nlocal = [22]",
            "[network]\nprivate = ['10.0.0.0/8']",
            "[network.groups]\nmine = ['evil.example']",
            "[network]\nno_sni = ['a.example']",
            "[[network.secrets]]\nname = 'T'\nfrom = 'env:T'\nhosts = ['a.example']",
        ] {
            scene.write("ws/ringfence.toml", text);
            Test::in_scene(scene).run(["true"]).refused("would loosen the policy and is not trusted");
        }
        scene.write("ws/ringfence.toml", "[network]\ndeny = ['a.example']");
        Test::in_scene(scene).run(["true"]).code(0);
    });
}

#[test]
fn a_refused_host_becomes_a_rule() {
    each(|scene| {
        scene.write(USER, "[network]\nallow = [\"granted.example\"] # mine\n");
        let connect = "exec 3<>/dev/tcp/192.0.2.22/4242";
        let run = || Test::in_scene(scene).run(["bash", "-c", connect]);
        run().code(1).denial("192.0.2.22:4242");
        verb(scene, &["denials"]).code(0).stdout_contains("--allow-host 192.0.2.22:4242");
        verb(scene, &["denials", "--allow", "1"])
            .code(0)
            .stdout_contains("now says: network.allow = [\"192.0.2.22:4242\"]");
        let text = scene.read(USER).unwrap();
        assert_eq!(text, "[network]\nallow = [\"granted.example\", \"192.0.2.22:4242\"] # mine\n");
        // A file that closes the network keeps its say.
        scene.write(USER, "[network]\nmode = \"off\"\n");
        verb(scene, &["denials", "--allow", "1"]).refused("says network.mode = \"off\"");
    });
}

#[test]
fn the_rules_are_part_of_the_explanation() {
    each(|scene| {
        let flags = ["--explain", "--allow-host", "a.example:22", "--secret", "T=env:T@a.example"];
        let outcome = Test::in_scene(scene).plain().args(flags).run(["true"]);
        outcome.code(0).stdout_contains("network.allow\ta.example:22\t--allow-host\n");
        outcome.stdout_contains("network.secrets\tT=env:T@a.example\t--secret\n");
    });
}
