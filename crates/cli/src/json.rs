//! The object that `run --json` prints.

use ringfence_service::skills::{RanSkill, RanWith, SkillReport, WorkspaceChange};
use ringfence_service::{RunFacts, RunReport};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct RunObject {
    #[serde(flatten)]
    facts: RunFacts,
    stdout: String,
    /// Only where stdout is not UTF-8, and `stdout` has replacement characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    truncated: bool,
}

/// What `skill run --json` prints: the same, and what is of the skill.
#[derive(Debug, Serialize)]
pub(crate) struct SkillRunObject {
    #[serde(flatten)]
    run: RunObject,
    skill: RanSkill,
    dependencies: RanWith,
    /// New, changed and removed files of the workspace; null where that is gone with the sandbox.
    workspace_changes: Option<Vec<WorkspaceChange>>,
    workspace_changes_truncated: bool,
}

impl From<SkillReport> for SkillRunObject {
    fn from(report: SkillReport) -> Self {
        let SkillReport { run, skill, dependencies, workspace_changes } = report;
        let truncated = workspace_changes.as_ref().is_some_and(|changes| changes.truncated);
        Self {
            run: run.into(),
            skill,
            dependencies,
            workspace_changes: workspace_changes.map(|changes| changes.files),
            workspace_changes_truncated: truncated,
        }
    }
}

impl From<RunReport> for RunObject {
    fn from(mut report: RunReport) -> Self {
        let captured = std::mem::take(&mut report.outcome.captured);
        let (stdout, stdout_base64) = text(captured.stdout);
        let (stderr, stderr_base64) = text(captured.stderr);
        let truncated = captured.truncated;
        Self { stdout, stdout_base64, stderr, stderr_base64, truncated, facts: report.into() }
    }
}

/// The bytes as text, and as base64 where text would lose some.
pub(crate) fn text(bytes: Vec<u8>) -> (String, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let bytes = error.into_bytes();
            (String::from_utf8_lossy(&bytes).into_owned(), Some(base64(&bytes)))
        }
    }
}

/// RFC 4648, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let index = (group >> (18 - 6 * place)) & 63;
            text.push(if place > chunk.len() { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn only_what_is_not_text_is_coded() {
        assert_eq!(text(b"abc".to_vec()), ("abc".into(), None));
        assert_eq!(text(vec![b'a', 0xff]), ("a\u{fffd}".into(), Some("Yf8=".into())));
    }
}
