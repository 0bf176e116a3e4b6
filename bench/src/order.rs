//! Who comes first in a round.

/// A xorshift generator: the order must be mixed, not secret, and the same in each run.
#[derive(Debug)]
pub struct Order(u64);

impl Default for Order {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Order {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn shuffle<T>(&mut self, turns: &mut [T]) {
        for last in (1..turns.len()).rev() {
            turns.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}
