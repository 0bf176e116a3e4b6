//! Samples by rank.

use serde::{Deserialize, Serialize};

/// In the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub p10: f64,
    pub p90: f64,
    pub count: usize,
}

impl Spread {
    /// `None` of no samples.
    pub fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let at = |share: f64| samples[(last as f64 * share).round() as usize];
        Some(Self { median: at(0.5), p10: at(0.1), p90: at(0.9), count: samples.len() })
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
