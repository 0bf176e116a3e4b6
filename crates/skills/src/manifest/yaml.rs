pub(super) const DEPTH: usize = 100;
pub(super) const NODES: usize = 20_000;
