//! What was measured, as data.

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

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// `None` of no samples.
    pub(crate) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let at = |share: f64| samples[(last as f64 * share).round() as usize];
        Some(Self { median: at(0.5), p10: at(0.1), p90: at(0.9), count: samples.len() })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Timing {
    pub(crate) kind: Kind,
    pub(crate) command: usize,
    pub(crate) rhythm: Rhythm,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_by_rank() {
        let spread = Spread::of((1..=11).rev().map(f64::from).collect());
        assert_eq!(spread, Some(Spread { median: 6.0, p10: 2.0, p90: 10.0, count: 11 }));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
