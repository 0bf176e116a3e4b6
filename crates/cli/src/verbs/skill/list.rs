//! `ringfence skill list`

use ringfence_service::Places;
use ringfence_service::skills::{ListedSkill, Scope, discovered_skills, list_skills};
use serde_json::json;

use super::warn_of_unreadable;
use crate::args::SkillListArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn list(args: SkillListArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let found = list_skills(&places, args.flags.library.as_deref(), args.domain.as_deref())?;
    let elsewhere = if args.all { discovered_skills(&places) } else { Vec::new() };
    if args.flags.json {
        let mut object = json!({
            "skills": found.skills,
            "strays": found.strays,
            "unreadable": found.unreadable,
        });
        if args.all {
            object["elsewhere"] = json!(elsewhere);
        }
        output::json(&object);
        return Ok(0);
    }
    if found.skills.is_empty() && elsewhere.is_empty() {
        output::line("there are no skills: `ringfence skill add SOURCE`, or `ringfence skill new NAME`");
    } else if !found.skills.is_empty() {
        output::table(["skill", "state", "version", "description"], found.skills.iter().map(row));
    }
    if !elsewhere.is_empty() {
        let rows = elsewhere.into_iter().map(|one| {
            let scope = match one.scope {
                Scope::Project => "project",
                Scope::Home => "home",
            };
            let about = one.description.or(one.problem).unwrap_or_default();
            [one.name, format!("{scope}, {}", one.client), one.path, about]
        });
        output::table(["elsewhere", "of", "path", "description"], rows);
    }
    for stray in &found.strays {
        output::warning(&format!("in the library: {}: {}", stray.path, stray.what));
    }
    warn_of_unreadable(&found.unreadable);
    Ok(0)
}

fn row(skill: &ListedSkill) -> [String; 4] {
    let about = skill.description.clone().or_else(|| skill.problem.clone()).unwrap_or_default();
    [
        format!("{}/{}", skill.domain, skill.name),
        skill.state.as_str().to_owned(),
        skill.digest.as_ref().map(|digest| digest.short().to_owned()).unwrap_or_default(),
        about,
    ]
}
