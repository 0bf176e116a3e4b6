//! `ringfence skill show`

use ringfence_service::Places;
use ringfence_service::skills::{Kind, ShownSkill, SkillReference, show_skill};
use serde_json::Value;

use crate::args::SkillShowArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn show(args: SkillShowArgs) -> Result<i32, Failure> {
    let reference = SkillReference { skill: args.skill, library: args.flags.library };
    let shown = show_skill(&Places::from_env()?, &reference)?;
    if args.flags.json {
        output::json(&shown);
        return Ok(0);
    }
    output::table(["property", "value"], rows(&shown));
    for problem in &shown.warnings {
        output::warning(&format!("SKILL.md: {}", problem.message));
    }
    for problem in &shown.problems {
        output::warning(problem);
    }
    Ok(0)
}

fn rows(shown: &ShownSkill) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    let mut put = |key: &str, value: String| rows.push([key.to_owned(), value]);
    let name = match &shown.domain {
        Some(domain) => format!("{domain}/{}", shown.name),
        None => shown.name.clone(),
    };
    put("skill", name);
    for (key, value) in shown.properties.as_object().into_iter().flatten().filter(|(key, _)| *key != "name") {
        put(key, text(value));
    }
    put("path", shown.path.clone());
    if let Some(state) = shown.state {
        put("state", state.as_str().to_owned());
    }
    shown.digest.iter().for_each(|digest| put("version", digest.to_string()));
    shown.published.iter().for_each(|digest| put("published", digest.to_string()));
    shown.origin.iter().for_each(|origin| put("from", origin.to_string()));
    for [what, value] in shown.asks.lines() {
        put("asks for", format!("{what} {value}"));
    }
    for host in &shown.inferred_hosts {
        put("seems to use", format!("host {} ({}), inferred and not granted", host.host, host.origin));
    }
    for file in &shown.files {
        let about = match &file.kind {
            Kind::File { size, executable } => {
                format!("{size} bytes{}", if *executable { ", executable" } else { "" })
            }
            Kind::Link { to } => format!("a link to {to}"),
            Kind::Special { what } => (*what).to_owned(),
            Kind::Directory => String::new(),
        };
        put("file", format!("{} ({about})", file.path));
    }
    rows
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
