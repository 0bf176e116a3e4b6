//! `sandbox_process_*`: commands that go on while a model does other things.

use std::collections::BTreeMap;

use ringfence_sandbox::{LogReader, LogStream, Sandbox};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::{checked, span};
use super::{Call, parsed};
use crate::blocking;
use crate::error::{Answer, ApiError};
use crate::mcp::answer::told;
use crate::mcp::client::AnswerLimit;
use crate::mcp::cut::escaped;
use crate::mcp::host::{Command, Words};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// What can be handed to a command before it reads.
const MOST_STDIN: usize = 60 << 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartInput {
    /// A shell command, or a program and its arguments.
    command: Words,
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// It ends after this time; without one, with its session.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    session: Option<String>,
    stdin: Option<String>,
    /// Of this same call, once approved.
    action: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StartOutput {
    process: u32,
    session: String,
}

pub(super) async fn start(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: StartInput = parsed(arguments)?;
    call.host.may_change()?;
    checked(&input.env, input.cwd.as_deref())?;
    call.host.may_run(&input.command, input.stdin.as_deref()).await?;
    let stdin = input.stdin.unwrap_or_default();
    if stdin.len() > MOST_STDIN {
        return Err(ApiError::bad(
            format!("more than {MOST_STDIN} bytes of stdin"),
            "write them to a file with sandbox_file_write, and let the command read that",
        ));
    }
    let argv = input.command.argv()?;
    let session = call.connection.living(&call.host, input.session.as_deref()).await?;
    let command = Command {
        argv,
        directory: input.cwd,
        variables: input.env,
        stdin,
        timeout: input.timeout_ms.map(span),
        action: call.connection.claim(input.action).await,
    };
    let process = call.host.start(&session, command).await?;
    told(&StartOutput { process, session })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputInput {
    process: u32,
    session: Option<String>,
    /// `next` of the answer before.
    #[serde(default)]
    from: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct OutputOutput {
    stdout: String,
    stderr: String,
    /// For `from` of the next call.
    next: u64,
    /// Bytes that are no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

pub(super) async fn output(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: OutputInput = parsed(arguments)?;
    let (_, sandbox) = call.sandbox(input.session.as_deref()).await?;
    let fits = Fits::of(call.limit);
    let answer = blocking(move || read(&sandbox, input.process, input.from, fits)).await?;
    told(&answer)
}

fn read(sandbox: &Sandbox, process: u32, from: u64, mut fits: Fits) -> Answer<OutputOutput> {
    let known = sandbox.processes()?.into_iter().find(|known| known.process == process && known.detached);
    let missing = || {
        ApiError::new(
            axum::http::StatusCode::NOT_FOUND,
            "no_process",
            format!("there is no background process {process} in this session"),
            "start one with sandbox_process_start, and name its session",
        )
    };
    let known = known.ok_or_else(missing)?;
    let mut reader = LogReader::open(&sandbox.place().logs(process), from).map_err(|_| missing())?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut next = from;
    let mut last = (LogStream::Stdout, 0);
    loop {
        let piece = reader.read_piece().map_err(|error| ApiError::internal("read a log", error))?;
        let Some((stream, bytes)) = piece else { break };
        let to = if stream == LogStream::Stdout { &mut stdout } else { &mut stderr };
        let taken = fits.take(to, &bytes);
        last = (stream, taken);
        next = reader.offset() - (bytes.len() - taken) as u64;
        if taken < bytes.len() {
            break;
        }
    }
    let to = if last.0 == LogStream::Stdout { &mut stdout } else { &mut stderr };
    let torn = begun(to);
    // A character that is only begun comes whole with the next call.
    if torn <= last.1 && known.result.is_none() {
        to.truncate(to.len() - torn);
        next -= torn as u64;
    }
    Ok(OutputOutput {
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        next,
        dropped: Some(reader.dropped()).filter(|dropped| *dropped > 0),
        running: known.result.is_none(),
        exit_code: known.result.map(|result| result.end.exit_code()),
    })
}

/// What an answer has room for still.
#[derive(Clone, Copy, Debug)]
struct Fits {
    /// As JSON.
    bytes: usize,
    lines: usize,
}

/// What the rest of an answer takes.
const REST: usize = 512;

impl Fits {
    fn of(limit: AnswerLimit) -> Self {
        Self { bytes: limit.bytes - REST, lines: limit.lines - limit.lines / 10 }
    }

    /// Add what fits of these bytes, up to the end of a character; how many those are.
    fn take(&mut self, to: &mut Vec<u8>, bytes: &[u8]) -> usize {
        // A writer may have torn a character, which goes on here.
        let begun = begun(to);
        let whole: Vec<u8> = to[to.len() - begun..].iter().chain(bytes).copied().collect();
        let taken = self.fitting(&whole).saturating_sub(begun);
        to.extend_from_slice(&bytes[..taken]);
        taken
    }

    fn fitting(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                if !self.spend(character) {
                    return at;
                }
                at += character.len_utf8();
            }
            let rest = chunk.invalid().len();
            // One that is not whole yet is paid for when it is.
            let is_begun = at + rest == bytes.len() && begun(&bytes[at..]) == rest;
            if rest > 0 && !is_begun && !self.spend(char::REPLACEMENT_CHARACTER) {
                return at;
            }
            at += rest;
        }
        at
    }

    fn spend(&mut self, character: char) -> bool {
        let (bytes, lines) = (escaped(character), usize::from(character == '\n'));
        if bytes > self.bytes || lines > self.lines {
            return false;
        }
        self.bytes -= bytes;
        self.lines -= lines;
        true
    }
}

/// How many bytes at the end are the beginning of a character.
fn begun(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    (1..=tail.len())
        .rev()
        .find(|length| {
            let end = &tail[tail.len() - length..];
            std::str::from_utf8(end)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopInput {
    process: u32,
    session: Option<String>,
    /// Ask it first to end by itself.
    #[serde(default)]
    gently: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StopOutput {
    signalled: u32,
}

pub(super) async fn stop(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: StopInput = parsed(arguments)?;
    call.host.may_change()?;
    let session = call.connection.living(&call.host, input.session.as_deref()).await?;
    let signal = if input.gently { SIGTERM } else { SIGKILL };
    call.host.signal(&session, input.process, signal).await?;
    told(&StopOutput { signalled: input.process })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::cut::json_length;

    #[test]
    fn pieces_are_cut_between_characters_and_come_whole() {
        let text = "aä€😀\"\\\n\u{1}".repeat(40);
        for size in 1..9 {
            let (mut all, mut rest) = (Vec::new(), text.as_bytes());
            while !rest.is_empty() {
                let mut fits = Fits { bytes: 50, lines: 3 };
                let mut to = Vec::new();
                let mut taken = 0;
                for piece in rest.chunks(size) {
                    let fitting = fits.take(&mut to, piece);
                    taken += fitting;
                    if fitting < piece.len() {
                        break;
                    }
                }
                taken -= begun(&to);
                to.truncate(taken);
                let told = String::from_utf8(to).expect("no character is torn");
                assert!(json_length(&told) <= 50 && told.matches('\n').count() <= 3, "{told}");
                assert!(taken > 0);
                all.extend_from_slice(told.as_bytes());
                rest = &rest[taken..];
            }
            assert_eq!(all, text.as_bytes(), "{size}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_paid_for() {
        let mut fits = Fits { bytes: 30, lines: 3 };
        let mut to = Vec::new();
        assert_eq!(fits.take(&mut to, &[0xff; 100]), 10);
    }
}
