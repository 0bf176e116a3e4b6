//! A keeper that was killed takes its sandbox with it, but can't take away what it had made outside: placeholders in the
//! user's workspace, control groups. Whoever notices that it is gone does that, and writes down how the session ended.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringfence_linux::{Hierarchy, sweep_cgroups};

use super::client::Sandbox;
use super::force::is_running;
use super::place::{EndReason, Pillars, Place, SessionEnd};
use crate::protect::sweep_placeholders;

/// Longer than the kernel takes to end a sandbox whose keeper was killed. Whoever only looks waits no longer.
const DEATH: Duration = Duration::from_secs(5);
/// The kernel may hold a group for a moment after its last process.
const SWEEP: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(5);

impl Sandbox {
    /// Take away what is left if its keeper was killed; nothing happens where it lives, or has ended in order.
    pub fn sweep_if_killed(&self) {
        let Ok(mut facts) = self.place().facts() else { return };
        if facts.ended.is_some() || self.is_alive() {
            return;
        }
        wait_for_death(facts.pillars);
        sweep_after(self.place());
        // Last: who is ended is not looked at again.
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let (notes, network) = (Vec::new(), Vec::new());
        facts.ended = Some(SessionEnd { at, why: EndReason::KeeperGone, notes, network });
        let _ = self.place().mark_ended(&facts);
    }
}

/// The lock of a keeper is free a moment before the process itself is gone, and its guard ends only then.
fn wait_for_death(pillars: Option<Pillars>) {
    let Some(Pillars { keeper, guard }) = pillars else { return };
    let deadline = Instant::now() + DEATH;
    while (is_running(keeper) || is_running(guard)) && Instant::now() < deadline {
        std::thread::sleep(AGAIN);
    }
}

/// What owners left that are dead by now, of this session or any other: placeholders and control groups.
pub(super) fn sweep_after(place: &Place) {
    if let Some(state) = place.path().parent().and_then(Path::parent) {
        sweep_placeholders(state);
    }
    let hierarchy = Hierarchy::detect();
    let deadline = Instant::now() + SWEEP;
    while !sweep_cgroups(&hierarchy) && Instant::now() < deadline {
        std::thread::sleep(AGAIN);
    }
}
