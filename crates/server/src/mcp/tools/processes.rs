//! `sandbox_process_*`: commands that go on while a model does other things.

use std::collections::BTreeMap;

use ringfence_sandbox::{LogReader, LogStream, Sandbox};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::{Words, checked, span};
use super::{Call, parsed};
use crate::blocking;
use crate::error::{Answer, ApiError};
use crate::mcp::answer::told;
use crate::mcp::host::Command;

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
    // Escaped it may be six times as long; the rest comes with the next call.
    let most = call.limit.bytes / 2;
    let answer = blocking(move || read(&sandbox, input.process, input.from, most)).await?;
    told(&answer)
}

fn read(sandbox: &Sandbox, process: u32, from: u64, most: usize) -> Answer<OutputOutput> {
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
    while stdout.len() + stderr.len() < most
        && let Some((stream, bytes)) =
            reader.read_piece().map_err(|error| ApiError::internal("read a log", error))?
    {
        match stream {
            LogStream::Stdout => stdout.extend_from_slice(&bytes),
            LogStream::Stderr => stderr.extend_from_slice(&bytes),
        }
    }
    Ok(OutputOutput {
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        next: reader.offset(),
        dropped: Some(reader.dropped()).filter(|dropped| *dropped > 0),
        running: known.result.is_none(),
        exit_code: known.result.map(|result| result.end.exit_code()),
    })
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
