//! Lint as a use case: what is suspicious in skills, imports that nothing declares included. Advice; the sandbox is the
//! control.

use ringfence_skills::{
    Finding, LintInput, Loaded, NodeDependencySource, RequirementSource, Rule, Tree, TreeError, TreeLimits,
    Undeclared, Unloadable, left_out, lint, load, needs, read_manifest, rules, sarif,
};
use serde::Serialize;
use serde_json::Value;

use super::source::SkillReference;
use super::subject::{First, Subject, subject};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

#[derive(Clone, Debug, Serialize)]
pub struct LintReport {
    /// As it was named.
    pub path: String,
    pub findings: Vec<Finding>,
    /// What was not looked at.
    pub notes: Vec<String>,
}

/// Every rule there is.
pub fn lint_rules() -> &'static [Rule] {
    rules()
}

/// Look at a skill where it lies, caches and installed packages included: they are there when it is run there.
pub fn lint_skill(places: &Places, reference: &SkillReference) -> Result<LintReport, ServiceError> {
    let subject = subject(places, reference, First::Path)?;
    let (tree, notes) = whole_tree(&subject)?;
    let (_, bytes) = read_manifest(tree.root()).map_err(|error| bad(&subject.shown, &error))?;
    let loaded = load(&bytes, &subject.name);
    Ok(LintReport { path: subject.shown, findings: findings(&tree, loaded.as_ref()), notes })
}

/// As SARIF, with each file under the path of its skill.
pub fn lint_sarif(reports: &[LintReport], version: &str) -> Value {
    let all: Vec<Finding> = reports
        .iter()
        .flat_map(|report| {
            report.findings.iter().cloned().map(|mut finding| {
                let top = report.path.trim_end_matches('/');
                if finding.file != "." && top != "." {
                    finding.file = format!("{}/{}", top.trim_start_matches("./"), finding.file);
                }
                finding
            })
        })
        .collect();
    sarif(&all, version)
}

/// Everything that lint has to say of a tree.
pub(crate) fn findings(tree: &Tree, manifest: Result<&Loaded, &Unloadable>) -> Vec<Finding> {
    let undeclared = manifest.map(|loaded| undeclared(tree, loaded)).unwrap_or_default();
    lint(&LintInput { tree, manifest, undeclared: &undeclared })
}

/// Imports that no declaration covers, and those that take the place of one.
fn undeclared(tree: &Tree, loaded: &Loaded) -> Vec<Undeclared> {
    let needs = needs(tree, &loaded.manifest, None);
    let mut found = Vec::new();
    let mut add = |package: &str, file: &str, line: u32| {
        found.push(Undeclared { package: package.to_owned(), file: file.to_owned(), line: Some(line) });
    };
    if let Some(python) = &needs.python {
        for one in python.requirements.iter().chain(&python.undeclared) {
            if let RequirementSource::Inferred { file, line, .. } = &one.from {
                add(&one.name, file, *line);
            }
        }
    }
    if let Some(node) = &needs.node {
        for one in node.dependencies.iter().chain(&node.undeclared) {
            if let NodeDependencySource::Inferred { file, line } = &one.from {
                add(&one.name, file, *line);
            }
        }
    }
    found
}

fn whole_tree(subject: &Subject) -> Result<(Tree, Vec<String>), ServiceError> {
    if subject.in_library.is_some() {
        return Ok((subject.tree()?, Vec::new()));
    }
    match Tree::read_at(subject.open()?, TreeLimits::default(), |_, _| false) {
        Ok(tree) => Ok((tree, Vec::new())),
        Err(TreeError::Entries(_) | TreeError::Bytes(_) | TreeError::Depth { .. }) => {
            let note =
                "caches, installed packages and repositories in it are too large and were not looked at"
                    .to_owned();
            Ok((
                Tree::read_at(subject.open()?, TreeLimits::default(), left_out)
                    .map_err(|error| bad(&subject.shown, &error))?,
                vec![note],
            ))
        }
        Err(error) => Err(bad(&subject.shown, &error)),
    }
}

fn bad(shown: &str, why: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!("{shown}: {why}"),
        "name a directory with a SKILL.md, an archive of one, or a skill of the library",
    )
}
