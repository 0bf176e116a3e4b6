//! How many sandboxes of one shape are worth keeping: one more whenever there was none, and fewer again when some were not
//! needed for a while.

use std::time::{Duration, Instant};

/// So long some have to lie unused before fewer are kept.
const PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Demand {
    wanted: usize,
    /// The fewest that were left ready in this period whenever one was taken. `None`: nobody asked.
    spare: Option<usize>,
    begun: Instant,
}

impl Demand {
    pub(super) fn new() -> Self {
        Self { wanted: 0, spare: None, begun: Instant::now() }
    }

    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// One was there, and so many are left.
    pub(super) fn met(&mut self, left: usize) {
        self.spare = Some(self.spare.map_or(left, |spare| spare.min(left)));
    }

    /// There was none.
    pub(super) fn missed(&mut self, most: usize) {
        self.wanted = (self.wanted + 1).min(most);
        self.spare = Some(0);
    }

    /// One was given up for another shape.
    pub(super) fn yielded(&mut self) {
        self.wanted = self.wanted.saturating_sub(1);
    }

    /// At the end of a period, half of what nobody needed in it is not wanted any more. One stays, for as long as the shape is
    /// known. `kept` is how many there are now.
    pub(super) fn fall(&mut self, now: Instant, kept: usize) {
        if now.saturating_duration_since(self.begun) < PERIOD {
            return;
        }
        let spare = self.spare.take().unwrap_or(kept).min(self.wanted.saturating_sub(1));
        self.wanted -= spare.div_ceil(2);
        self.begun = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of so many periods from now.
    fn after(periods: u32) -> Instant {
        Instant::now() + PERIOD * periods
    }

    fn grown(misses: usize) -> Demand {
        let mut demand = Demand::new();
        for _ in 0..misses {
            demand.missed(8);
        }
        demand
    }

    #[test]
    fn it_grows_by_one_whenever_there_was_none_up_to_the_most() {
        assert_eq!(grown(0).wanted(), 0);
        assert_eq!(grown(3).wanted(), 3);
        assert_eq!(grown(20).wanted(), 8);
        let mut demand = grown(3);
        demand.met(2);
        assert_eq!(demand.wanted(), 3, "one that was there is no reason for more");
    }

    #[test]
    fn what_nobody_asks_for_falls_to_one() {
        let mut demand = grown(8);
        let wanted: Vec<usize> = (1..7)
            .map(|period| {
                demand.fall(after(period), demand.wanted());
                demand.wanted()
            })
            .collect();
        // The misses were in the first period.
        assert_eq!(wanted, [8, 4, 2, 1, 1, 1]);
    }

    #[test]
    fn what_is_needed_at_a_time_is_kept_and_what_was_spare_is_not() {
        let mut demand = grown(8);
        demand.fall(after(1), 8);
        // Three at a time at the most: five were never touched.
        for left in [7, 6, 5, 7, 6] {
            demand.met(left);
        }
        demand.fall(after(2), 8);
        assert_eq!(demand.wanted(), 5);
        for left in [4, 3, 2] {
            demand.met(left);
        }
        demand.fall(after(3), 5);
        assert_eq!(demand.wanted(), 4);
        // All of them: none is given up, however often.
        for period in 4..8 {
            demand.met(0);
            demand.fall(after(period), 4);
        }
        assert_eq!(demand.wanted(), 4);
    }

    #[test]
    fn nothing_falls_before_its_time_or_below_nothing() {
        let mut demand = grown(8);
        demand.met(7);
        demand.fall(Instant::now(), 8);
        assert_eq!(demand.wanted(), 8);
        let mut none = grown(1);
        none.yielded();
        none.yielded();
        none.fall(after(1), 5);
        none.fall(after(2), 5);
        assert_eq!(none.wanted(), 0, "what gave way to others stays away");
        none.missed(8);
        assert_eq!(none.wanted(), 1);
    }
}
