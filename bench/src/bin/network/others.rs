//! How much of the processors' time went to programs that are no part of the bench. With much of it the ratios mislead:
//! a route of three processes gets a larger share of a busy machine than a route of two.

use std::fs;

use anyhow::{Context, Result};

/// Since the machine started, in the kernel's ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    all: u64,
    /// User, system and stolen time of everybody; not the interrupts, which much of the traffic is handled in.
    used: u64,
    /// Of this process and of those that it has waited for.
    own: u64,
}

impl Ticks {
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let line = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "))
            .context("no line of all processors")?;
        let [user, nice, system, idle, wait, irq, softirq, steal] = numbers(line)?;
        let text = fs::read_to_string("/proc/self/stat")?;
        let (_, fields) = text.rsplit_once(") ").context("no end of the program's name")?;
        let [_, _, _, _, _, _, _, _, _, _, own @ ..]: [u64; 14] =
            numbers(fields.split_once(' ').context("no state")?.1)?;
        Ok(Self {
            all: user + nice + system + idle + wait + irq + softirq + steal,
            used: user + nice + system + steal,
            own: own.iter().sum(),
        })
    }

    /// The others' share since then.
    pub(crate) fn others_since(self, then: Self) -> f64 {
        let others = (self.used - then.used).saturating_sub(self.own - then.own);
        others as f64 / (self.all - then.all).max(1) as f64
    }
}

/// The first so many. A terminal's group is -1 where there is none, which is nothing here.
fn numbers<const N: usize>(text: &str) -> Result<[u64; N]> {
    let numbers: Vec<u64> = text.split_whitespace().take(N).map(|word| word.parse().unwrap_or(0)).collect();
    numbers.try_into().ok().context("too few figures")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_have_what_is_not_our_own() {
        let then = Ticks { all: 1000, used: 500, own: 100 };
        let now = Ticks { all: 1200, used: 600, own: 160 };
        assert!((now.others_since(then) - 0.2).abs() < 1e-9);
        assert!(Ticks::now().is_ok());
    }
}
