//! The look-up by number: runs of equal actions become leaves, leaves become a balanced tree of comparisons.
//! A leaf is one action with a few odd numbers in it, tested one by one: an odd number between two equal runs
//! costs one instruction that way, and two as a range of its own.

use super::assemble::{Assembler, Label};
use super::table::ArgRule;

/// What the program does with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Allow,
    Closed,
    NoSys,
    /// To the listener, whatever a closed call does.
    Trace,
    /// The rule decides between allowed and closed.
    Args(ArgRule),
    /// The rule decides between traced and closed.
    TraceArgs(ArgRule),
}

/// A run of numbers with one action; it ends where the next begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) action: Action,
}

/// A stretch of runs, decided by testing the numbers that differ from `rest`.
#[derive(Clone, Copy)]
struct Leaf {
    first: usize,
    end: usize,
    rest: Action,
}

/// Longer chains save instructions but lengthen the path, which the kernel walks for every number at install.
const LONGEST_CHAIN: u32 = 4;
/// A run this long inside a leaf is tested number by number.
const LONGEST_ODD_RUN: u32 = 2;

/// Emits the tree over sorted, merged runs; `target` gives the place that carries out an action.
pub(super) fn emit(
    asm: &mut Assembler,
    runs: &[Run],
    target: &mut dyn FnMut(&mut Assembler, Action) -> Label,
) -> Label {
    let leaves = leaves(runs);
    emit_leaves(asm, runs, &leaves, target)
}

fn emit_leaves(
    asm: &mut Assembler,
    runs: &[Run],
    leaves: &[Leaf],
    target: &mut dyn FnMut(&mut Assembler, Action) -> Label,
) -> Label {
    if let [leaf] = leaves {
        return emit_leaf(asm, runs, *leaf, target);
    }
    let (low, high) = leaves.split_at(leaves.len() / 2);
    let pivot = runs[high[0].first].start;
    let high = emit_leaves(asm, runs, high, target);
    let low = emit_leaves(asm, runs, low, target);
    asm.at_least(pivot, high, low)
}

fn emit_leaf(
    asm: &mut Assembler,
    runs: &[Run],
    leaf: Leaf,
    target: &mut dyn FnMut(&mut Assembler, Action) -> Label,
) -> Label {
    let mut next = target(asm, leaf.rest);
    for (at, run) in runs.iter().enumerate().take(leaf.end).skip(leaf.first).rev() {
        if run.action != leaf.rest {
            for number in run.start..runs[at + 1].start {
                let hit = target(asm, run.action);
                next = asm.equal(number, hit, next);
            }
        }
    }
    next
}

/// Cuts the runs into leaves so that tests and comparisons together are fewest.
fn leaves(runs: &[Run]) -> Vec<Leaf> {
    // best[i]: the fewest instructions for the runs before i, and the leaf that ends there.
    let mut best = vec![(u32::MAX, Leaf { first: 0, end: 0, rest: Action::NoSys }); runs.len() + 1];
    best[0].0 = 0;
    for first in 0..runs.len() {
        let before = best[first].0;
        // The rest of a leaf is its first or second action: anything else would be a longer chain.
        for rest in
            [Some(runs[first].action), runs.get(first + 1).map(|run| run.action)].into_iter().flatten()
        {
            let mut tests = 0;
            for end in first + 1..=runs.len() {
                let run = runs[end - 1];
                if run.action != rest {
                    let length = runs.get(end).map_or(u32::MAX, |next| next.start - run.start);
                    tests += length.min(LONGEST_CHAIN + 1);
                    if length > LONGEST_ODD_RUN || tests > LONGEST_CHAIN {
                        break;
                    }
                }
                let cost = before + tests + 1;
                if cost < best[end].0 {
                    best[end] = (cost, Leaf { first, end, rest });
                }
            }
        }
    }
    let mut leaves = Vec::with_capacity(64);
    let mut end = runs.len();
    while end > 0 {
        let leaf = best[end].1;
        leaves.push(leaf);
        end = leaf.first;
    }
    leaves.reverse();
    leaves
}
