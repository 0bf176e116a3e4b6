//! `ringfence wrap`, also as `ringfence --wrap=CLIENT COMMAND` and `ringfence-wrap-CLIENT COMMAND`, the forms that fit into a
//! client's setting.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;
use ringfence_service::{
    Client, LINK_BEGINS, Places, PreparedRun, is_gate, is_own_server, prepare, wrapped_run,
};

use crate::args::{ClientName, WrapArgs};
use crate::failure::Failure;
use crate::output;
use crate::spool::Noted;
use crate::verbs::run::tell;

pub(crate) fn wrap(args: WrapArgs) -> Result<i32, Failure> {
    run(args.client.into(), &args.command)
}

/// From the whole command line. Anything but one command is refused: what a client means by it is not known.
pub(crate) fn prefixed(argv: &[OsString]) -> Result<i32, Failure> {
    let name = argv.get(1).and_then(|word| word.to_str()?.strip_prefix("--wrap="));
    let client = name.and_then(|name| ClientName::from_str(name, false).ok());
    match (client, &argv[2..]) {
        (Some(client), [command]) => run(client.into(), command),
        _ => Err(Failure::new(
            "`ringfence --wrap=CLIENT` takes one shell command",
            "run `ringfence setup CLIENT` again; `ringfence wrap --help` says what it is for",
        )),
    }
}

/// Started under the name of a link of `setup`.
pub(crate) fn is_link(argv: &[OsString]) -> bool {
    link_client(argv).is_some()
}

fn link_client(argv: &[OsString]) -> Option<&str> {
    Path::new(argv.first()?).file_name()?.to_str()?.strip_prefix(LINK_BEGINS)
}

/// As `prefixed`; the client starts its stdio servers in this way too, and one of them is ours.
pub(crate) fn linked(argv: &[OsString]) -> Result<i32, Failure> {
    let client = link_client(argv).and_then(|name| ClientName::from_str(name, false).ok());
    let (Some(client), [command]) = (client, &argv[1..]) else {
        return Err(Failure::new(
            "this name of ringfence takes one shell command",
            "run `ringfence setup CLIENT` again; `ringfence wrap --help` says what it is for",
        ));
    };
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(format!("the place of this program can't be found: {error}"), "install it again")
    })?;
    let client: Client = client.into();
    if is_own_server(&program, client, command) {
        let error = Command::new(&program).args(["mcp", "--rules-of", client.as_str()]).exec();
        return Err(Failure::new(
            format!("{} can't be started: {error}", program.display()),
            "install it again",
        ));
    }
    run(client, command)
}

/// Nothing is printed beside the command's own output but what was denied, what a person can do about that, and why nothing ran.
fn run(client: Client, command: &OsStr) -> Result<i32, Failure> {
    // Asked by a hook of ours whether this prefix is in force: nothing is to be run.
    if is_gate(client, command) {
        return Ok(0);
    }
    let places = Places::from_env()?;
    let (spec, after) = wrapped_run(&places, client, command)?.into_parts();
    let noted = Noted::wrapped(&spec, client, command);
    let ran = prepare(places.clone(), spec).and_then(PreparedRun::run);
    after();
    let report = match ran {
        Ok(report) => report,
        Err(error) => {
            noted.refused(&places, &error);
            return Err(error.into());
        }
    };
    noted.ended(&places, &report);
    tell(&report);
    if !report.outcome.denials.is_empty() {
        // There are no flags here that somebody could give.
        output::note(
            "a flag can't be given here: the user can allow it with `ringfence denials --allow N`, in a terminal",
        );
    }
    Ok(report.exit_code)
}
