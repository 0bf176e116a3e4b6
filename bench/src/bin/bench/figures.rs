//! What was measured, as data.

use ringfence_bench::Spread;
use serde::{Deserialize, Serialize};

use crate::contender::Kind;

/// Pause before each start: some costs show only on a machine that has gone quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rhythm {
    BackToBack,
    Paused,
}

impl Rhythm {
    pub(crate) const ALL: [Self; 2] = [Self::BackToBack, Self::Paused];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::BackToBack => "back to back",
            Self::Paused => "100 ms between runs",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Timing {
    pub(crate) kind: Kind,
    pub(crate) command: usize,
    pub(crate) rhythm: Rhythm,
    /// Milliseconds.
    pub(crate) spread: Spread,
}

/// Runs a second, `at_once` at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) kind: Kind,
    pub(crate) at_once: usize,
    pub(crate) per_second: f64,
}

/// Of all processes of a sandbox that sleeps but the command's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) kind: Kind,
    pub(crate) processes: usize,
    pub(crate) private_dirty: u64,
    pub(crate) proportional: u64,
}

pub(crate) type Timed = (Vec<Timing>, Vec<Throughput>);

/// All of one user.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) who: String,
    pub(crate) timings: Vec<Timing>,
    pub(crate) throughput: Vec<Throughput>,
    /// Empty where this user may not look into guard.
    pub(crate) memory: Vec<Memory>,
}

impl Figures {
    pub(crate) fn spread(&self, kind: Kind, command: usize, rhythm: Rhythm) -> Option<Spread> {
        let wanted =
            |timing: &&Timing| timing.kind == kind && timing.command == command && timing.rhythm == rhythm;
        self.timings.iter().find(wanted).map(|timing| timing.spread)
    }

    /// Median over median.
    pub(crate) fn ratio(&self, kind: Kind, to: Kind, command: usize, rhythm: Rhythm) -> Option<f64> {
        Some(self.spread(kind, command, rhythm)?.median / self.spread(to, command, rhythm)?.median)
    }

    pub(crate) fn per_second(&self, kind: Kind, at_once: usize) -> Option<f64> {
        self.throughput
            .iter()
            .find(|row| row.kind == kind && row.at_once == at_once)
            .map(|row| row.per_second)
    }
}
