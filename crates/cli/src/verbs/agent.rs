//! `ringfence agent`

use std::io::IsTerminal;
use std::time::Duration;

use ringfence_sandbox::{Attending, Exec, ExecStdio};
use ringfence_service::{Places, create_session, remove_session};

use super::session::create::{resolved, tell};
use super::session::exec::in_foreground;
use crate::args::AgentArgs;
use crate::failure::Failure;
use crate::output;

/// How long an empty session stays whose `ringfence agent` was killed.
const LINGERS: Duration = Duration::from_secs(30);

pub(crate) fn agent(args: AgentArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    // What stood behind `agent`, without the command: the same session can be made again.
    let typed = std::env::args_os().skip(2).take_while(|word| word != "--").filter(|word| word != "--keep");
    let mut create = resolved(&places, args.session, typed.collect())?;
    // If this process is killed, the agent dies with its stdio, and the session soon after.
    if !args.keep && create.idle.is_none() {
        create.idle = Some(LINGERS);
    }
    let created = create_session(&places, create)?;
    tell(&created);
    let term = std::env::var_os("TERM").map(|term| ("TERM".to_owned(), term));
    let exec = Exec {
        argv: args.command,
        environment: term.into_iter().collect(),
        directory: None,
        timeout: None,
        stdio: ExecStdio::default(),
    };
    // A program that speaks a protocol over stdio must not have a terminal between it and its client.
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let how = if is_terminal { Attending::Terminal } else { Attending::Stdio };
    let done = in_foreground(&places, &created.sandbox, exec, how);
    let name = created.sandbox.name();
    if args.keep {
        output::note(&format!("the session is kept: ringfence session exec {name} -- CMD"));
    } else {
        for note in remove_session(&places, &name)? {
            output::note(&note);
        }
    }
    done
}
