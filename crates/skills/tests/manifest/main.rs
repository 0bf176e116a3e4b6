//! SKILL.md: verdicts beside the public reference, loading and repairs, hostile input.

mod cases;
mod generator;
mod hostile;
mod lenient;
mod parity;
mod reference;
