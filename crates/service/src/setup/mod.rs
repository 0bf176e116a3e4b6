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
mod started;
mod syntax;
mod wrap;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use syntax::Syntax;

pub use clients::how_to_check;
pub(crate) use clients::{gemini_home, variable};
pub use gate::is_gate;
pub use link::{LINK_BEGINS, is_own_server};
pub use started::check_environment;
pub use wrap::{WrappedRun, wrapped_run};

/// A client that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            if let Some(own) = wanted.replaces(&file.path, &after)? {
                plan.notes.push(format!(
                    "`{} = {own}` in {} is yours: it is replaced, and `--remove` brings it back",
                    wanted.place().join("."),
                    file.path.display()
                ));
            }
            after = wanted.apply(&file.path, &after)?;
        }
        syntax::check(file.syntax, &file.path, &after)?;
        if before.as_deref() == Some(after.as_str()) {
            continue;
        }
        let known = record::find(&places.state, &file.path)?;
        let first = match &before {
            None => None,
            Some(text) => without_ours(places, spec, &file, text, known.as_ref())?,
        };
        let mut made = missing(&file.path);
        made.extend(known.into_iter().flat_map(|known| known.made));
        made.sort_by_key(|directory| std::cmp::Reverse(directory.components().count()));
        made.dedup();
        plan.records.push(record::Record {
            client: spec.client.as_str().to_owned(),
            path: file.path.clone(),
            before: first,
            after: after.clone(),
            made,
        });
        plan.changes.push(FileChange { path: file.path, before, after: Some(after) });
    }
    plan.notes.extend(clients::notes(spec));
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
        let after = without_ours(places, spec, &file, &before, known.as_ref())?;
        if known.is_none() {
            for wanted in &file.edits {
                if wanted.is_anybodys(&file.path, &before)? {
                    plan.notes.push(format!(
                        "`{}` in {} stays as it is: there is no record that `ringfence setup` set it",
                        wanted.place().join("."),
                        file.path.display()
                    ));
                }
            }
        }
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

/// What a file that holds `text` is without all that any mode of `setup` put there: what the user had in its place, to the byte
/// where nobody touched the file since. `None`: it would not be there.
fn without_ours(
    places: &Places,
    spec: &SetupSpec,
    file: &clients::SettingsFile,
    text: &str,
    known: Option<&record::Record>,
) -> Result<Option<String>, ServiceError> {
    if let Some(known) = known.filter(|known| known.after == text) {
        return Ok(known.before.clone());
    }
    let everything = SetupSpec { mode: SetupMode::Both, ..spec.clone() };
    let edits = clients::files(places, &everything).into_iter().filter(|other| other.path == file.path);
    let edits: Vec<_> = edits.flat_map(|file| file.edits).collect();
    let of_record = known.map(|known| edit::Known {
        before: known.before.as_deref().unwrap_or_default(),
        after: &known.after,
    });
    let mut after = text.to_owned();
    for wanted in edits.iter().rev() {
        after = wanted.revert(&file.path, &after, of_record)?;
    }
    // Whatever the user had in it between, it was made with its directory.
    let is_made = known.is_some_and(|known| known.before.is_none() || !known.made.is_empty());
    let is_nothing = matches!(after.split_whitespace().collect::<String>().as_str(), "" | "{}");
    Ok(Some(after).filter(|_| !(is_nothing && (is_made || file.syntax == Syntax::Whole))))
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

#[cfg(test)]
#[path = "orders_tests.rs"]
mod orders_tests;

#[cfg(test)]
#[path = "shipped_tests.rs"]
mod shipped_tests;
