//! A skill of the library, run in place of a command.

use super::order::SkillOrder;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::runs::{RunReport, RunSpec};
use crate::skills::{
    Dependencies, RanSkill, SkillReference, SkillRunSpec, Tell, Wanted, build_layer, library_skill,
    set_up_skill, show_shared,
};

/// Whose machine a skill is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunsFor {
    /// The user of this process: what the skill needs is installed for it, as `ringfence skill run` would.
    Owner,
    /// Somebody else: what it needs must be installed, nothing is fetched or built for them.
    Guest,
}

/// What was run.
pub(super) struct SkillRan {
    pub(super) run: RunReport,
    pub(super) skill: RanSkill,
    pub(super) warnings: Vec<String>,
}

pub(super) fn run(
    mut places: Places,
    run: RunSpec,
    order: SkillOrder,
    runs_for: RunsFor,
) -> Result<SkillRan, ServiceError> {
    // A person may name a directory too; whoever orders this may not: it would be shown to them.
    let skill = library_skill(&places, &format!("{}/{}", order.domain, order.name))?;
    if runs_for == RunsFor::Guest {
        // Nothing is there.
        places.current = places.state.path().join("none");
    }
    let spec = SkillRunSpec {
        reference: SkillReference { skill: skill.into(), library: None },
        wanted: order.script.clone().map_or(Wanted::Only, Wanted::Script),
        args: order.args.iter().map(Into::into).collect(),
        copy: false,
        dependencies: Dependencies::Install,
        run,
    };
    let build_places = places.clone();
    let setup = set_up_skill(&places, spec, &mut |plan, again| match runs_for {
        // What the installer says is for nobody here: a failure names what it was installing.
        RunsFor::Owner => build_layer(&build_places, plan, again, &mut |_| ()),
        RunsFor::Guest => Err(ServiceError::new(
            ErrorCode::Missing,
            "the packages that the skill needs are not installed on this server",
            "ask whoever runs it to run the skill once with `ringfence skill run`, which installs them",
        )),
    })?;
    if let Some(version) = &order.version {
        // After its folder was recognised: what is mounted is that folder, or nothing.
        let found = show_shared(&places, &order.domain, &order.name)?.digest.map(|digest| digest.to_string());
        if found.as_ref() != Some(version) {
            return Err(ServiceError::new(
                ErrorCode::Frozen,
                format!("the skill `{}/{}` has changed since it was looked at", order.domain, order.name),
                "look at the version that is there now, and ask again",
            ));
        }
    }
    let prepared = setup.prepare(places)?;
    let warnings = prepared.warnings().chain(prepared.notes()).map(str::to_owned).collect();
    let report = prepared.run(Tell { digest: runs_for == RunsFor::Owner, workspace_changes: false })?;
    Ok(SkillRan { run: report.run, skill: report.skill, warnings })
}
