//! `ringfence session`: sandboxes that stay.

mod changes;
pub(crate) mod create;
pub(crate) mod exec;
mod files;
mod fork;
mod life;
mod ports;
mod processes;
mod typing;

use ringfence_sandbox::Sandbox;
use ringfence_service::{Places, ServiceError, open_session};

use crate::args::{SessionArgs, SessionVerb};
use crate::failure::Failure;
use crate::output;

pub(crate) fn session(args: SessionArgs) -> Result<i32, Failure> {
    match args.verb {
        SessionVerb::Create(create) => create::create(*create),
        SessionVerb::Exec(exec) => exec::exec(exec),
        SessionVerb::Shell(shell) => with_json(shell.json, || exec::shell(&shell)),
        SessionVerb::Ls(ls) => with_json(ls.json, || life::ls(&ls)),
        SessionVerb::Ps(ps) => with_json(ps.json, || processes::ps(&ps)),
        SessionVerb::Logs(logs) => with_json(logs.json, || processes::logs(&logs)),
        SessionVerb::Signal(signal) => with_json(signal.json, || processes::signal(&signal)),
        SessionVerb::Attach(attach) => with_json(attach.json, || processes::attach(&attach)),
        SessionVerb::Stdin(stdin) => with_json(stdin.json, || processes::stdin(&stdin)),
        SessionVerb::Wait(wait) => with_json(wait.json, || processes::wait(&wait)),
        SessionVerb::Pause(pause) => with_json(pause.json, || life::pause(&pause)),
        SessionVerb::Resume(resume) => with_json(resume.json, || life::resume(&resume)),
        SessionVerb::Stats(stats) => with_json(stats.json, || life::stats(&stats)),
        SessionVerb::Extend(extend) => with_json(extend.json, || life::extend(&extend)),
        SessionVerb::Inspect(inspect) => with_json(inspect.json, || life::inspect(&inspect)),
        SessionVerb::Expose(expose) => with_json(expose.json, || ports::expose(&expose)),
        SessionVerb::Unexpose(unexpose) => with_json(unexpose.json, || ports::unexpose(&unexpose)),
        SessionVerb::Rm(rm) => with_json(rm.json, || life::rm(&rm)),
        SessionVerb::Snapshot(snapshot) => with_json(snapshot.json, || changes::snapshot(&snapshot)),
        SessionVerb::Rollback(rollback) => with_json(rollback.json, || changes::rollback(&rollback)),
        SessionVerb::Fork(fork) => with_json(fork.json, || fork::fork(&fork)),
        SessionVerb::Diff(diff) => with_json(diff.json, || changes::diff(&diff)),
        SessionVerb::Commit(commit) => with_json(commit.json, || changes::commit(&commit)),
        SessionVerb::Cp(cp) => with_json(cp.json, || files::cp(&cp)),
        SessionVerb::Cat(cat) => with_json(cat.json, || files::cat(&cat)),
        SessionVerb::Write(write) => with_json(write.json, || files::write(&write)),
        SessionVerb::Stat(stat) => with_json(stat.json, || files::stat(&stat)),
        SessionVerb::Mkdir(mkdir) => with_json(mkdir.json, || files::mkdir(&mkdir)),
        SessionVerb::Mv(mv) => with_json(mv.json, || files::mv(&mv)),
        SessionVerb::Watch(watch) => with_json(watch.json, || files::watch(&watch)),
    }
}

fn with_json(json: bool, verb: impl FnOnce() -> Result<i32, Failure>) -> Result<i32, Failure> {
    verb().map_err(|failure| failure.with_json(json))
}

fn open(name: &str) -> Result<Sandbox, Failure> {
    Ok(open_session(&Places::from_env()?, name)?)
}

/// What a session refuses, as every other failure.
fn refused(error: ringfence_sandbox::SessionError) -> Failure {
    ServiceError::from(error).into()
}

/// Said to a program; people see that nothing went wrong.
fn done(json: bool, object: serde_json::Value) -> i32 {
    if json {
        output::json(&object);
    }
    0
}
