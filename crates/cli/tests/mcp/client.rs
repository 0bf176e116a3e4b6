//! A small client: one line a message, on the pipes of a `ringfence mcp`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ringfence_testing::{Outcome, Running, Scene, Test};
use serde_json::{Value, json};

/// Far beyond what any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    running: Option<Running>,
    to: Option<File>,
    heard: Receiver<Value>,
    next: u64,
    /// Notifications that came while something else was waited for.
    pub(crate) notices: Vec<Value>,
}

impl Client {
    /// Started in the scene's workspace, before any word.
    pub(crate) fn silent<S: Into<OsString>>(scene: &Scene, flags: impl IntoIterator<Item = S>) -> Self {
        Self::of(scene, Test::in_scene(scene), flags)
    }

    fn of<S: Into<OsString>>(scene: &Scene, test: Test, flags: impl IntoIterator<Item = S>) -> Self {
        let (their_in, to) = std::io::pipe().unwrap();
        let (from, their_out) = std::io::pipe().unwrap();
        let running = test
            .verb(["mcp"])
            .args(flags)
            .cwd(scene.workspace())
            .stdin_file(File::from(OwnedFd::from(their_in)))
            .stdout_file(File::from(OwnedFd::from(their_out)))
            .spawn_call();
        let (say, heard) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "rubbish": line }));
                if say.send(message).is_err() {
                    return;
                }
            }
        });
        let to = Some(File::from(OwnedFd::from(to)));
        Self { running: Some(running), to, heard, next: 1, notices: Vec::new() }
    }

    /// And introduced, as a client of that name.
    pub(crate) fn named<S: Into<OsString>>(
        scene: &Scene,
        flags: impl IntoIterator<Item = S>,
        name: &str,
    ) -> Self {
        Self::able(scene, flags, name, json!({}))
    }

    /// And with capabilities of its own.
    pub(crate) fn able<S: Into<OsString>>(
        scene: &Scene,
        flags: impl IntoIterator<Item = S>,
        name: &str,
        capabilities: Value,
    ) -> Self {
        Self::silent(scene, flags).introduced(name, capabilities)
    }

    /// Started with the rules of `client`, by a process that had the environment first, but for `more`.
    pub(crate) fn with_rules(scene: &Scene, client: &str, more: &[(&str, &str)]) -> Self {
        Self::with_rules_silent(scene, client, more).introduced(client, json!({}))
    }

    pub(crate) fn with_rules_silent(scene: &Scene, client: &str, more: &[(&str, &str)]) -> Self {
        Self::of(scene, Test::in_scene(scene).by_client(more), ["--rules-of", client])
    }

    /// Refused: the client has `variable`, and what it starts has another value of it.
    pub(crate) fn with_rules_over(
        scene: &Scene,
        client: &str,
        (name, mine): (&str, &str),
        theirs: &str,
    ) -> Outcome {
        let test = Test::in_scene(scene).env(name, mine).by_client(&[(name, theirs)]);
        Self::of(scene, test, ["--rules-of", client]).end()
    }

    /// The same by a client that has `variables` and keeps them for itself, as Codex does.
    pub(crate) fn with_rules_kept(scene: &Scene, client: &str, variables: &[(&str, &str)]) -> Self {
        let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
        let test =
            variables.iter().fold(Test::in_scene(scene), |test, (name, value)| test.env(*name, *value));
        let test = test.by_client_that_keeps(&names);
        Self::of(scene, test, ["--rules-of", client]).introduced(client, json!({}))
    }

    fn introduced(mut self, name: &str, capabilities: Value) -> Self {
        let client = &mut self;
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": name, "version": "1" },
        });
        let answer = client.ask("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "ringfence", "{answer}");
        client.tell("notifications/initialized", json!({}));
        self
    }

    pub(crate) fn start(scene: &Scene) -> Self {
        Self::named(scene, [] as [&str; 0], "test")
    }

    pub(crate) fn send(&mut self, line: &[u8]) {
        let to = self.to.as_mut().expect("an open client");
        to.write_all(line).and_then(|()| to.write_all(b"\n")).expect("write to ringfence mcp");
    }

    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send(message.to_string().as_bytes());
    }

    /// Send a request; its id.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(message.to_string().as_bytes());
        id
    }

    /// The next message, whatever it is; none when the other end has closed.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        match self.heard.recv_timeout(PATIENCE) {
            Ok(message) => Some(message),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(_) => panic!("ringfence mcp says nothing"),
        }
    }

    #[track_caller]
    pub(crate) fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear().expect("an answer");
            if message["id"] == id {
                return message;
            }
            self.notices.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer_to(id)
    }

    pub(crate) fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// A tool's result, whole.
    #[track_caller]
    pub(crate) fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer_to(id);
        checked(&answer)
    }

    /// What a tool says, where nothing went wrong.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// The error of a tool that refuses.
    #[track_caller]
    pub(crate) fn refusal(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["structuredContent"]["error"].clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.as_ref().expect("a client").pid()
    }

    pub(crate) fn kill(&mut self) {
        self.running.as_ref().expect("a client").signal(rustix::process::Signal::KILL);
    }

    /// Close our end, and wait for the other one.
    pub(crate) fn end(&mut self) -> Outcome {
        self.to = None;
        self.running.take().expect("a client").wait()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.to = None;
        if let Some(running) = self.running.take()
            && !std::thread::panicking()
        {
            let outcome = running.wait();
            assert!(outcome.exit == 0 || outcome.exit == 137 || outcome.exit == -1, "{}", outcome.describe());
        }
    }
}

/// A tool's result: text and structure say the same.
#[track_caller]
pub(crate) fn checked(answer: &Value) -> Value {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"));
    let told: Value = serde_json::from_str(text).expect("the text is JSON");
    assert_eq!(told, result["structuredContent"]);
    result.clone()
}
