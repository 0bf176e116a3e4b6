//! The file worker and its client: a real worker process under the sandbox's system call filter, workers that lie, and
//! trees that are made to harm.

mod copies;
mod hostile_trees;
mod hostile_worker;
mod operations;
mod snapshots;
mod watches;
mod worker;
