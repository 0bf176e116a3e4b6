//! `policy import`: another tool's settings, from its usual place, as a policy.

use std::path::{Path, PathBuf};

use ringfence_policy::{ImportFrom, ImportPlaces, Imported, import};

use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;

/// Read `file`, or the settings at their usual places, the project's before the user's.
pub fn import_policy(
    places: &Places,
    from: ImportFrom,
    file: Option<&Path>,
) -> Result<(PathBuf, Imported), ServiceError> {
    let candidates = match file {
        Some(file) => vec![places.absolute(file, &places.current)],
        None => usual(places, from),
    };
    for path in &candidates {
        let problem = |why: String| {
            ServiceError::new(
                ErrorCode::BadPolicy,
                format!("{}: {why}", path.display()),
                "correct the file, or name another: ringfence policy import --from TOOL FILE",
            )
        };
        let Some(text) = read_if_there(path).map_err(|error| problem(error.to_string()))? else { continue };
        let at =
            ImportPlaces { home: places.home.clone(), current: places.current.clone(), file: path.clone() };
        let imported = import(from, &text, &at).map_err(|error| problem(error.to_string()))?;
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
        ImportFrom::ClaudeCode => {
            vec![project.join(".claude/settings.json"), home.join(".claude/settings.json")]
        }
        ImportFrom::Codex => vec![project.join(".codex/config.toml"), home.join(".codex/config.toml")],
        ImportFrom::Gemini => vec![project.join(".gemini/settings.json"), home.join(".gemini/settings.json")],
    }
}
