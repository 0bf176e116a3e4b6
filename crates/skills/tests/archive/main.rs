//! Archives through the public functions: the hostile corpus, the way there and back, and damage at every byte.

mod hostile;
mod mutated;
mod roundtrip;
mod scene;
