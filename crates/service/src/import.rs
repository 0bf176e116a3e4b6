//! `policy import`: another tool's settings, from its usual place, as a policy.

use std::path::{Path, PathBuf};

use ringfence_policy::{Became, ImportFrom, ImportPlaces, ImportRow, Imported, import};

use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;
use crate::setup::{gemini_home, variable};

/// Read `file`, or the settings at their usual places, the project's before the user's. Of several that are there one is read, since
/// each has paths of its own to begin from; the others are named.
pub fn import_policy(
    places: &Places,
    from: ImportFrom,
    file: Option<&Path>,
) -> Result<(PathBuf, Imported), ServiceError> {
    let candidates = match file {
        Some(file) => vec![places.absolute(file, &places.current)],
        None => usual(places, from),
    };
    for (at, path) in candidates.iter().enumerate() {
        let problem = |why: String| {
            ServiceError::new(
                ErrorCode::BadPolicy,
                format!("{}: {why}", path.display()),
                "correct the file, or name another: ringfence policy import --from TOOL FILE",
            )
        };
        let Some(text) = read_if_there(path).map_err(|error| problem(error.to_string()))? else { continue };
        let places =
            ImportPlaces { home: places.home.clone(), current: places.current.clone(), file: path.clone() };
        let mut imported = import(from, &text, &places).map_err(|error| problem(error.to_string()))?;
        let others = candidates[at + 1..].iter().filter(|other| other.symlink_metadata().is_ok());
        imported.rows.extend(others.map(|other| ImportRow {
            setting: other.display().to_string(),
            became: Became::NotRead,
            policy: String::new(),
            why: format!(
                "the tool reads it too: `ringfence policy import --from {from} {}`, and put what it takes away into this policy",
                other.display()
            ),
        }));
        return Ok((path.clone(), imported));
    }
    let looked: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
    Err(ServiceError::new(
        ErrorCode::BadRequest,
        format!("there are no settings of {from} at {}", looked.join(" or ")),
        format!("name the file: ringfence policy import --from {from} FILE"),
    ))
}

fn usual(places: &Places, from: ImportFrom) -> Vec<PathBuf> {
    let (home, project) = (&places.home, &places.current);
    match from {
        ImportFrom::Srt => vec![home.join(".srt-settings.json")],
        ImportFrom::ClaudeCode => vec![
            project.join(".claude/settings.json"),
            project.join(".claude/settings.local.json"),
            variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude")).join("settings.json"),
            "/etc/claude-code/managed-settings.json".into(),
        ],
        ImportFrom::Codex => vec![
            project.join(".codex/config.toml"),
            variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml"),
            "/etc/codex/config.toml".into(),
        ],
        ImportFrom::Gemini => vec![
            project.join(".gemini/settings.json"),
            gemini_home(places).join(".gemini/settings.json"),
            "/etc/gemini-cli/settings.json".into(),
        ],
    }
}
