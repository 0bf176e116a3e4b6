//! Actions and approvals: what a request asks for is judged, ruled on, and, where a rule says so, waits for a person.
//!
//! `gate` is the one way in for every route. What waits holds nothing: it is a row with a digest. Once it is approved its
//! submitter sends the same request again with the action's id; only what has that digest is begun, and once.
//! `decide` and `sweep` need no server: the command line uses them over the same database.

mod decide;
mod gate;
mod intent;
mod sweep;
mod watch;

pub use decide::{Decider, cancel_action, decide_action, forget_decision};
pub(crate) use gate::{Claim, Gated, Pass, gate, pass, pass_at_once, submit};
pub(crate) use intent::{Intent, handed_in, suspicious, typed_commands};
pub use sweep::{expire_actions, fold_spool, spool_directory};
pub(crate) use sweep::{fail_interrupted, sweep_for_ever};
pub(crate) use watch::{Watch, follow};
