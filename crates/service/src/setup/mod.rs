//! `ringfence setup`: the settings of an agent's client changed so that its shell commands run in a sandbox, or so that it
//! has Ringfence's MCP tools; shown first, backed up, and undone to the byte.
//!
//! Invariant: *wrap* never depends on a hook that a client may skip; a hook or a plugin only says no where later settings took
//! the fence away. Either the program that the client starts for a
//! command is Ringfence itself (nothing runs where it is missing or broken), or the client's own shell tool is off.

mod clients;
mod edit;
mod gate;
pub(crate) mod json_text;
mod link;
mod record;
mod syntax;
mod wrap;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use syntax::Syntax;

pub use clients::how_to_check;
pub(crate) use clients::variable;
pub use gate::is_gate;
pub use link::{LINK_BEGINS, is_own_server};
pub use wrap::{WrappedRun, wrapped_run};

/// A client that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    ClaudeCode,
    Codex,
    Gemini,
    Opencode,
}

/// Whose settings are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SetupScope {
    User,
    Project,
}

/// What the client is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SetupMode {
    Mcp,
    Wrap,
    Both,
}

/// What to set up.
#[derive(Clone, Debug)]
pub struct SetupSpec {
    pub client: Client,
    pub scope: SetupScope,
    pub mode: SetupMode,
    /// The `ringfence` that the client is to start.
    pub program: PathBuf,
}

/// One file, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    pub path: PathBuf,
    /// `None`: it is not there.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// What is going to be changed, and what a person should know of it.
#[derive(Clone, Debug, Serialize)]
pub struct SetupPlan {
    pub changes: Vec<FileChange>,
    /// How the client's shell commands are held, and what remains open.
    pub notes: Vec<String>,
    #[serde(skip)]
    link: Option<link::LinkChange>,
    #[serde(skip)]
    records: Vec<record::Record>,
    #[serde(skip)]
    forget: Vec<PathBuf>,
    /// Directories that setup made, deepest first: those that are empty at the end go too.
    #[serde(skip)]
    made: Vec<PathBuf>,
}

impl Client {
    pub const ALL: [Client; 4] = [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Opencode];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }
}

impl SetupPlan {
    fn nothing() -> Self {
        Self {
            changes: Vec::new(),
            notes: Vec::new(),
            link: None,
            records: Vec::new(),
            forget: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Everything is as it should be already.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.link.is_none()
    }
}

/// What setting a client up would change. Nothing is changed.
pub fn plan_setup(places: &Places, spec: &SetupSpec) -> Result<SetupPlan, ServiceError> {
    if !spec.program.is_absolute() || spec.program.to_str().is_none_or(|path| path.contains(" -")) {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            format!("{} is not a path that a client can be given", spec.program.display()),
            "install ringfence in a directory without ` -` in its name",
        ));
    }
    let mut plan = SetupPlan::nothing();
    plan.link = link::to_make(places, spec)?;
    for file in clients::files(places, spec) {
        let before = edit::read(&file.path)?;
        let mut after = before.clone().unwrap_or_default();
        syntax::check(file.syntax, &file.path, &after)?;
        for wanted in &file.edits {
            after = wanted.apply(&file.path, &after)?;
        }
        syntax::check(file.syntax, &file.path, &after)?;
        if before.as_deref() == Some(after.as_str()) {
            continue;
        }
        let original =
            record::find(&places.state, &file.path)?.filter(|known| Some(&known.after) == before.as_ref());
        let (first, made) = match original {
            Some(known) => (known.before, known.made),
            None => (before.clone(), missing(&file.path)),
        };
        plan.records.push(record::Record {
            client: spec.client.as_str().to_owned(),
            path: file.path.clone(),
            before: first,
            after: after.clone(),
            made,
        });
        plan.changes.push(FileChange { path: file.path, before, after: Some(after) });
    }
    plan.notes = clients::notes(spec);
    if spec.mode == SetupMode::Mcp && is_wrapped(places, spec) {
        let (client, scope) = (
            spec.client.as_str(),
            match spec.scope {
                SetupScope::User => "",
                SetupScope::Project => " --scope project",
            },
        );
        plan.notes.push(format!(
            "the fence around the shell of an earlier `ringfence setup {client}` stays: `--mode mcp` does not take it out. For the \
             tools alone run `ringfence setup {client}{scope} --remove`, then `ringfence setup {client}{scope} --mode mcp`"
        ));
    }
    Ok(plan)
}

/// Is something of *wrap* in the settings that *mcp* would not put there?
fn is_wrapped(places: &Places, spec: &SetupSpec) -> bool {
    let files = |mode| clients::files(places, &SetupSpec { mode, ..spec.clone() });
    let of_mcp: Vec<_> =
        files(SetupMode::Mcp).iter().flat_map(|file| file.edits.iter().map(edit::Edit::place)).collect();
    files(SetupMode::Wrap).into_iter().chain(files(SetupMode::Both)).any(|file| {
        let Ok(Some(text)) = edit::read(&file.path) else { return false };
        file.edits.iter().any(|wanted| {
            !of_mcp.contains(&wanted.place())
                && wanted.apply(&file.path, &text).is_ok_and(|after| after == text)
        })
    })
}

/// What taking it back would change: a file that nobody touched since becomes what it was, to the byte; of another one our
/// own settings are taken out.
pub fn plan_removal(places: &Places, spec: &SetupSpec) -> Result<SetupPlan, ServiceError> {
    let mut plan = SetupPlan::nothing();
    let everything = SetupSpec { mode: SetupMode::Both, ..spec.clone() };
    for file in clients::files(places, &everything) {
        let Some(before) = edit::read(&file.path)? else { continue };
        let known = record::find(&places.state, &file.path)?;
        let after = match &known {
            Some(known) if known.after == before => known.before.clone(),
            _ => {
                let mut after = before.clone();
                for wanted in file.edits.iter().rev() {
                    after = wanted.revert(&file.path, &after)?;
                }
                Some(after).filter(|after| file.syntax != Syntax::Whole || !after.is_empty())
            }
        };
        if let Some(known) = known {
            plan.forget.push(file.path.clone());
            plan.made.extend(known.made);
        }
        if after.as_deref() != Some(before.as_str()) {
            plan.changes.push(FileChange { path: file.path, before: Some(before), after });
        }
    }
    plan.link = link::to_remove(places, spec, &plan.forget)?;
    Ok(plan)
}

/// Carry a plan out. The record of what was there comes first.
pub fn apply_setup(places: &Places, plan: &SetupPlan) -> Result<(), ServiceError> {
    for record in &plan.records {
        record::keep(&places.state, record)?;
    }
    // There before a setting names it, and gone after none does.
    if let Some(change @ link::LinkChange::Make { .. }) = &plan.link {
        change.apply()?;
    }
    for change in &plan.changes {
        edit::write(change)?;
    }
    for path in &plan.forget {
        record::forget(&places.state, path)?;
    }
    if let Some(change @ link::LinkChange::Remove { .. }) = &plan.link {
        change.apply()?;
    }
    for directory in &plan.made {
        // One that holds something stays.
        let _ = std::fs::remove_dir(directory);
    }
    Ok(())
}

/// Whether everything is as a plan for the same would leave it: read again, as the client reads it.
pub fn verify_setup(places: &Places, spec: &SetupSpec) -> Result<(), ServiceError> {
    if plan_setup(places, spec)?.is_empty() {
        return Ok(());
    }
    Err(ServiceError::new(
        ErrorCode::BadRequest,
        format!("the settings of {} are not what was written", spec.client.as_str()),
        "something else changes them at the same time: close the client and run `ringfence setup` again",
    ))
}

/// The directories above `path` that are not there, deepest first.
fn missing(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    above
        .take_while(|directory| std::fs::symlink_metadata(directory).is_err())
        .map(Path::to_path_buf)
        .collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
