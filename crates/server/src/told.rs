//! What is said of a command of a session beyond how it ended: why it could not be started, in the words of a one-shot run,
//! and which file accesses its error output suggests were refused.

use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_sandbox::{ExecStage, ProcessEnd, ProcessResult, Sandbox, Stage};
use ringfence_service::{Places, explain_not_started};
use serde_json::{Value, json};

use crate::blocking;
use crate::error::Answer;
use crate::http::facts;

/// How much of an error output is kept for it, from its end.
const KEPT: usize = 64 << 10;

/// The end of an output.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
        if self.0.len() > 2 * KEPT {
            self.0.drain(..self.0.len() - KEPT);
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// What a command was, as far as its end may have to do with it.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) argv: Vec<OsString>,
    /// As it was asked for.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) stderr: Vec<u8>,
}

/// The result with the denials that are inferred, and its facts, with `error` where it was not started.
pub(crate) async fn told(
    places: &Places,
    sandbox: &Sandbox,
    ran: Ran,
    mut result: ProcessResult,
) -> Answer<(ProcessResult, Value)> {
    if result.end.exit_code() == 0 {
        let facts = facts(&result);
        return Ok((result, facts));
    }
    let (places, sandbox) = (places.clone(), sandbox.clone());
    blocking(move || {
        let Ran { argv, directory, stderr } = ran;
        sandbox.explain(&mut result, directory.as_deref(), &stderr);
        let mut facts = facts(&result);
        if let ProcessEnd::NotStarted { stage, errno } = result.end {
            let start = sandbox.facts()?.directory;
            let directory = directory.map_or(start.clone(), |directory| start.join(directory));
            let stage = match stage {
                Stage::Directory => ExecStage::Directory,
                Stage::Stdio => ExecStage::Stdio,
                Stage::Program => ExecStage::Program,
            };
            facts["error"] = json!(explain_not_started(&places, &argv, &directory, None, stage, errno));
        }
        Ok((result, facts))
    })
    .await
}
