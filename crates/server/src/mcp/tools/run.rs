//! `sandbox_run`, and how every command is waited for and told of.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use rmcp::model::{CallToolResult, ProgressNotificationParam};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Call, parsed};
use crate::error::{Answer, ApiError};
use crate::mcp::answer::{advice, told};
use crate::mcp::client::AnswerLimit;
use crate::mcp::cut::{head_and_tail, json_length};
use crate::mcp::host::{Command, NetworkWish, Sink, Stream, Wish, Words};
use crate::mcp::outputs::Collected;
use crate::output::Characters;

/// Where nobody says how long.
const TIMEOUT_MS: u64 = 30_000;
/// Longer than any call or session is of use.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// More of them say nothing new.
const MOST_DENIALS: usize = 10;
/// How often a client that waits is told that we are still there: some give up after a minute of silence.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What one notification holds at most.
const TOLD_AT_ONCE: usize = 8 << 10;
/// What it takes to say where the whole outputs are.
const WHERE_WHOLE: usize = 400;
/// Where an answer leaves out what is too long.
const OUTPUT_DIRECTORY: &str = "/tmp/ringfence-output";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunInput {
    /// A shell command, or program and arguments.
    command: Words,
    /// Absolute, or below the workspace.
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// All of it ends after this time; 30000 by default.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// restrictive, moderate or permissive: a sandbox of its own, within what the user allows.
    profile: Option<String>,
    /// As `profile`.
    image: Option<String>,
    /// As `profile`.
    network: Option<NetworkWish>,
    /// Defaults of claude-code, codex or gemini. As `profile`.
    compat: Option<String>,
    /// Output as it comes, by progress notifications.
    #[serde(default)]
    streaming: bool,
    /// Run in this session.
    session: Option<String>,
    stdin: Option<String>,
    /// Of this same call, once approved.
    action: Option<String>,
}

/// A time as a model gives it: no clock here can be made to overflow.
pub(super) fn span(ms: u64) -> Duration {
    Duration::from_millis(ms.max(1)).min(LONGEST)
}

/// Variables and a directory that could be started with.
pub(super) fn checked(variables: &BTreeMap<String, String>, directory: Option<&str>) -> Answer<()> {
    crate::http::check_variables(variables)?;
    if directory.is_some_and(|directory| directory.contains('\0')) {
        return Err(ApiError::bad("`cwd` has a NUL byte in it", "leave it out"));
    }
    Ok(())
}

/// What came of a command.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct RunOutput {
    /// 128+n for signal n, 124 after a timeout, 126 and 127 if it can't be started.
    exit_code: i64,
    stdout: String,
    stderr: String,
    #[serde(skip_serializing_if = "is_false")]
    timed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i64>,
    duration_ms: u64,
    /// Where the command ran, if that is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Where all of an output is of which only head and tail are here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    whole: Vec<Whole>,
    /// What was blocked, by which rule, and what would allow it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    denials: Vec<Value>,
    /// What to do about the denials.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Why it could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_started: Option<Value>,
    /// The skill whose script it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Whole {
    stream: &'static str,
    bytes: u64,
    /// For resources/read.
    resource: String,
    /// For sandbox_file_read, in the same session.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

pub(super) async fn run(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: RunInput = parsed(arguments)?;
    checked(&input.env, input.cwd.as_deref())?;
    call.host.may_run(&input.command, input.stdin.as_deref()).await?;
    let command = Command {
        argv: input.command.argv()?,
        directory: input.cwd,
        variables: input.env,
        stdin: input.stdin.unwrap_or_default(),
        timeout: Some(span(input.timeout_ms.unwrap_or(TIMEOUT_MS))),
        action: input.action,
    };
    let wish = Wish {
        compat: input.compat,
        profile: input.profile,
        image: input.image,
        network: input.network,
        granted: call.granted,
    };
    let session = input.session;
    if session.is_some() && wish != Wish::default() {
        return Err(ApiError::bad(
            "a session has the policy that it was made with",
            "leave `session` out, or `profile`, `image`, `network` and `compat`",
        ));
    }
    let fresh = wish != Wish::default();
    let (host, connection) = (&call.host, &call.connection);
    let finished = waited(call, input.streaming, |sink| async move {
        if fresh {
            return Ok((None, host.run(wish, command, sink).await?));
        }
        let (session, facts) = connection.exec(host, session.as_deref(), command, sink).await?;
        Ok((Some(session), facts))
    })
    .await?;
    told(&finished)
}

/// Wait for a command, collect what it writes, tell of it as it comes, and make the answer fit.
pub(super) async fn waited<F>(
    call: &Call,
    streaming: bool,
    begin: impl FnOnce(Sink) -> F,
) -> Answer<RunOutput>
where
    F: Future<Output = Answer<(Option<String>, Value)>>,
{
    let (sink, mut output) = mpsc::channel(16);
    let running = begin(sink);
    let collecting = async {
        let (mut stdout, mut stderr) = (Collected::default(), Collected::default());
        let mut teller = Teller::new(call, streaming);
        loop {
            let heard = tokio::time::timeout_at(teller.due, output.recv()).await;
            if let Ok(None) = heard {
                break;
            }
            if let Ok(Some((stream, bytes))) = heard {
                let to = if stream == Stream::Stdout { &mut stdout } else { &mut stderr };
                to.push(&bytes);
                teller.tell(stream, &bytes, stdout.written() + stderr.written()).await;
            }
            // Output that nobody is told of as it comes is silence too.
            teller.still_here(stdout.written() + stderr.written()).await;
        }
        teller.rest(stdout.written() + stderr.written()).await;
        (stdout, stderr)
    };
    let (ended, (stdout, stderr)) = tokio::join!(running, collecting);
    let (session, facts) = ended?;
    finished(call, session, facts, stdout, stderr).await
}

/// Tells a client that asked for it how far a command is.
struct Teller<'a> {
    call: &'a Call,
    streaming: bool,
    characters: [Characters; 2],
    last: f64,
    /// When the client will have heard nothing for too long.
    due: Instant,
}

impl<'a> Teller<'a> {
    fn new(call: &'a Call, streaming: bool) -> Self {
        Self { call, streaming, characters: Default::default(), last: 0.0, due: Instant::now() + HEARTBEAT }
    }

    async fn tell(&mut self, stream: Stream, bytes: &[u8], written: u64) {
        if self.streaming {
            let ready = self.characters[usize::from(stream == Stream::Stderr)].push(bytes);
            self.send(&String::from_utf8_lossy(&ready), written).await;
        }
    }

    async fn rest(&mut self, written: u64) {
        for index in 0..self.characters.len() {
            let rest = self.characters[index].rest();
            self.send(&String::from_utf8_lossy(&rest), written).await;
        }
    }

    async fn still_here(&mut self, written: u64) {
        if Instant::now() >= self.due {
            self.due = Instant::now() + HEARTBEAT;
            self.send(&format!("still running, {written} bytes of output so far"), written).await;
        }
    }

    async fn send(&mut self, text: &str, written: u64) {
        let Some((peer, token)) = self.call.progress.as_ref().filter(|_| !text.is_empty()) else { return };
        self.due = Instant::now() + HEARTBEAT;
        for part in parts(text) {
            // Each has to be more than the one before.
            self.last = if written as f64 > self.last { written as f64 } else { self.last + 1.0 };
            let told = ProgressNotificationParam::new(token.clone(), self.last).with_message(part);
            let _ = peer.notify_progress(told).await;
        }
    }
}

/// Pieces of a bounded size, no character torn.
fn parts(mut text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let mut at = text.len().min(TOLD_AT_ONCE);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let (part, rest) = text.split_at(at);
        parts.push(part);
        text = rest;
    }
    parts
}

async fn finished(
    call: &Call,
    session: Option<String>,
    facts: Value,
    stdout: Collected,
    stderr: Collected,
) -> Answer<RunOutput> {
    let denials = facts["denials"].as_array().cloned().unwrap_or_default();
    let given = |name: &str| facts.get(name).filter(|value| !value.is_null()).cloned();
    let notes = facts["notes"].as_array().into_iter().flatten();
    let mut output = RunOutput {
        exit_code: facts["exit_code"].as_i64().unwrap_or(-1),
        timed_out: facts["timed_out"] == Value::Bool(true),
        signal: facts["signal"].as_i64(),
        duration_ms: facts["duration_ms"].as_u64().unwrap_or_default(),
        advice: advice(&denials),
        denials: bounded(denials.into_iter().take(MOST_DENIALS).map(told_denial), call.limit.bytes / 4),
        notes: bounded(notes.filter_map(|note| note.as_str().map(str::to_owned)), call.limit.bytes / 8),
        not_started: given("error"),
        skill: given("skill"),
        session,
        ..RunOutput::default()
    };
    let (stdout, stderr) = (stdout.bytes(), stderr.bytes());
    let (out_text, err_text) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let beside = serde_json::to_string(&output).map_or(0, |text| text.len()) + WHERE_WHOLE;
    let [for_out, for_err] = shares(call.limit, beside, &out_text, &err_text);
    let (out_told, out_cut) = head_and_tail(&out_text, for_out);
    let (err_told, err_cut) = head_and_tail(&err_text, for_err);
    (output.stdout, output.stderr) = (out_told, err_told);
    for (stream, bytes, cut) in [("stdout", stdout, out_cut), ("stderr", stderr, err_cut)] {
        if cut {
            let whole = keep(call, output.session.as_deref(), stream, bytes).await;
            output.whole.push(whole);
        }
    }
    Ok(output)
}

/// The first of them, and as many more as fit into this much JSON.
fn bounded<T: Serialize>(all: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut spent = 0;
    let fits = |(at, one): &(usize, T)| {
        spent += serde_json::to_string(one).map_or(most, |text| text.len() + 1);
        *at == 0 || spent <= most
    };
    all.enumerate().take_while(fits).map(|(_, one)| one).collect()
}

/// What a model needs of a denial.
fn told_denial(denial: Value) -> Value {
    let mut told = serde_json::Map::new();
    for name in ["kind", "what", "process", "rule", "remedy", "flag", "count", "inferred"] {
        if let Some(value) = denial.get(name).filter(|value| !value.is_null()) {
            told.insert(name.into(), value.clone());
        }
    }
    Value::Object(told)
}

/// How much of an answer each stream may have, where `beside` is told too: what one does not need is the other's.
fn shares(limit: AnswerLimit, beside: usize, stdout: &str, stderr: &str) -> [AnswerLimit; 2] {
    // Some of what is told is not known yet, and something of an output is always told.
    let bytes = limit.bytes.saturating_sub(beside.max(limit.bytes / 8)).max(limit.bytes / 8);
    let (out, err) = (json_length(stdout), json_length(stderr));
    let for_err = err.min((bytes / 3).max(bytes.saturating_sub(out)));
    let lines = |share: usize| (limit.lines * share / bytes.max(1)).max(10);
    let for_out = bytes - for_err;
    [
        AnswerLimit { bytes: for_out, lines: lines(for_out) },
        AnswerLimit { bytes: for_err.max(1), lines: lines(for_err.max(1)) },
    ]
}

/// Keep a whole output: as a resource, and in the session, where every model can get at it.
async fn keep(call: &Call, session: Option<&str>, stream: &'static str, bytes: Vec<u8>) -> Whole {
    let size = bytes.len() as u64;
    let number = call.connection.outputs.keep(bytes.clone());
    let mut file = None;
    if let Some(session) = session {
        let path = format!("{OUTPUT_DIRECTORY}/{number}-{stream}.txt");
        file = call.host.keep_output(session, &path, bytes).await.is_ok().then_some(path);
    }
    Whole { stream, bytes: size, resource: crate::mcp::resources::output_uri(number), file }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_stream_does_not_need_is_the_others() {
        let limit = AnswerLimit { bytes: 8_000, lines: 800 };
        let long = "x".repeat(20_000);
        let [out, err] = shares(limit, 0, &long, "");
        assert_eq!((out.bytes, err.bytes), (7_000, 1));
        let [out, err] = shares(limit, 0, "", &long);
        assert_eq!((out.bytes, err.bytes), (0, 7_000));
        let [out, err] = shares(limit, 0, &long, &long);
        assert!(out.bytes + err.bytes == 7_000 && err.bytes == 7_000 / 3, "{out:?} {err:?}");
        let [out, err] = shares(limit, 0, "short", &long);
        assert!(out.bytes >= 5 && err.bytes == 6_995, "{out:?} {err:?}");
    }

    #[test]
    fn commands_are_words_or_a_shells() {
        assert_eq!(Words::Shell("a | b".into()).argv().unwrap()[1..], ["-c", "a | b"]);
        assert_eq!(Words::Program(vec!["a".into()]).argv().unwrap(), ["a"]);
        for bad in [
            Words::Shell(" ".into()),
            Words::Program(Vec::new()),
            Words::Program(vec![String::new()]),
            Words::Program(vec!["a\0".into()]),
        ] {
            assert!(bad.argv().is_err());
        }
    }

    #[test]
    fn what_is_told_beside_is_taken_off() {
        let limit = AnswerLimit { bytes: 8_000, lines: 800 };
        let [out, err] = shares(limit, 3_000, &"x".repeat(20_000), "");
        assert_eq!((out.bytes, err.bytes), (5_000, 1));
        assert_eq!(bounded(["aaaa", "bbbb", "cccc"].into_iter(), 14), ["aaaa", "bbbb"]);
        assert_eq!(bounded(["aaaa", "bbbb"].into_iter(), 1), ["aaaa"]);
    }

    #[test]
    fn notifications_are_bounded() {
        let text = "€".repeat(TOLD_AT_ONCE);
        let parts = parts(&text);
        assert!(parts.len() > 2 && parts.iter().all(|part| part.len() <= TOLD_AT_ONCE));
        assert_eq!(parts.concat(), text);
    }
}
