//! The audit of one-shot runs, those of a client's commands too. The record is written once the command has ended, to a file of its own: nothing of it is on the
//! path of starting the command, and no database is opened for it.
//!
//! What a `kill -9` of `ringfence run` loses is the record of that one run, whose command ends with it.

use std::ffi::{OsStr, OsString};
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_policy::{Layer, Origin, SecretSource, is_secret_name, masked_words, secret_values};
use ringfence_server::{fold_spool, spool_directory};
use ringfence_service::{Client, Places, RunReport, RunSpec, ServiceError};
use ringfence_store::{AuditEntry, Clock, redact, spool_append};
use serde_json::{Value, json};

use crate::output;
use crate::verbs::store::with_store;

/// What is kept of an order until its command has ended.
#[derive(Debug)]
pub(crate) struct Noted {
    kind: &'static str,
    target: Option<String>,
    argv: Vec<OsString>,
    flags: Vec<(Origin, Layer)>,
}

/// Where nobody looks at the audit, records are folded in by the runs themselves: about one of so many does.
const SELDOM: u32 = 1024;

impl Noted {
    pub(crate) fn run(spec: &RunSpec) -> Self {
        Self { kind: "run", target: None, argv: spec.argv.clone(), flags: spec.policy.flags.clone() }
    }

    pub(crate) fn skill(spec: &RunSpec, skill: String, words: &[OsString]) -> Self {
        Self {
            kind: "skill.run",
            target: Some(skill),
            argv: words.to_vec(),
            flags: spec.policy.flags.clone(),
        }
    }

    /// A command of a client's, as the client gave it.
    pub(crate) fn wrapped(spec: &RunSpec, client: Client, command: &OsStr) -> Self {
        let target = Some(client.as_str().to_owned());
        Self { kind: "wrap", target, argv: vec![command.to_owned()], flags: spec.policy.flags.clone() }
    }

    pub(crate) fn ended(self, places: &Places, report: &RunReport) {
        let result = json!({
            "exit_code": report.exit_code,
            "timed_out": report.timed_out(),
            "duration_ms": report.outcome.duration.as_millis() as u64,
            "error": report.not_started.as_ref().map(|error| error.code),
        });
        let denials = serde_json::to_value(&report.outcome.denials).unwrap_or_default();
        let digests = (Some(report.policy_digest()), Some(report.receipt_digest()));
        self.append(places, "allow", result, denials, digests);
    }

    /// Nothing ran.
    pub(crate) fn refused(self, places: &Places, error: &ServiceError) {
        let result = json!({ "error": error.code });
        self.append(places, "deny", result, Value::Array(Vec::new()), (None, None));
    }

    fn append(
        self,
        places: &Places,
        decision: &str,
        mut result: Value,
        denials: Value,
        (policy_digest, receipt_digest): (Option<String>, Option<String>),
    ) {
        let secrets = self.secrets();
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let words: Vec<_> = self.argv.iter().map(|word| word.to_string_lossy()).collect();
        result["command"] = masked_words(&words, &secrets).into();
        let entry = AuditEntry {
            at: Clock::system().now(),
            user: format!("uid {}", rustix::process::getuid().as_raw()),
            kind: self.kind.into(),
            target: self.target,
            decision: Some(decision.into()),
            policy_digest,
            receipt_digest,
            denials: redact(&denials, &secrets),
            result: redact(&result, &secrets),
            request_id: None,
            origin: Some("cli".into()),
        };
        let state = places.state.path();
        let kept =
            places.state.ensure().map_err(|error| error.message).and_then(|()| {
                spool_append(&spool_directory(state), &entry).map_err(|error| error.to_string())
            });
        if let Err(why) = kept {
            output::note(&format!("this run is not in the audit: {why}"));
        } else if is_seldom() {
            let folded = with_store(async |store| fold_spool(&store, state).await);
            // Whoever looks at the audit folds them in, and is told what is wrong then.
            drop(folded);
        }
    }

    /// Values that may not be written down, wherever they are: of `--env`, of what `--secret` reads, and of variables that are
    /// named like secrets.
    fn secrets(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (_, layer) in &self.flags {
            found.extend(secret_values(&layer.environment.set));
            for secret in &layer.network.secrets {
                if let SecretSource::Env(name) = &secret.from {
                    found.extend(std::env::var(name).ok());
                }
            }
        }
        let named = std::env::vars_os().filter_map(|(name, value)| {
            name.to_str().filter(|name| is_secret_name(name))?;
            value.into_string().ok()
        });
        found.extend(named);
        // A short one would be found in every other word.
        found.retain(|value| value.len() >= SHORTEST);
        found
    }
}

const SHORTEST: usize = 6;

fn is_seldom() -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.subsec_micros().is_multiple_of(SELDOM)
}
