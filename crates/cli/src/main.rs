//! The `ringfence` command: parse, call one service function, print.
//!
//! `ringfence run`, `ringfence skill run` and `ringfence session exec` are on the path of starting every command, so their
//! parsers are built alone, without the other verbs.

mod args;
mod failure;
mod json;
mod output;
mod prompt;
mod quick;
mod resolve;
mod spool;
mod stats;
mod verbs;

use std::ffi::OsString;
use std::process::exit;

use clap::{Args, Command, CommandFactory, FromArgMatches, Subcommand};

use args::{Cli, RunArgs, SessionExecArgs, SessionVerb, SkillRunArgs, SkillVerb, Verb};
use failure::Failure;
use ringfence_sandbox::{
    GUARD_ANEW, GUARD_IN_CONTAINER, GUARD_INSIDE, serve_anew, serve_in_container, serve_inside,
};

fn main() {
    no_core_dumps();
    let argv: Vec<OsString> = std::env::args_os().collect();
    let words: Vec<Option<&str>> = argv.iter().skip(1).take(2).map(|word| word.to_str()).collect();
    let done = match words[..] {
        _ if verbs::wrap::is_link(&argv) => verbs::wrap::linked(&argv),
        [Some("run"), ..] => run_only(argv),
        [Some(GUARD_INSIDE), Some(control)] => serve_inside(control.parse().unwrap_or(-1)),
        [Some(GUARD_IN_CONTAINER), Some(door)] => serve_in_container(door.as_ref()),
        [Some(GUARD_ANEW), Some(legacy)] => serve_anew(legacy.parse().unwrap_or(-1)),
        [Some("skill"), Some("run")] => skill_run_only(argv),
        [Some("session"), Some("exec")] => session_exec_only(argv),
        [Some(word), ..] if word.starts_with("--wrap=") => verbs::wrap::prefixed(&argv),
        _ => any_verb(argv),
    };
    exit(done.unwrap_or_else(|failure| failure.report()))
}

/// What this process was given, secrets in its environment among it, is in its memory: it leaves no core file where a sandbox
/// could read it, and hands none to a program of the host. That is what a limit of one byte does, and none does not.
fn no_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // It can always be lowered.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
}

fn run_only(argv: Vec<OsString>) -> Result<i32, Failure> {
    verbs::run::run(parse_run(argv)?)
}

/// The arguments of `ringfence run`, which may be somebody else's than this process's.
fn parse_run(mut argv: Vec<OsString>) -> Result<RunArgs, Failure> {
    if let Some(run) = argv.get(2..).and_then(quick::quick_run) {
        return Ok(run);
    }
    argv.remove(0);
    let mut command =
        args::described_run(RunArgs::augment_args(Command::new("run").bin_name("ringfence run")));
    let matches =
        command.try_get_matches_from_mut(argv).map_err(|error| Failure::usage(error, "ringfence run"))?;
    RunArgs::from_arg_matches(&matches).map_err(|error| Failure::usage(error, "ringfence run"))
}

/// As fast as `run`: it starts commands too.
fn skill_run_only(mut argv: Vec<OsString>) -> Result<i32, Failure> {
    if let Some(run) = quick::quick_skill_run(&argv[3..]) {
        return verbs::skill::run::run(run);
    }
    argv.drain(..2);
    let usage = |error| Failure::usage(error, "ringfence skill run");
    let command = SkillRunArgs::augment_args(Command::new("run").bin_name("ringfence skill run"));
    let matches = args::described_skill_run(command).try_get_matches_from_mut(argv).map_err(usage)?;
    verbs::skill::run::run(SkillRunArgs::from_arg_matches(&matches).map_err(usage)?)
}

/// An agent's every command.
fn session_exec_only(mut argv: Vec<OsString>) -> Result<i32, Failure> {
    if let Some(exec) = quick::quick_session_exec(&argv[3..]) {
        return verbs::session::exec::exec(exec);
    }
    argv.drain(..2);
    let usage = |error| Failure::usage(error, "ringfence session exec");
    let command = SessionExecArgs::augment_args(Command::new("exec").bin_name("ringfence session exec"));
    let matches = command.try_get_matches_from(argv).map_err(usage)?;
    verbs::session::exec::exec(SessionExecArgs::from_arg_matches(&matches).map_err(usage)?)
}

fn any_verb(argv: Vec<OsString>) -> Result<i32, Failure> {
    let verb = argv.get(1).and_then(|verb| verb.to_str()).filter(|verb| Verb::has_subcommand(verb));
    let inner = argv.get(2).and_then(|inner| inner.to_str());
    let help = match (verb, inner) {
        (Some("skill"), Some(inner)) if SkillVerb::has_subcommand(inner) => {
            format!("ringfence skill {inner}")
        }
        (Some("session"), Some(inner)) if SessionVerb::has_subcommand(inner) => {
            format!("ringfence session {inner}")
        }
        (Some(verb), _) => format!("ringfence {verb}"),
        (None, _) => "ringfence".to_owned(),
    };
    let usage = |error| Failure::usage(error, &help);
    let matches = Cli::command().try_get_matches_from(argv).map_err(usage)?;
    match Cli::from_arg_matches(&matches).map_err(usage)?.verb {
        Verb::Run(run) => verbs::run::run(*run),
        Verb::Session(session) => verbs::session::session(session),
        Verb::Snapshot(snapshot) => verbs::snapshot::snapshot(snapshot),
        Verb::Workspace(workspace) => verbs::workspace::workspace(workspace),
        Verb::Skill(skill) => verbs::skill::skill(skill),
        Verb::Policy(policy) => verbs::policy::policy(policy),
        Verb::Setup(setup) => verbs::setup::setup(setup),
        Verb::Wrap(wrap) => verbs::wrap::wrap(wrap),
        Verb::Agent(agent) => verbs::agent::agent(*agent),
        Verb::Trust(trust) => verbs::trust::trust(trust),
        Verb::Denials(denials) => verbs::denials::denials(denials),
        Verb::Secret(secret) => verbs::secret::secret(secret),
        Verb::Mcp(mcp) => verbs::mcp::mcp(*mcp),
        Verb::Pool(pool) => verbs::pool::pool(*pool),
        Verb::Serve(serve) => verbs::serve::serve(serve),
        Verb::Top(top) => verbs::top::top(top),
        Verb::Key(key) => verbs::key::key(key),
        Verb::Actions(actions) => verbs::actions::actions(actions),
        Verb::Audit(audit) => verbs::audit::audit(audit),
        Verb::Oci(oci) => verbs::oci::oci(oci),
        Verb::Provider(provider) => verbs::provider::provider(provider),
        Verb::Image(image) => verbs::image::image(image),
        Verb::Doctor(doctor) => verbs::doctor::doctor(doctor),
        Verb::Completions(completions) => verbs::completions::completions(completions),
        Verb::Man(man) => verbs::man::man(man),
    }
}
