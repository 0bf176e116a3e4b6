//! `ringfence session exec` and `shell`

use std::ffi::OsString;
use std::io::IsTerminal;

use ringfence_sandbox::{
    Attending, Captured, Exec, ExecStage, ExecStdio, ProcessEnd, ProcessResult, Sandbox, Stage, attend,
};
use ringfence_service::{Places, explain_not_started, open_session};
use serde::Serialize;

use super::refused;
use crate::args::{SessionExecArgs, SessionNameArgs};
use crate::failure::Failure;
use crate::json::text;
use crate::verbs::run::sentence;
use crate::{output, resolve};

/// What `exec --json` keeps of each stream.
const CAPTURED: usize = 64 << 20;
/// How many denials are told one by one.
const TOLD: usize = 10;

/// What `session exec --json` prints.
#[derive(Serialize)]
struct ExecObject {
    exit_code: i32,
    stdout: String,
    /// Only where stdout is not UTF-8, and `stdout` has replacement characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    truncated: bool,
    #[serde(flatten)]
    result: ProcessResult,
}

pub(crate) fn exec(args: SessionExecArgs) -> Result<i32, Failure> {
    let json = args.json;
    run(args).map_err(|failure| failure.with_json(json))
}

fn run(args: SessionExecArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let sandbox = open_session(&places, &args.name)?;
    let environment = args.env.iter().map(|text| resolve::variable(text)).collect::<Result<Vec<_>, _>>()?;
    let exec = Exec {
        argv: args.command,
        environment: environment.into_iter().map(|(name, value)| (name, value.into())).collect(),
        directory: args.cwd,
        timeout: args.timeout.map(|timeout| timeout.duration()),
        stdio: ExecStdio::default(),
    };
    if args.detach {
        return detach(&sandbox, exec, args.interactive, args.terminal, args.json);
    }
    if args.terminal && args.json {
        return Err(Failure::new(
            "-t and --json cannot be used together: a terminal's output is not captured",
            "leave one of them out",
        ));
    }
    let how = match (args.terminal, args.json) {
        (true, _) => Attending::Terminal,
        (false, true) => Attending::Capture { most: CAPTURED },
        (false, false) => Attending::Stdio,
    };
    in_foreground(&places, &sandbox, exec, how)
}

pub(crate) fn in_foreground(
    places: &Places,
    sandbox: &Sandbox,
    exec: Exec,
    how: Attending,
) -> Result<i32, Failure> {
    let argv = exec.argv.clone();
    let directory = exec.directory.clone();
    let (mut result, captured) = attend(sandbox, exec, how).map_err(refused)?;
    sandbox.explain(&mut result, directory.as_deref(), &captured.stderr);
    let code = result.end.exit_code();
    if let ProcessEnd::NotStarted { stage, errno } = result.end {
        let start = sandbox.facts().map_err(refused)?.directory;
        let directory = directory.map_or(start.clone(), |directory| start.join(directory));
        let stage = match stage {
            Stage::Directory => ExecStage::Directory,
            Stage::Stdio => ExecStage::Stdio,
            Stage::Program => ExecStage::Program,
        };
        output::error(&explain_not_started(places, &argv, &directory, None, stage, errno));
    }
    match how {
        Attending::Capture { .. } => print(code, result, captured),
        Attending::Stdio | Attending::Terminal => tell(&result),
    }
    Ok(code)
}

fn print(exit_code: i32, result: ProcessResult, captured: Captured) {
    let (stdout, stdout_base64) = text(captured.stdout);
    let (stderr, stderr_base64) = text(captured.stderr);
    let truncated = captured.truncated;
    output::json(&ExecObject { exit_code, stdout, stdout_base64, stderr, stderr_base64, truncated, result });
}

fn tell(result: &ProcessResult) {
    for denial in result.denials.iter().take(TOLD) {
        output::denied(&sentence(denial));
    }
    if result.denials.len() > TOLD {
        output::denied(&format!("and {} more: see `ringfence session inspect`", result.denials.len() - TOLD));
    }
}

fn detach(
    sandbox: &Sandbox,
    mut exec: Exec,
    stdin: bool,
    terminal: bool,
    json: bool,
) -> Result<i32, Failure> {
    /// Nobody looks at it yet.
    const USUAL: (u16, u16) = (24, 80);
    exec.stdio = ExecStdio::Log { stdin, terminal: terminal.then_some(USUAL) };
    let process = sandbox.exec(exec).map_err(refused)?;
    if let Some(result) = process.result()
        && let ProcessEnd::NotStarted { .. } = result.end
    {
        output::error(&ringfence_service::ServiceError::new(
            ringfence_service::ErrorCode::CommandNotFound,
            "the command could not be started",
            "run it without -d to see why",
        ));
        return Ok(result.end.exit_code());
    }
    if json {
        output::json(&serde_json::json!({ "process": process.id, "pid": process.pid }));
    } else {
        output::line(process.id.to_string());
    }
    Ok(0)
}

/// The best shell that is there.
pub(crate) fn shell(args: &SessionNameArgs) -> Result<i32, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            "a shell needs a terminal, and stdin is none",
            "run the command itself: ringfence session exec NAME -- sh -c COMMAND",
        ));
    }
    let places = Places::from_env()?;
    let sandbox = open_session(&places, &args.name)?;
    let script = "if command -v bash >/dev/null; then exec bash; else exec sh; fi";
    let argv = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
    let term = std::env::var_os("TERM").map(|term| ("TERM".to_owned(), term));
    let exec = Exec { argv, environment: term.into_iter().collect(), ..Exec::default() };
    in_foreground(&places, &sandbox, exec, Attending::Terminal)
}
