//! What the command says: help, bad input, exit codes of each verb. Through the real binary, as snapshots.

use std::path::Path;
use std::process::{Command, Output};

use insta::assert_snapshot;
use tempfile::TempDir;

/// A home, a state directory and a current directory of its own.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("rfcli-").tempdir().unwrap();
        for dir in ["home", "state", "ws"] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
        }
        Self { root }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.root.path().join(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.root.path().join("home"))
            .env("RINGFENCE_STATE_DIR", self.root.path().join("state"))
            .current_dir(self.root.path().join("ws"));
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Exit code, stdout and stderr, with the scratch directory as `[ROOT]`.
    fn said(&self, args: &[&str]) -> String {
        self.shown(&self.output(args))
    }

    fn shown(&self, output: &Output) -> String {
        let text = format!(
            "exit {}\n--- stdout\n{}--- stderr\n{}",
            output.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let real = std::fs::canonicalize(self.root.path()).unwrap();
        text.replace(real.to_str().unwrap(), "[ROOT]").replace(self.root.path().to_str().unwrap(), "[ROOT]")
    }
}

#[test]
fn bad_input_is_a_reason_and_a_next_step() {
    let place = Place::new();
    place.write("typo.toml", "[limits]\nmemroy = \"1G\"\n");
    place.write("wrong.toml", "[limits]\nmemory = \"lots\"\n");
    place.write("nul.json", r#"{"filesystem": {"read": ["/usr\u0000/x"]}}"#);
    place.write("broken.toml", "profile = \n");
    let cases: &[(&str, &[&str])] = &[
        ("unknown_flag", &["run", "--prfile", "moderate", "--", "true"]),
        ("unknown_verb", &["runn"]),
        ("no_command", &["run"]),
        ("empty_command", &["run", "--", ""]),
        ("unknown_profile", &["run", "--profile", "restrctive", "--", "true"]),
        ("bad_size", &["run", "--memory", "lots", "--", "true"]),
        ("bad_time", &["run", "--timeout", "soon", "--", "true"]),
        ("bad_cpus", &["run", "--cpus", "-1", "--", "true"]),
        ("bad_count", &["run", "--pids", "many", "--", "true"]),
        ("zero_limit", &["run", "--pids", "0", "--", "true"]),
        ("bad_network", &["run", "--network", "of", "--", "true"]),
        ("host_is_a_url", &["run", "--allow-host", "https://api.example.com/v1", "--", "true"]),
        ("host_with_a_star", &["run", "--allow-host", "api.*.com", "--", "true"]),
        ("host_is_a_number", &["run", "--allow-host", "0x7f.1", "--", "true"]),
        ("host_with_a_bad_port", &["run", "--allow-host", "api.example.com:0", "--", "true"]),
        ("host_is_this_machine", &["run", "--allow-host", "127.0.0.1:8080", "--", "true"]),
        ("host_of_no_group", &["run", "--allow-host", "@none", "--", "true"]),
        ("bad_local_port", &["run", "--allow-local", "70000", "--", "true"]),
        ("bad_range", &["run", "--allow-private", "10.0.0.0/40", "--", "true"]),
        ("range_of_loopback", &["run", "--allow-private", "127.0.0.0/8", "--", "true"]),
        ("bad_server_name", &["run", "--allow-no-sni", "*.example.com", "--", "true"]),
        ("unknown_registry", &["run", "--allow-registry", "pypi", "--", "true"]),
        ("secret_without_a_source", &["run", "--secret", "TOKEN=hunter2", "--", "true"]),
        ("secret_with_its_value", &["run", "--secret", "TOKEN=hunter2@api.example.com", "--", "true"]),
        ("secret_without_a_host", &["run", "--secret", "TOKEN=env:TOKEN", "--", "true"]),
        (
            "secret_for_a_host_not_allowed",
            &["run", "--secret", "TOKEN=env:TOKEN@api.example.com", "--", "true"],
        ),
        ("bad_connections", &["run", "--connections", "some", "--", "true"]),
        ("bad_bandwidth", &["run", "--bandwidth", "fast", "--", "true"]),
        ("learn_from_a_waived_network", &["run", "--learn", "--waive", "network", "--", "true"]),
        ("secret_name", &["secret", "set", "TOKEN=hunter2", "--from-stdin"]),
        ("secret_without_a_terminal", &["secret", "set", "TOKEN"]),
        ("secret_from_no_file", &["secret", "set", "TOKEN", "--from-file", "../none"]),
        ("secret_on_the_command_line", &["secret", "set", "TOKEN", "hunter2"]),
        ("secret_not_stored", &["secret", "rm", "TOKEN"]),
        ("bad_waiver", &["run", "--waive", "limits.memroy", "--", "true"]),
        ("waiver_of_a_wall", &["run", "--waive", "identity", "--", "true"]),
        ("unknown_protected_name", &["run", "--unprotect", ".git/hook", "--", "true"]),
        ("bad_variable", &["run", "--env", "NAME", "--", "true"]),
        ("unknown_provider", &["run", "--provider", "bwarp", "--", "true"]),
        ("unbuilt_provider", &["run", "--provider", "microvm", "--", "true"]),
        ("terminal_and_json", &["run", "-t", "--json", "--", "true"]),
        ("policy_typo", &["run", "--policy", "../typo.toml", "--", "true"]),
        ("policy_wrong_value", &["run", "--policy", "../wrong.toml", "--", "true"]),
        ("policy_broken", &["run", "--policy", "../broken.toml", "--", "true"]),
        ("policy_nul", &["run", "--policy", "../nul.json", "--", "true"]),
        ("policy_missing", &["run", "--policy", "../none.toml", "--", "true"]),
        ("policy_directory", &["run", "--policy", "..", "--", "true"]),
        ("policy_device", &["run", "--policy", "/dev/zero", "--", "true"]),
        ("workspace_missing", &["run", "--workspace", "../none", "--", "true"]),
        ("workspace_is_a_file", &["run", "--workspace", "../typo.toml", "--", "true"]),
        ("read_missing", &["run", "--read", "/none/at/all", "--", "true"]),
        ("unknown_syscall", &["run", "--allow-syscall", "Not A Call", "--", "true"]),
        ("receipt_unwritable", &["run", "--receipt", "../none/receipt", "--", "true"]),
        ("command_not_found", &["run", "--", "no-such-command"]),
        ("directory_not_there", &["run", "--cwd", "/none/at/all", "--", "true"]),
        ("check_of_nothing", &["policy", "check", "none.toml"]),
        ("trust_of_nothing", &["trust"]),
        ("allow_of_nothing", &["denials", "--allow", "1"]),
        ("for_without_allow", &["denials", "--for", "project"]),
        ("unknown_shell", &["completions", "tcsh"]),
        ("man_unwritable", &["man", "/proc/none"]),
    ];
    let mut all = String::new();
    for (name, args) in cases {
        let said = place.said(args);
        let code = if *name == "command_not_found" { 127 } else { 125 };
        assert!(said.starts_with(&format!("exit {code}\n")), "{name}: {said}");
        let errors = said.split_once("--- stderr\n").unwrap().1;
        if name.starts_with("secret_") {
            assert!(!said.contains("hunter2"), "{name} repeats what may be a value: {said}");
        }
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 2, "{name}: not a reason and a next step: {said}");
        assert!(
            lines[0].starts_with("ringfence: error: ") && lines[1].starts_with("  try: "),
            "{name}: {said}"
        );
        all.push_str(&format!("# {name}\n$ ringfence {}\n{errors}\n", args.join(" ")));
    }
    assert_snapshot!("bad_input", all);
}

#[test]
fn an_unusable_state_directory_is_said() {
    let place = Place::new();
    let mut command = place.command(&["run", "--", "true"]);
    let output = command.env("RINGFENCE_STATE_DIR", "/proc/none").output().unwrap();
    assert_snapshot!("state_unwritable", place.shown(&output));
}

#[test]
fn a_program_of_the_host_that_is_not_shown_is_named_with_the_flag() {
    let place = Place::new();
    let bin = place.root.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::copy("/bin/true", bin.join("my-tool")).unwrap();
    let mut command = place.command(&["run", "--", "my-tool"]);
    let output = command.env("PATH", format!("/usr/bin:/bin:{}", bin.display())).output().unwrap();
    assert_snapshot!("command_not_shown", place.shown(&output));
}

#[test]
fn a_file_that_is_no_program_is_126() {
    let place = Place::new();
    place.write("ws/data", "just text");
    assert_snapshot!("not_executable", place.said(&["run", "--", "./data"]));
}

#[test]
fn every_verb_has_help_with_examples() {
    let place = Place::new();
    let verbs: &[&[&str]] = &[
        &[],
        &["run"],
        &["policy"],
        &["policy", "show"],
        &["policy", "schema"],
        &["policy", "check"],
        &["trust"],
        &["denials"],
        &["secret"],
        &["secret", "set"],
        &["secret", "ls"],
        &["secret", "rm"],
        &["mcp"],
        &["pool"],
        &["serve"],
        &["key"],
        &["actions"],
        &["audit"],
        &["doctor"],
        &["completions"],
        &["man"],
    ];
    for verb in verbs {
        let output = place.output(&[verb, &["--help"][..]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{verb:?}");
        assert!(text.contains("Example"), "{verb:?} has no examples:\n{text}");
    }
    assert_snapshot!("help", place.said(&["--help"]));
    assert_snapshot!("help_run", place.said(&["run", "--help"]));
}

#[test]
fn the_lone_parser_of_run_says_the_same_as_the_whole_one() {
    let place = Place::new();
    // A global flag before the verb takes the other way in.
    let alone = place.output(&["run", "-h"]);
    assert!(String::from_utf8_lossy(&alone.stdout).contains("Usage: ringfence run [OPTIONS] <CMD>..."));
    assert_eq!(place.output(&["run", "--version"]).status.code(), Some(125));
    assert_eq!(place.output(&["--version"]).status.code(), Some(0));
}

#[test]
fn no_verb_prints_the_help_on_stderr() {
    let place = Place::new();
    let output = place.output(&[]);
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: ringfence"));
}

#[test]
fn a_refusal_is_json_too_where_that_was_asked_for() {
    let place = Place::new();
    let output = place.output(&["run", "--json", "--workspace", "../none", "--", "true"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["exit_code"], 125);
    assert_eq!(object["error"]["code"], "bad_request");
    assert!(object["error"]["hint"].as_str().is_some_and(|hint| hint.contains("--workspace")));
}

#[test]
fn schema_check_completions_and_man() {
    let place = Place::new();
    let schema: serde_json::Value =
        serde_json::from_slice(&place.output(&["policy", "schema"]).stdout).unwrap();
    assert!(schema["properties"]["limits"].is_object());
    place.write("good.toml", "[limits]\nmemory = \"1G\"\n");
    assert_eq!(
        place.said(&["policy", "check", "../good.toml"]),
        "exit 0\n--- stdout\n../good.toml: good\n--- stderr\n"
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = place.output(&["completions", shell]);
        assert!(String::from_utf8_lossy(&script.stdout).contains("workspace"), "{shell}");
    }
    let pages = place.root.path().join("man");
    assert_eq!(place.output(&["man", pages.to_str().unwrap()]).status.code(), Some(0));
    let page = std::fs::read_to_string(pages.join("ringfence-run.1")).unwrap();
    assert!(page.contains("\\-\\-workspace") && page.contains("Examples"), "{page}");
}

#[test]
fn doctor_gives_a_row_for_each_mechanism() {
    let place = Place::new();
    let output = place.output(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    for name in [
        "kernel",
        "sandbox",
        "Landlock",
        "seccomp notification",
        "throwaway layers",
        "workspace here",
        "network by name",
        "secret store",
    ] {
        assert_eq!(row(name)["status"], "ok", "{report:#}");
    }
    assert_eq!(output.status.code(), Some(i32::from(report["restrictive"] != true)));
    // A gap without a fix helps nobody.
    for row in rows.iter().filter(|row| row["status"] != "ok") {
        assert_ne!(row["fix"], "", "{row}");
    }
    let plain = place.output(&["doctor"]);
    assert!(String::from_utf8_lossy(&plain.stdout).contains("Landlock\tok\tABI "));
    assert!(leaves_nothing(&place.root.path().join("ws")));
}

fn leaves_nothing(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let place = Place::new();
    let line = format!("{} policy show | true", env!("CARGO_BIN_EXE_ringfence"));
    let output = Command::new("bash").args(["-c", &line]).env("HOME", place.root.path()).output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
}
