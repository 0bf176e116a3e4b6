//! `ringfence session fork`

use std::ffi::OsString;

use clap::{Args, Command, FromArgMatches};
use ringfence_sandbox::SessionFacts;
use ringfence_service::{Places, SessionCreate, fork_session, model_of};

use super::create::{resolved, tell};
use crate::args::{SessionCreateArgs, SessionForkArgs};
use crate::failure::Failure;
use crate::output;

pub(super) fn fork(args: &SessionForkArgs) -> Result<i32, Failure> {
    let model = model_of(&Places::from_env()?, &args.from)?;
    if model.is_none() {
        output::note(&format!(
            "the session that `{}` was taken of is not here: the new one is made with the flags behind `--` alone",
            args.from
        ));
    }
    if let Some(SessionFacts { asked, .. }) = &model {
        // Relative paths among its flags mean what they meant.
        std::env::set_current_dir(&asked.directory).map_err(|error| {
            Failure::new(
                format!("cannot enter {}, where the session was made: {error}", asked.directory.display()),
                "put the directory back, or fork a snapshot with the flags that you want",
            )
        })?;
    }
    let places = Places::from_env()?;
    let typed: Vec<OsString> = model
        .iter()
        .flat_map(|facts| facts.asked.arguments.iter().map(|word| word.0.clone()))
        .chain(args.flags.iter().cloned())
        .collect();
    let wanted = (1..=args.count)
        .map(|number| one(&places, args, number, &typed))
        .collect::<Result<Vec<SessionCreate>, Failure>>()?;
    let made = fork_session(&places, &args.from, wanted)?;
    made.iter().for_each(tell);
    let names: Vec<String> = made.iter().map(|created| created.sandbox.name()).collect();
    if args.json {
        output::json(&serde_json::json!({ "ids": names }));
    } else {
        names.iter().for_each(output::line);
    }
    Ok(0)
}

fn one(
    places: &Places,
    args: &SessionForkArgs,
    number: u16,
    typed: &[OsString],
) -> Result<SessionCreate, Failure> {
    let usage = |error| Failure::usage(error, "ringfence session create");
    let command =
        SessionCreateArgs::augment_args(Command::new("create").no_binary_name(true).args_override_self(true));
    let matches = command.try_get_matches_from(typed).map_err(usage)?;
    let mut create = SessionCreateArgs::from_arg_matches(&matches).map_err(usage)?;
    // A fork has a copy of its own of what is in there; one with a size is held by the session that it is in.
    if create.workspace_name.take().is_some() {
        create.policy.workspace = Some("private".into());
    }
    create.name = match (&args.name, args.count) {
        (None, _) => None,
        (Some(name), 1) => Some(name.clone()),
        (Some(name), _) => Some(format!("{name}-{number}")),
    };
    resolved(places, create, typed.to_vec())
}
