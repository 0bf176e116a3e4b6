//! SKILL.md: verdicts beside the public reference, loading and repairs, hostile input.

mod generator;
mod parity;
mod reference;
