//! The receipt: each clause of the policy, the mechanism that enforced it, and what was waived.

use ringfence_policy::Clause;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Enforced,
    /// The caller gave it up by name.
    Waived,
    /// A profile's default limit that this host can't enforce; a caller's own is refused instead.
    Unenforced,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReceiptLine {
    pub clause: Clause,
    pub status: Status,
    pub value: String,
    pub mechanism: String,
}

/// What was enforced, how, for one sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    pub provider: &'static str,
    /// The runtime that it drove, and its version, where it has more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Why it was this one, where the policy left that open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    pub clauses: Vec<ReceiptLine>,
    pub warnings: Vec<String>,
}

impl Receipt {
    pub fn new(provider: &'static str) -> Self {
        Self {
            provider,
            runtime: None,
            chosen: None,
            clauses: Vec::with_capacity(Clause::ALL.len()),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn enforced(
        &mut self,
        clause: Clause,
        value: impl Into<String>,
        mechanism: impl Into<String>,
    ) {
        self.line(clause, Status::Enforced, value.into(), mechanism.into());
    }

    pub(crate) fn waived(&mut self, clause: Clause) {
        self.line(clause, Status::Waived, String::new(), "waived by the caller".into());
    }

    pub(crate) fn unenforced(&mut self, clause: Clause, value: String, why: &str) {
        self.warnings.push(format!("{} = {value} is not enforced: {why}", clause.as_str()));
        self.line(clause, Status::Unenforced, value, why.into());
    }

    fn line(&mut self, clause: Clause, status: Status, value: String, mechanism: String) {
        self.clauses.push(ReceiptLine { clause, status, value, mechanism });
    }
}
