//! `ringfence session create`

use ringfence_sandbox::{Attached, Stream};
use ringfence_service::skills::library_attached;
use ringfence_service::{Places, RunSpec, SessionCreate, create_session};

use crate::args::SessionCreateArgs;
use crate::failure::Failure;
use crate::{output, resolve};

pub(crate) fn create(args: SessionCreateArgs) -> Result<i32, Failure> {
    let json = args.json;
    make(args).map_err(|failure| failure.with_json(json))
}

fn make(args: SessionCreateArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let attached = match args.skills {
        true => library_attached(&places, args.library.as_deref())?,
        false => Attached::default(),
    };
    let run = RunSpec {
        policy: resolve::policy(args.policy)?,
        argv: Vec::new(),
        directory: args.cwd,
        attached,
        stream: Stream::Session,
        trace: args.trace,
        strict: args.strict,
    };
    let create = SessionCreate {
        run,
        name: args.name,
        ttl: args.ttl.map(|ttl| ttl.duration()),
        idle: args.idle_timeout.map(|idle| idle.duration()),
    };
    let created = create_session(&places, create)?;
    created.warnings.iter().for_each(|warning| output::warning(warning));
    created.notes.iter().for_each(|note| output::note(note));
    if args.json {
        output::json(&serde_json::json!({ "id": created.sandbox.name() }));
    } else {
        output::line(created.sandbox.name());
    }
    Ok(0)
}
