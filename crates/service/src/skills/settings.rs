//! `[skills]` of the system's and the user's config file: where the library is, and what runs which kind of file. A
//! project's file has no such section: it came with a clone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::SKILLS;
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;

/// In the state directory, unless somebody says otherwise.
const LIBRARY: &str = "library";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SkillSettings {
    pub(crate) library: Option<PathBuf>,
    /// `".jl" = ["julia"]`: the words before the script.
    pub(crate) interpreters: BTreeMap<String, Vec<String>>,
}

/// The library that a flag, `RINGFENCE_LIBRARY` or the config names, else the one in the state directory. It need not
/// exist.
pub fn library_root(places: &Places, flag: Option<&Path>) -> Result<PathBuf, ServiceError> {
    if let Some(path) = flag.or(places.library.as_deref()) {
        return Ok(places.absolute(path, &places.current));
    }
    Ok(skill_settings(places)?.library.unwrap_or_else(|| places.state.path().join(LIBRARY)))
}

/// The system's, and the user's over it.
pub(crate) fn skill_settings(places: &Places) -> Result<SkillSettings, ServiceError> {
    let mut settings = SkillSettings::default();
    for path in [&places.system_config, &places.user_config] {
        let text = read_if_there(path).map_err(|error| wrong(path, &error.to_string()))?;
        let Some(text) = text.filter(|text| text.contains(SKILLS)) else { continue };
        let read = parse(&text).map_err(|why| wrong(path, &why))?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        settings.library = read.library.map(|path| places.absolute(&path, directory)).or(settings.library);
        settings.interpreters.extend(read.interpreters);
    }
    Ok(settings)
}

fn parse(text: &str) -> Result<SkillSettings, String> {
    let mut whole: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let Some(section) = whole.remove(SKILLS) else { return Ok(SkillSettings::default()) };
    let settings: SkillSettings =
        section.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    for (extension, words) in &settings.interpreters {
        if !extension.starts_with('.') || extension.len() < 2 {
            return Err(format!("skills.interpreters: `{extension}` is no extension: write it like \".jl\""));
        }
        if words.first().is_none_or(String::is_empty) {
            return Err(format!(
                "skills.interpreters: `{extension}` names no program: write it like [\"julia\"]"
            ));
        }
    }
    Ok(settings)
}

fn wrong(path: &Path, why: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadPolicy,
        format!("{}: {why}", path.display()),
        "correct the file; [skills] takes `library` and `interpreters`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_and_means_something() {
        let read = parse("[limits]\nmemory = \"1G\"\n[skills]\nlibrary = \"~/s\"\n[skills.interpreters]\n\".jl\" = [\"julia\", \"-q\"]").unwrap();
        assert_eq!(read.library, Some("~/s".into()));
        assert_eq!(read.interpreters[".jl"], ["julia", "-q"]);
        for bad in [
            "[skills]\nlibary = \"x\"",
            "[skills.interpreters]\njl = [\"julia\"]",
            "[skills.interpreters]\n\".jl\" = []",
            "[skills.interpreters]\n\".jl\" = \"julia\"",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
