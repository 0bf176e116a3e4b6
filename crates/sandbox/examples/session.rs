//! A session by the library alone: made, used, forked, ended. Run as `cargo run -p ringfence-sandbox --example session`.
//!
//! A sandbox is made by a process that has no threads, so that this comes before any runtime.

use std::error::Error;
use std::io::Read;
use std::path::Path;

use ringfence_policy::{ProfileName, merge};
use ringfence_sandbox::overlay::prepare_layers;
use ringfence_sandbox::snapshots::{SnapshotLimits, SnapshotStore};
use ringfence_sandbox::{
    Attached, Claim, Exec, ForkError, Host, Refusal, Request, Sandbox, SessionSpec, Stream, WorkspaceLayers,
    plan_for,
};

fn refused(error: impl std::error::Error) -> Refusal {
    Refusal::BadRequest { what: error.to_string(), fix: String::new() }
}

/// Private by default: nothing of this machine but its programs is inside.
fn spec(state: &Path, claim: Claim, layers: Option<WorkspaceLayers>) -> Result<SessionSpec, Refusal> {
    let policy = merge(ProfileName::Restrictive, &[]).map_err(refused)?;
    let request = Request {
        image: None,
        policy,
        argv: Vec::new(),
        directory: None,
        attached: Attached::default(),
        workspace_layers: layers,
        stream: Stream::Session,
        trace: false,
        learn: false,
        strict: false,
        state: state.to_path_buf(),
        secrets: state.join("secrets"),
    };
    let plan = plan_for(&request, &Host::look(&request)?)?;
    Ok(SessionSpec::new(claim, request, plan))
}

fn say(sandbox: &Sandbox, script: &str) -> Result<String, Box<dyn Error>> {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    let mut process = sandbox.exec(Exec { argv, ..Exec::default() })?;
    drop(process.stdin.take());
    let mut text = String::new();
    if let Some(stdout) = &mut process.stdout {
        stdout.read_to_string(&mut text)?;
    }
    let result = process.wait()?;
    Ok(format!("{text}(exit {}, {} ms of CPU)", result.end.exit_code(), result.cpu_ms))
}

fn main() -> Result<(), Box<dyn Error>> {
    let state = std::env::temp_dir().join(format!("ringfence-example-{}", std::process::id()));
    let sessions = state.join("sessions");
    let store = SnapshotStore::open(&state.join("snapshots"), SnapshotLimits::default())?;
    let sandbox = Sandbox::create(spec(&state, Claim::new(&sessions, Some("first"))?, None)?)?;
    println!("{}", say(&sandbox, "echo hello > file; cat file; id -u")?);
    let fork = sandbox.fork(&store, Some("second"), |claim, layers| -> Result<_, ForkError> {
        prepare_layers(&layers, Path::new("")).map_err(refused)?;
        Ok(spec(&state, claim, Some(layers))?)
    })?;
    println!("{}", say(&fork, "echo again >> file; cat file")?);
    println!("{}", say(&sandbox, "cat file")?);
    println!("{:?}", sandbox.stats()?);
    for ended in [fork, sandbox] {
        ended.destroy()?;
    }
    std::fs::remove_dir_all(state)?;
    Ok(())
}
