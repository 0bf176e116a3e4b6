//! One requirement of PEP 508: read into its parts and written anew from them, so that what reaches an installer is never
//! the text of somebody else.

use super::marker;
use super::version::VersionRange;

const MOST_BYTES: usize = 2_000;

/// The parts of a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    /// Normalised as in PEP 503.
    pub(super) name: String,
    pub(super) extras: Vec<String>,
    pub(super) versions: VersionRange,
    pub(super) marker: Option<String>,
}

/// Why something is no requirement that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequirementError {
    #[error("from a URL, and packages come only from the registry that the user configured")]
    Url,
    #[error("from a repository, and packages come only from the registry that the user configured")]
    Repository,
    #[error("a file or directory, and packages come only from the registry that the user configured")]
    Path,
    #[error("its versions are not a range as in PEP 440")]
    Versions,
    #[error("its marker is not one of PEP 508")]
    Marker,
    #[error("not a requirement as in PEP 508")]
    Syntax,
}

impl Parsed {
    pub(super) fn text(&self) -> String {
        let extras =
            if self.extras.is_empty() { String::new() } else { format!("[{}]", self.extras.join(",")) };
        let marker = self.marker.as_ref().map_or_else(String::new, |marker| format!("; {marker}"));
        format!("{}{extras}{}{marker}", self.name, self.versions)
    }
}

/// `name[extra] >= 1 ; marker`, in any of its spellings.
pub(super) fn parse(text: &str) -> Result<Parsed, RequirementError> {
    let text = text.trim();
    if text.len() > MOST_BYTES || text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(RequirementError::Syntax);
    }
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = rest.trim_start();
    if !is_name(name) || is_archive(name) {
        return Err(elsewhere(text).unwrap_or(RequirementError::Syntax));
    }
    let (extras, rest) = extras(rest)?;
    if let Some(url) = rest.strip_prefix('@') {
        return Err(elsewhere(url.trim_start()).unwrap_or(RequirementError::Url));
    }
    let (versions, marker) = match rest.split_once(';') {
        Some((versions, marker)) => (versions.trim(), Some(marker::normalised(marker)?)),
        None => (rest.trim(), None),
    };
    let versions = match versions.strip_prefix('(') {
        Some(inner) => inner.strip_suffix(')').ok_or(RequirementError::Syntax)?,
        None => versions,
    };
    let versions =
        VersionRange::parse(versions).map_err(|_| elsewhere(text).unwrap_or(RequirementError::Versions))?;
    Ok(Parsed { name: normalised_name(name), extras, versions, marker })
}

/// PEP 503: lower case, one `-` for each run of `-`, `_` and `.`.
pub(super) fn normalised_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '-' | '_' | '.') {
            if !out.ends_with('-') {
                out.push('-');
            }
        } else {
            out.push(c.to_ascii_lowercase());
        }
    }
    out
}

fn is_name(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    name.len() <= 128 && edge(name.as_bytes().first()) && edge(name.as_bytes().last())
}

fn is_archive(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2"].iter().any(|ending| lower.ends_with(ending))
}

fn extras(text: &str) -> Result<(Vec<String>, &str), RequirementError> {
    let Some(inner) = text.strip_prefix('[') else { return Ok((Vec::new(), text)) };
    let (inner, rest) = inner.split_once(']').ok_or(RequirementError::Syntax)?;
    let mut extras = Vec::new();
    for extra in inner.split(',').map(str::trim).filter(|extra| !extra.is_empty()) {
        let right =
            extra.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        if !right || !is_name(extra) {
            return Err(RequirementError::Syntax);
        }
        extras.push(normalised_name(extra));
    }
    extras.sort_unstable();
    extras.dedup();
    Ok((extras, rest.trim_start()))
}

/// Something that an installer would fetch from another place than the registry.
fn elsewhere(text: &str) -> Option<RequirementError> {
    let lower = text.to_ascii_lowercase();
    if ["git+", "hg+", "svn+", "bzr+", "git@", "git:", "github:"].iter().any(|start| lower.starts_with(start))
    {
        return Some(RequirementError::Repository);
    }
    if lower.starts_with("file:") {
        return Some(RequirementError::Path);
    }
    if lower.contains("://") {
        return Some(RequirementError::Url);
    }
    let path = lower.starts_with(['.', '/', '~', '\\']) || lower.contains('/') || is_archive(lower.trim());
    path.then_some(RequirementError::Path)
}

#[cfg(test)]
#[path = "requirement_tests.rs"]
mod tests;
