//! What a run gave back, with assertions that return the outcome again so that a test reads as one sentence.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde_json::Value;

/// The result of one `ringfence` call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit code of `ringfence` itself; a death by signal counts as 128 + n.
    pub exit: i32,
    /// The command's stdout: from the JSON object if there is one.
    pub output: String,
    /// The command's stderr from the JSON object, then that of `ringfence` itself.
    pub errors: String,
    /// The object that `--json` printed.
    pub json: Option<Value>,
}

/// One blocked attempt, as the JSON object reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub kind: String,
    pub what: String,
    pub rule: String,
    pub remedy: String,
    pub count: u64,
    pub inferred: bool,
}

impl Outcome {
    pub(crate) fn new(status: ExitStatus, stdout: &[u8], stderr: &[u8], expects_json: bool) -> Self {
        let exit = status.code().or_else(|| status.signal().map(|n| 128 + n)).unwrap_or(-1);
        let own_errors = String::from_utf8_lossy(stderr).into_owned();
        let json = expects_json.then(|| serde_json::from_slice::<Value>(stdout).ok()).flatten();
        let text = |key: &str| json.as_ref().and_then(|v| v[key].as_str()).map(str::to_owned);
        let output = text("stdout").unwrap_or_else(|| String::from_utf8_lossy(stdout).into_owned());
        let errors = text("stderr").unwrap_or_default() + &own_errors;
        Self { exit, output, errors, json }
    }

    /// Whether the sandbox had been made ahead.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        self.json.as_ref().is_some_and(|json| json["pooled"] == true)
    }

    /// # Panics
    /// If the exit code is another one.
    #[track_caller]
    pub fn code(&self, expected: i32) -> &Self {
        assert!(self.exit == expected, "exit code {} instead of {expected}\n{}", self.exit, self.describe());
        self
    }

    /// # Panics
    /// If the command printed something else.
    #[track_caller]
    pub fn stdout(&self, expected: &str) -> &Self {
        assert!(self.output == expected, "stdout is not {expected:?}\n{}", self.describe());
        self
    }

    /// # Panics
    /// If stdout does not contain `part`.
    #[track_caller]
    pub fn stdout_contains(&self, part: &str) -> &Self {
        assert!(self.output.contains(part), "stdout does not contain {part:?}\n{}", self.describe());
        self
    }

    /// # Panics
    /// If stderr (the command's and our own) does not contain `part`.
    #[track_caller]
    pub fn stderr_contains(&self, part: &str) -> &Self {
        assert!(self.errors.contains(part), "stderr does not contain {part:?}\n{}", self.describe());
        self
    }

    /// # Panics
    /// Unless the sandbox refused to start (125) and said why with `part`.
    #[track_caller]
    pub fn refused(&self, part: &str) -> &Self {
        self.code(125).stderr_contains(part)
    }

    /// # Panics
    /// If no denial has `part` in its kind, rule or subject.
    #[track_caller]
    pub fn denial(&self, part: &str) -> &Self {
        assert!(self.has_denial(part), "no denial mentions {part:?}\n{}", self.describe());
        self
    }

    /// # Panics
    /// If anything was denied.
    #[track_caller]
    pub fn no_denials(&self) -> &Self {
        assert!(self.denials().is_empty(), "there are denials\n{}", self.describe());
        self
    }

    /// # Panics
    /// If the receipt gives this clause another status (`enforced`, `waived`, `unenforced`).
    #[track_caller]
    pub fn clause(&self, clause: &str, status: &str) -> &Self {
        let found = self.clause_status(clause);
        assert!(
            found.as_deref() == Some(status),
            "the receipt says {found:?} of {clause}, not {status}\n{}",
            self.describe()
        );
        self
    }

    /// What the receipt says of a clause.
    #[must_use]
    pub fn clause_status(&self, clause: &str) -> Option<String> {
        self.receipt_clauses().into_iter().find(|c| c["clause"] == clause)?["status"]
            .as_str()
            .map(str::to_owned)
    }

    /// The clauses of the receipt.
    #[must_use]
    pub fn receipt_clauses(&self) -> Vec<Value> {
        let clauses = self.json.as_ref().and_then(|v| v["receipt"]["clauses"].as_array().cloned());
        clauses.unwrap_or_default()
    }

    #[must_use]
    pub fn denials(&self) -> Vec<Denial> {
        let Some(list) = self.json.as_ref().and_then(|v| v["denials"].as_array()) else { return Vec::new() };
        let text = |denial: &Value, key: &str| denial[key].as_str().unwrap_or_default().to_owned();
        list.iter()
            .map(|denial| Denial {
                kind: text(denial, "kind"),
                what: text(denial, "what"),
                rule: text(denial, "rule"),
                remedy: text(denial, "remedy"),
                count: denial["count"].as_u64().unwrap_or(1),
                inferred: denial["inferred"].as_bool().unwrap_or(false),
            })
            .collect()
    }

    /// Whether a denial has `part` in its kind, rule or subject.
    #[must_use]
    pub fn has_denial(&self, part: &str) -> bool {
        self.denials().iter().any(|d| [&d.kind, &d.rule, &d.what].iter().any(|text| text.contains(part)))
    }

    /// Everything, for a failure message.
    #[must_use]
    pub fn describe(&self) -> String {
        let denials: Vec<String> =
            self.denials().iter().map(|d| format!("{} ({})", d.what, d.rule)).collect();
        format!(
            "exit: {}\nstdout: {}\nstderr: {}\ndenials: {}",
            self.exit,
            cut(&self.output),
            cut(&self.errors),
            denials.join(", ")
        )
    }
}

/// The first part of a long text.
fn cut(text: &str) -> String {
    const MOST: usize = 2000;
    if text.len() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(" [...]".chars()).collect()
}
