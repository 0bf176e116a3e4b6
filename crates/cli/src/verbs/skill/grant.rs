//! `ringfence skill grant`, `revoke` and `grants`

use ringfence_policy::{Bound, Cpus};
use ringfence_service::Places;
use ringfence_service::skills::{
    GrantWhat, Permissions, SkillReference, asked, find_skill, grant as keep, granted, grants as kept,
    revoke_grant, revoke_named,
};

use crate::args::{SkillGrantArgs, SkillGrantsArgs, SkillRevokeArgs};
use crate::failure::Failure;
use crate::output;

pub(crate) fn grant(args: SkillGrantArgs) -> Result<i32, Failure> {
    let json = args.json;
    grant_it(args).map_err(|failure| failure.with_json(json))
}

fn grant_it(args: SkillGrantArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let skill = find_skill(&places, &SkillReference { skill: args.skill, library: args.library })?;
    let these = Permissions {
        hosts: args.hosts.iter().map(ToString::to_string).collect(),
        env: args.variables,
        time: args.timeout.map(at).transpose()?,
        memory: args.memory.map(at).transpose()?,
        cpus: args.cpus.map(|cpus| at(cpus.map(|Cpus(number)| number))).transpose()?,
        processes: args.pids.map(at).transpose()?,
        disk: args.disk.map(at).transpose()?,
    };
    let what = match (args.all, these.is_empty()) {
        (true, _) => GrantWhat::Everything,
        (false, false) => GrantWhat::These(these),
        (false, true) => {
            let (asked, granted) = (asked(&skill)?, granted(&places, &skill)?.map(|grant| grant.granted));
            if args.json {
                output::json(&serde_json::json!({ "skill": skill.name, "asked": asked, "granted": granted }));
            } else if asked.is_empty() {
                output::line(format!("{} asks for nothing", skill.name));
            } else {
                let rows = asked.lines().into_iter().map(|[what, value]| {
                    let has = granted
                        .as_ref()
                        .is_some_and(|granted| granted.lines().contains(&[what.clone(), value.clone()]));
                    [what, value, if has { "granted" } else { "not granted" }.to_owned()]
                });
                output::table(["asks for", "", "state"], rows);
            }
            return Ok(0);
        }
    };
    let grant = keep(&places, &skill, what)?;
    if args.json {
        output::json(&grant);
    } else {
        for [what, value] in grant.granted.lines() {
            output::line(format!("{} may have {what} {value} at every run", skill.name));
        }
    }
    Ok(0)
}

pub(crate) fn revoke(args: SkillRevokeArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let named = match args.skill.to_str() {
        Some(name) if kept(&places)?.iter().any(|grant| grant.skill == name) => revoke_named(&places, name)?,
        _ => None,
    };
    let (name, grant) = match named {
        Some(grant) => (args.skill.to_string_lossy().into_owned(), grant),
        None => {
            let skill = find_skill(&places, &SkillReference { skill: args.skill, library: args.library })?;
            (skill.name.clone(), revoke_grant(&places, &skill)?)
        }
    };
    for [what, value] in grant.granted.lines() {
        output::line(format!("{name} may not have {what} {value} any more"));
    }
    Ok(0)
}

pub(crate) fn grants(args: SkillGrantsArgs) -> Result<i32, Failure> {
    let kept = kept(&Places::from_env()?).map_err(|error| Failure::from(error).with_json(args.json))?;
    if args.json {
        output::json(&kept);
    } else if kept.is_empty() {
        output::line("nothing is granted");
    } else {
        let rows = kept.iter().flat_map(|named| {
            named.grant.granted.lines().into_iter().map(|[what, value]| [named.skill.clone(), what, value])
        });
        output::table(["skill", "may have", ""], rows);
    }
    Ok(0)
}

/// A grant is of something that has an end.
fn at<T: ToString>(bound: Bound<T>) -> Result<String, Failure> {
    match bound {
        Bound::At(value) => Ok(value.to_string()),
        Bound::Unlimited => {
            Err(Failure::new("no limit at all can't be granted for good", "name a time, a size or a number"))
        }
    }
}
