//! What came of a run, apart from its output, as every interface tells it.

use std::time::Duration;

use ringfence_sandbox::{Denial, End, Exited, NetworkRecord, Receipt};
use serde::Serialize;

use crate::error::ServiceError;
use crate::learn::LearnedRules;
use crate::runs::RunReport;

#[derive(Debug, Serialize)]
pub struct RunFacts {
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// Until the walls were up: for whoever counts.
    #[serde(skip)]
    pub start: Option<Duration>,
    pub usage: UsageFacts,
    /// Null where the sandbox had no network.
    pub network: Option<NetworkRecord>,
    /// Only where that was to be learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedRules>,
    pub denials: Vec<Denial>,
    pub notes: Vec<String>,
    /// Why the command itself could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ServiceError>,
    pub receipt: Receipt,
    /// The sandbox came from a pool; left out where it did not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pooled: bool,
}

#[derive(Debug, Serialize)]
pub struct UsageFacts {
    pub cpu_ms: u64,
    pub max_memory_bytes: u64,
    pub processes: u64,
}

impl From<RunReport> for RunFacts {
    fn from(report: RunReport) -> Self {
        let RunReport { exit_code, outcome, not_started, learned, policy: _ } = report;
        let signal = match outcome.end {
            End::Exited(Exited::Signal(signal)) | End::Interrupted(signal) => Some(signal),
            _ => None,
        };
        Self {
            exit_code,
            signal,
            timed_out: outcome.end == End::TimedOut,
            duration_ms: outcome.duration.as_millis() as u64,
            start: outcome.start,
            usage: UsageFacts {
                cpu_ms: outcome.usage.cpu.as_millis() as u64,
                max_memory_bytes: outcome.usage.max_memory,
                processes: outcome.usage.processes,
            },
            network: outcome.network,
            learned,
            denials: outcome.denials,
            notes: outcome.notes,
            error: not_started,
            receipt: outcome.receipt,
            pooled: outcome.ahead,
        }
    }
}
