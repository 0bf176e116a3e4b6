//! What came of a run.

use std::time::Duration;

use ringfence_guard::ExecStage;
use ringfence_linux::Exited;

use crate::denial::Denial;
use crate::network_record::NetworkRecord;
use crate::receipt::Receipt;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(Exited),
    TimedOut,
    /// It wrote more than [`WriteBound`](crate::WriteBound) lets it.
    OverBound,
    /// The caller was told to stop by this signal, and the tree was ended.
    Interrupted(i32),
    NotStarted {
        stage: ExecStage,
        errno: i32,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    pub max_memory: u64,
    pub processes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub truncated: bool,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    pub duration: Duration,
    /// From the plan to the moment when the walls were up and the command could start; none if that never came.
    pub start: Option<Duration>,
    pub usage: Usage,
    pub captured: Captured,
    pub denials: Vec<Denial>,
    /// What the end check found, one line each.
    pub notes: Vec<String>,
    /// What went through egress; `None` where the sandbox had none.
    pub network: Option<NetworkRecord>,
    pub receipt: Receipt,
    /// The sandbox had been made before the order came.
    pub ahead: bool,
}

impl Outcome {
    /// The exit status that a shell would see: the command's own, 128+n for a signal, 124 for a timeout, 126 and 127
    /// for a command that can't be started, 125 where it was the sandbox's fault.
    pub fn exit_code(&self) -> i32 {
        const ENOENT: i32 = 2;
        match self.end {
            End::Exited(how) => how.shell_code(),
            End::TimedOut => 124,
            End::OverBound => 137,
            End::Interrupted(signal) => 128 + signal,
            End::NotStarted { stage: ExecStage::Program, errno: ENOENT } => 127,
            End::NotStarted { stage: ExecStage::Program, .. } => 126,
            End::NotStarted { .. } => 125,
        }
    }
}
