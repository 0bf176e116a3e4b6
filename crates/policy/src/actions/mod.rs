//! Actions: how dangerous is what somebody asks for, and who is to decide on it.
//!
//! `judge` computes a level from facts, with the reasons. `ActionRules` turn the level and who asks into allow, ask or deny.
//! Both are tables: what they look at is in their arguments, and asking for more never lowers a level.

mod asks;
mod file;
mod glob;
mod judge;
mod kind;
mod rules;

pub use asks::{Asker, Asks, Finding, Reach, Suspicion};
pub use file::ActionsFile;
pub use glob::{Glob, WordPattern};
pub use judge::{Judgement, judge};
pub use kind::{ActionKind, Level};
pub use rules::{ActionFacts, ActionRule, ActionRules, Ruling, Verdict};
