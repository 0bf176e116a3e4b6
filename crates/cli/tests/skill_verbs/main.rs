//! The verbs of `ringfence skill` that run nothing of a skill, through the real binary.

mod concurrent;
mod git;
mod hostile;
mod life;
mod place;
mod shared;
mod words;
