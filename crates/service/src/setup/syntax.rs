//! What each client takes for a settings file. One that it does not take is worth nothing to it, and some say so to nobody:
//! Claude Code leaves the whole file out, our prefix with it, for a comment or for a number where a text belongs.
//!
//! Invariant: a file is changed only if its client reads it before, and reads what was written after.

use std::path::Path;

use serde_json::Value;

use super::json_text;
use crate::error::{ErrorCode, ServiceError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// JSON to the letter, and at the keys that the client knows a value of its type.
    ClaudeSettings,
    /// JSON to the letter.
    Json,
    /// With comments; a comma too many is an error.
    Comments,
    /// With both.
    CommentsAndCommas,
    Toml,
    /// A file that is ours from its first to its last byte.
    Whole,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Flag,
    /// Above zero.
    Number,
    Texts,
    Object,
    /// Texts, numbers and flags by name.
    Variables,
    /// An object with the texts `type` and `command`.
    Command,
    /// Lists of objects by name, each with a list `hooks`.
    Hooks,
}

/// Those of its keys that people set. A key that is not here is not looked at: `claude doctor` knows all of them.
const CLAUDE: &[(&str, Kind)] = &[
    ("$schema", Kind::Text),
    ("apiKeyHelper", Kind::Text),
    ("awsAuthRefresh", Kind::Text),
    ("awsCredentialExport", Kind::Text),
    ("gcpAuthRefresh", Kind::Text),
    ("model", Kind::Text),
    ("outputStyle", Kind::Text),
    ("language", Kind::Text),
    ("fallbackModel", Kind::Texts),
    ("availableModels", Kind::Texts),
    ("enabledMcpjsonServers", Kind::Texts),
    ("disabledMcpjsonServers", Kind::Texts),
    ("cleanupPeriodDays", Kind::Number),
    ("respectGitignore", Kind::Flag),
    ("includeCoAuthoredBy", Kind::Flag),
    ("includeGitInstructions", Kind::Flag),
    ("enableAllProjectMcpServers", Kind::Flag),
    ("disableAllHooks", Kind::Flag),
    ("permissions", Kind::Object),
    ("permissions.allow", Kind::Texts),
    ("permissions.deny", Kind::Texts),
    ("permissions.ask", Kind::Texts),
    ("permissions.additionalDirectories", Kind::Texts),
    ("permissions.defaultMode", Kind::Text),
    ("env", Kind::Variables),
    ("hooks", Kind::Hooks),
    ("sandbox", Kind::Object),
    ("statusLine", Kind::Command),
    ("fileSuggestion", Kind::Command),
    ("modelOverrides", Kind::Object),
    ("enabledPlugins", Kind::Object),
    ("extraKnownMarketplaces", Kind::Object),
    ("worktree", Kind::Object),
];

impl Kind {
    fn takes(self, value: &Value) -> bool {
        let texts = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        match self {
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Number => value.as_f64().is_some_and(|value| value > 0.0),
            Self::Texts => texts(value),
            Self::Object => value.is_object(),
            Self::Command => value["type"].is_string() && value["command"].is_string(),
            Self::Variables => value.as_object().is_some_and(|all| {
                all.values().all(|value| value.is_string() || value.is_number() || value.is_boolean())
            }),
            Self::Hooks => value.as_object().is_some_and(|all| {
                all.values().all(|list| {
                    list.as_array().is_some_and(|list| {
                        list.iter().all(|entry| {
                            entry["hooks"].is_array()
                                && (entry["matcher"].is_null() || entry["matcher"].is_string())
                        })
                    })
                })
            }),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Flag => "true or false",
            Self::Number => "a number above zero",
            Self::Texts => "a list of texts",
            Self::Object => "an object",
            Self::Command => "an object with `type` and `command`",
            Self::Variables => "an object of texts",
            Self::Hooks => "an object of lists of objects, each with `hooks`",
        }
    }
}

/// Whether the client reads `text`.
pub(super) fn check(syntax: Syntax, file: &Path, text: &str) -> Result<(), ServiceError> {
    // A file that is not there yet.
    if text.trim().is_empty() {
        return Ok(());
    }
    let refused = |why: String, hint: &str| {
        let name = file.display();
        Err(ServiceError::new(ErrorCode::BadRequest, format!("{name} is not changed: {why}"), hint))
    };
    let parsed = match syntax {
        Syntax::Toml | Syntax::CommentsAndCommas | Syntax::Whole => return Ok(()),
        Syntax::Comments => serde_json::from_str(&json_text::without_comments(text)),
        Syntax::Json | Syntax::ClaudeSettings => serde_json::from_str::<Value>(text),
    };
    let value = match parsed {
        Ok(value) => value,
        Err(error) => {
            let takes = match syntax {
                Syntax::Comments => "the client takes comments, but no comma before a closing bracket",
                _ => "the client takes JSON without comments and without a comma before a closing bracket",
            };
            return refused(
                format!("{takes}, and leaves the whole file out for less: {error}"),
                "correct the file, then run `ringfence setup` again: with the file as it is, nothing in it holds",
            );
        }
    };
    if syntax != Syntax::ClaudeSettings {
        return Ok(());
    }
    for (key, kind) in CLAUDE {
        let found = key.split('.').try_fold(&value, |value, name| value.get(name));
        if let Some(found) = found
            && !kind.takes(found)
        {
            return refused(
                format!(
                    "`{key}` is not {}, and Claude Code leaves the whole file out for that",
                    kind.words()
                ),
                "correct it, then run `ringfence setup` again; `claude doctor` lists what it does not take",
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(syntax: Syntax, text: &str) -> bool {
        check(syntax, Path::new("/x"), text).is_ok()
    }

    #[test]
    fn each_client_has_its_own_measure() {
        let plain = "{\"a\": \"// no comment\", \"b\": [1, 2]}";
        let comment = "{ // mine\n \"a\": /* x */ 1}";
        let comma = "{\"a\": [1, 2,],}";
        for (syntax, comments, commas) in [
            (Syntax::ClaudeSettings, false, false),
            (Syntax::Json, false, false),
            (Syntax::Comments, true, false),
            (Syntax::CommentsAndCommas, true, true),
        ] {
            assert!(takes(syntax, plain) && takes(syntax, ""), "{syntax:?}");
            assert_eq!(takes(syntax, comment), comments, "{syntax:?}");
            assert_eq!(takes(syntax, comma), commas, "{syntax:?}");
        }
    }

    #[test]
    fn a_type_that_the_client_does_not_take_is_found() {
        for bad in [
            "{\"permissions\":\"x\"}",
            "{\"permissions\":{\"allow\":\"x\"}}",
            "{\"permissions\":{\"deny\":[5]}}",
            "{\"env\":\"x\"}",
            "{\"env\":{\"X\":{}}}",
            "{\"model\":5}",
            "{\"model\":null}",
            "{\"hooks\":[]}",
            "{\"hooks\":{\"PreToolUse\":\"x\"}}",
            "{\"hooks\":{\"PreToolUse\":[{\"matcher\":5,\"hooks\":[]}]}}",
            "{\"disableAllHooks\":\"yes\"}",
            "{\"statusLine\":{}}",
            "{\"cleanupPeriodDays\":0}",
        ] {
            assert!(!takes(Syntax::ClaudeSettings, bad), "{bad}");
            assert!(takes(Syntax::Json, bad), "{bad}");
        }
        let fine = "{\"permissions\":{\"allow\":[\"x\"],\"defaultMode\":\"plan\"},\"env\":{\"A\":\"b\"},\"model\":\"m\",\
                    \"hooks\":{\"Stop\":[{\"hooks\":[]}]},\"unknown\":5}";
        assert!(takes(Syntax::ClaudeSettings, fine));
    }
}
