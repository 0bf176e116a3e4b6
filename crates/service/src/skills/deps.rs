//! What a skill needs, as a report: nothing is installed and nothing is run but interpreters that are asked their version
//! and package clients that are asked where they get packages.

use ringfence_skills::{Certainty, Needs, NodeDependencySource, RequirementSource, needs};
use serde::Serialize;

use super::layers::{LayerKind, Sources, find_layer, plan_node, plan_python};
use super::nodes::pick_node;
use super::programs::Programs;
use super::pythons::{InterpreterFacts, pick_python};
use super::script::find_script;
use super::settings::skill_settings;
use super::source::{SkillReference, find_skill};
use crate::error::ServiceError;
use crate::places::Places;

/// What is needed, and what would be installed for it.
#[derive(Debug, Serialize)]
pub struct DependencyReport {
    pub skill: String,
    pub domain: String,
    /// Null: every script.
    pub script: Option<String>,
    pub needs: Needs,
    pub layers: Vec<PlannedLayer>,
}

#[derive(Debug, Serialize)]
pub struct PlannedLayer {
    pub kind: &'static str,
    pub interpreter: Option<InterpreterFacts>,
    /// Its id, where the interpreter is there.
    pub layer: Option<String>,
    pub installed: bool,
    pub requirements: Vec<String>,
    /// Why it can't be installed here.
    pub problem: Option<String>,
}

impl DependencyReport {
    /// For people: kind, what, where it was read, and how things are.
    pub fn rows(&self) -> Vec<[String; 4]> {
        let report = self;
        let needs = &report.needs;
        let mut rows = Vec::new();
        let state = |kind: &str| {
            report.layers.iter().find(|layer| layer.kind == kind).map_or(String::new(), |layer| {
                match (&layer.problem, layer.installed) {
                    (Some(problem), _) => problem.clone(),
                    (None, true) => "installed".to_owned(),
                    (None, false) => "installed at the first run".to_owned(),
                }
            })
        };
        if let Some(python) = &needs.python {
            if let Some(range) = &python.requires_python {
                rows.push([
                    "interpreter".into(),
                    format!("python {}", range.as_str()),
                    String::new(),
                    String::new(),
                ]);
            }
            let each = python.requirements.iter().map(|one| (one, state("python")));
            let other = python.optional.iter().map(|one| (one, "optional, not installed".to_owned()));
            let open = python.undeclared.iter().map(|one| (one, "undeclared, not installed".to_owned()));
            for (one, state) in each.chain(other).chain(open) {
                rows.push(["python".into(), one.text.clone(), python_origin(&one.from), state]);
            }
        }
        if let Some(node) = &needs.node {
            if let Some(range) = &node.engines_node {
                let from = node.package_json.clone().unwrap_or_default();
                rows.push(["interpreter".into(), format!("node {range}"), from, String::new()]);
            }
            for one in &node.dependencies {
                rows.push([
                    "node".into(),
                    format!("{}@{}", one.name, one.spec),
                    node_origin(&one.from),
                    state("node"),
                ]);
            }
            for one in &node.undeclared {
                let open = "undeclared, not installed".to_owned();
                rows.push(["node".into(), one.name.clone(), node_origin(&one.from), open]);
            }
        }
        for one in &needs.binaries {
            let certainty = format!("{:?}", one.certainty).to_lowercase();
            rows.push(["program".into(), one.any_of.join(" or "), one.origin.to_string(), certainty]);
        }
        for one in &needs.variables {
            let kind = if one.secret { "secret" } else { "variable" };
            let presence = format!("{:?}", one.presence).to_lowercase();
            rows.push([kind.into(), one.name.clone(), one.origin.to_string(), presence]);
        }
        for one in &needs.hosts {
            let state = match one.certainty {
                Certainty::Declared => "asked for",
                _ => "inferred, not granted",
            };
            rows.push(["host".into(), one.host.clone(), one.origin.to_string(), state.into()]);
        }
        rows
    }
}

pub fn dependency_report(
    places: &Places,
    reference: &SkillReference,
    script: Option<&str>,
) -> Result<DependencyReport, ServiceError> {
    let skill = find_skill(places, reference)?;
    let own = skill_settings(places)?.interpreters;
    let script = script.map(|name| find_script(&skill.tree, &skill.name, Some(name), &own)).transpose()?;
    let script = script.map(|script| script.path);
    let needs = needs(&skill.tree, &skill.manifest, script.as_deref());
    let programs = Programs::on_path(places, Vec::new(), &own);
    let mut layers = Vec::new();
    if let Some(python) = needs.python.as_ref().filter(|python| python.needs_layer()) {
        let requirements = python.requirements.iter().map(|one| one.text.clone()).collect();
        let picked = pick_python(places, &programs, python.requires_python.as_ref(), None);
        let plan = picked.and_then(|facts| {
            Ok(plan_python(python, facts, Sources::of(places, &programs, LayerKind::Python)?))
        });
        layers.push(planned(places, "python", requirements, plan));
    }
    if let Some(node) = needs.node.as_ref().filter(|node| node.needs_layer()) {
        let requirements = node.dependencies.iter().map(|one| format!("{}@{}", one.name, one.spec)).collect();
        let facts = pick_node(places, &programs, node.engines_node.as_deref());
        let plan = facts.and_then(|facts| {
            plan_node(&skill.tree, node, facts, Sources::of(places, &programs, LayerKind::Node)?)
        });
        layers.push(planned(places, "node", requirements, plan));
    }
    Ok(DependencyReport { skill: skill.name.clone(), domain: skill.domain.clone(), script, needs, layers })
}

fn planned(
    places: &Places,
    kind: &'static str,
    requirements: Vec<String>,
    plan: Result<super::layers::LayerPlan, ServiceError>,
) -> PlannedLayer {
    match plan {
        Ok(plan) => PlannedLayer {
            kind,
            installed: find_layer(places, &plan.key).is_some(),
            layer: Some(plan.key),
            interpreter: Some(plan.interpreter),
            requirements,
            problem: None,
        },
        Err(error) => PlannedLayer {
            kind,
            interpreter: None,
            layer: None,
            installed: false,
            requirements,
            problem: Some(format!("{error}: {}", error.hint)),
        },
    }
}

fn python_origin(from: &RequirementSource) -> String {
    match from {
        RequirementSource::Pep723 { file, line } | RequirementSource::RequirementsTxt { file, line } => {
            format!("{file}:{line}")
        }
        RequirementSource::Pyproject { file } => file.clone(),
        RequirementSource::Metadata { key } => format!("SKILL.md, {key}"),
        RequirementSource::Inferred { module, file, line, known } => {
            format!("inferred{}: import {module}, {file}:{line}", if *known { "" } else { " by name" })
        }
    }
}

fn node_origin(from: &NodeDependencySource) -> String {
    match from {
        NodeDependencySource::PackageJson { file } => file.clone(),
        NodeDependencySource::Metadata { key } => format!("SKILL.md, {key}"),
        NodeDependencySource::Inferred { file, line } => format!("inferred: {file}:{line}"),
    }
}
