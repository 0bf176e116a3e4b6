//! `ringfence secret`: a value goes in by a pipe, a file or a terminal, and never comes out again.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const VALUE: &str = "planted-4f1c09d2";

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("rfsecret-").tempdir().unwrap())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.0.path())
            .env("RINGFENCE_STATE_DIR", self.0.path().join("state"))
            .current_dir(self.0.path());
        command
    }

    fn call(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_ringfence"));
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // One that reads nothing may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(!said.contains(VALUE), "the value was printed: {said}");
        output
    }

    fn names(&self) -> String {
        text(&self.call(&["secret", "ls"], "").stdout)
    }

    /// Neither a file nor its name has the value.
    fn holds_no_value(&self) {
        for entry in std::fs::read_dir(self.0.path().join("state/secrets")).unwrap().flatten() {
            let content = std::fs::read(entry.path()).unwrap();
            assert!(!text(&content).contains(VALUE), "{:?}", entry.path());
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn by_pipe_and_by_file_listed_and_removed() {
    let place = Place::new();
    assert_eq!(place.names(), "nothing is stored\n");
    let stored = place.call(&["secret", "set", "BY_PIPE", "--from-stdin"], &format!("{VALUE}\n"));
    assert_eq!(text(&stored.stdout), "BY_PIPE is stored; the key to it is in its key file\n");
    std::fs::write(place.0.path().join("token"), VALUE).unwrap();
    assert!(place.call(&["secret", "set", "BY_FILE", "--from-file", "token"], "").status.success());
    assert_eq!(place.names(), "BY_FILE\nBY_PIPE\n");
    let json: serde_json::Value =
        serde_json::from_slice(&place.call(&["secret", "ls", "--json"], "").stdout).unwrap();
    assert_eq!(json, serde_json::json!({ "names": ["BY_FILE", "BY_PIPE"], "key": "file" }));
    place.holds_no_value();
    assert!(place.call(&["secret", "rm", "BY_PIPE"], "").status.success());
    assert_eq!(place.names(), "BY_FILE\n");
    assert_eq!(place.call(&["secret", "rm", "BY_PIPE"], "").status.code(), Some(125));
}

#[test]
fn set_and_rm_have_json_and_so_have_their_refusals() {
    let place = Place::new();
    let json = |args: &[&str], input: &str, code: i32| -> serde_json::Value {
        let output = place.call(args, input);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{args:?} printed no JSON: {}", text(&output.stdout)))
    };
    let set = json(&["secret", "set", "--json", "X", "--from-stdin"], VALUE, 0);
    assert_eq!(set, serde_json::json!({ "name": "X", "stored": true, "key": "file" }));
    let empty = json(&["secret", "set", "--json", "X", "--from-stdin"], "", 125);
    assert!(empty["error"]["message"].as_str().is_some_and(|text| text.contains("empty")), "{empty}");
    let removed = json(&["secret", "rm", "--json", "X"], "", 0);
    assert_eq!(removed, serde_json::json!({ "name": "X", "stored": false }));
    assert!(json(&["secret", "rm", "--json", "X"], "", 125)["error"]["message"].is_string());
}

#[test]
fn an_empty_value_and_one_that_is_no_text_are_refused() {
    let place = Place::new();
    let empty = place.call(&["secret", "set", "X", "--from-stdin"], "\n");
    assert_eq!(empty.status.code(), Some(125));
    assert!(text(&empty.stderr).contains("it is empty"), "{}", text(&empty.stderr));
    std::fs::write(place.0.path().join("binary"), [0xff, 0xfe]).unwrap();
    let binary = place.call(&["secret", "set", "X", "--from-file", "binary"], "");
    assert_eq!(binary.status.code(), Some(125));
    assert_eq!(place.names(), "nothing is stored\n");
}

#[test]
fn typed_on_a_terminal_it_is_not_shown() {
    let place = Place::new();
    // script(1) is the terminal; `keys` are typed once the question is there.
    let typed = |keys: &str, name: &str| {
        let line = format!("{} secret set {name}", env!("CARGO_BIN_EXE_ringfence"));
        let mut command = place.command("script");
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shown = Vec::new();
        while !text(&shown).contains("(not shown): ") {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "no question: {}", text(&shown));
            shown.push(byte[0]);
        }
        stdin.write_all(keys.as_bytes()).unwrap();
        stdout.read_to_end(&mut shown).unwrap();
        child.wait().unwrap();
        text(&shown)
    };
    let shown = typed(&format!("{VALUE}x\x7f\n"), "TYPED");
    assert!(shown.contains("value of TYPED (not shown): "), "{shown}");
    assert!(shown.contains("TYPED is stored"), "{shown}");
    assert!(!shown.contains(VALUE), "{shown}");
    let shown = typed("half\x03", "GIVEN_UP");
    assert!(shown.contains("nothing is stored"), "{shown}");
    assert_eq!(place.names(), "TYPED\n");
}
