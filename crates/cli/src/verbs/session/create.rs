//! `ringfence session create`

use std::ffi::OsString;

use ringfence_sandbox::{Asked, Attached, Stream};
use ringfence_service::skills::{SkillReference, attach_skills, library_attached};
use ringfence_service::{Places, RunSpec, SessionCreate, SessionCreated, create_session, use_workspace};

use crate::args::SessionCreateArgs;
use crate::failure::Failure;
use crate::verbs::skill::build::make_layer;
use crate::{output, resolve};

pub(crate) fn create(args: SessionCreateArgs) -> Result<i32, Failure> {
    let json = args.json;
    make(args).map_err(|failure| failure.with_json(json))
}

fn make(args: SessionCreateArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let json = args.json;
    // What stood behind `session create`.
    let typed = std::env::args_os().skip(3).filter(|word| word != "--").collect();
    let create = resolved(&places, args, typed)?;
    let created = create_session(&places, create)?;
    tell(&created);
    if json {
        output::json(&serde_json::json!({ "id": created.sandbox.name() }));
    } else {
        output::line(created.sandbox.name());
    }
    Ok(0)
}

pub(crate) fn tell(created: &SessionCreated) {
    created.warnings.iter().for_each(|warning| output::warning(warning));
    created.notes.iter().for_each(|note| output::note(note));
}

/// What was typed, as the services take it.
pub(crate) fn resolved(
    places: &Places,
    args: SessionCreateArgs,
    typed: Vec<OsString>,
) -> Result<SessionCreate, Failure> {
    let attached = match args.skills {
        true => {
            let view = library_attached(places, args.library.as_deref())?;
            view.notes.iter().for_each(|note| output::note(note));
            view.attached
        }
        false => Attached::default(),
    };
    let named = args.workspace_name.as_deref().map(|name| use_workspace(places, name)).transpose()?;
    let mut flags = args.policy;
    if let Some(named) = &named {
        flags.workspace = Some(named.path.clone());
    }
    let skills: Vec<SkillReference> =
        args.skill.into_iter().map(|skill| SkillReference { skill, library: args.library.clone() }).collect();
    let mut run = RunSpec {
        policy: resolve::policy(flags)?,
        argv: Vec::new(),
        directory: args.cwd,
        attached,
        workspace_layers: None,
        stream: Stream::Session,
        trace: args.trace,
        strict: args.strict,
    };
    let notes = attach_skills(places, skills, &mut run, &mut make_layer)?;
    notes.iter().for_each(|note| output::note(note));
    Ok(SessionCreate {
        run,
        name: args.name,
        ttl: args.ttl.map(|ttl| ttl.duration()),
        idle: args.idle_timeout.map(|idle| idle.duration()),
        overlay: args.overlay,
        keep_start: args.keep_start,
        named,
        asked: Asked {
            arguments: typed.into_iter().map(Into::into).collect(),
            directory: places.current.clone(),
        },
    })
}
