//! The commands of a session: those of which something is left, and those that are remembered. Every turn of the keeper
//! looks at all of the first, so that what is long over must not be among them.

use std::collections::BTreeMap;

use super::process::Process;

/// Ended processes are remembered up to this many; the oldest is forgotten first, with its log.
const REMEMBERED: usize = 1_000;

#[derive(Default)]
pub(super) struct Processes {
    live: BTreeMap<u32, Process>,
    past: BTreeMap<u32, Process>,
}

impl Processes {
    pub(super) fn insert(&mut self, process: Process) {
        self.live.insert(process.id, process);
    }

    /// As if it had never been.
    pub(super) fn remove(&mut self, id: u32) {
        self.live.remove(&id);
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Process> {
        self.live.values()
    }

    pub(super) fn all_live_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.live.values_mut()
    }

    pub(super) fn live_mut(&mut self, id: u32) -> Option<&mut Process> {
        self.live.get_mut(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Process> {
        self.live.get_mut(&id).or_else(|| self.past.get_mut(&id))
    }

    /// By id.
    pub(super) fn all(&self) -> Vec<&Process> {
        let mut all: Vec<&Process> = self.past.values().chain(self.live.values()).collect();
        all.sort_by_key(|process| process.id);
        all
    }

    /// Nothing of it is left.
    pub(super) fn bury(&mut self, id: u32) {
        if let Some(process) = self.live.remove(&id) {
            self.past.insert(id, process);
        }
    }

    /// A session that lives for months must not remember every command. Who is forgotten.
    pub(super) fn forget_oldest(&mut self) -> Option<u32> {
        if self.past.len() + self.live.len() <= REMEMBERED {
            return None;
        }
        self.past.pop_first().map(|(id, _)| id)
    }
}
