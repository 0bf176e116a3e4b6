//! Snapshots and forks of a large workspace.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::Amount;
use crate::stage::{LIFE, Stage};

/// Milliseconds.
#[derive(Debug)]
pub(crate) struct Snapshots {
    pub(crate) files: usize,
    pub(crate) small_bytes: u64,
    pub(crate) large_bytes: u64,
    /// The first of each, which reads everything.
    pub(crate) small_first: f64,
    pub(crate) large_first: f64,
    /// The next, with nothing changed.
    pub(crate) small_again: f64,
    pub(crate) large_again: f64,
    pub(crate) fork: f64,
    pub(crate) first_command_in_fork: f64,
}

pub(crate) fn measure(stage: &Stage, amount: Amount) -> Result<Snapshots> {
    let Amount { files, file_bytes, .. } = amount;
    let small_file = 1 << 10;
    let small = stage.path().join("small");
    let large = stage.path().join("large");
    fill(&small, files, small_file)?;
    fill(&large, files, file_bytes)?;
    // What was just written is read again for a while: that is not what a snapshot of an hour later costs.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (small_first, small_again) = twice(stage, "small", &small)?;
    let (large_first, large_again) = twice(stage, "large", &large)?;
    let fork = timed(|| stage.call(["session", "fork", "large", "--name", "fork"]))?;
    let first_command_in_fork =
        timed(|| stage.call(["session", "exec", "fork", "--", "ls", "/workspace/0"]))?;
    for name in ["small", "large", "fork"] {
        stage.call(["session", "rm", name])?;
    }
    let all = |each: usize| (files * each) as u64;
    Ok(Snapshots {
        files,
        small_bytes: all(small_file),
        large_bytes: all(file_bytes),
        small_first,
        large_first,
        small_again,
        large_again,
        fork,
        first_command_in_fork,
    })
}

fn timed<T>(act: impl FnOnce() -> Result<T>) -> Result<f64> {
    let started = Instant::now();
    act()?;
    Ok(started.elapsed().as_secs_f64() * 1_000.0)
}

/// A hundred files in a directory, no two alike.
fn fill(directory: &Path, files: usize, bytes: usize) -> Result<()> {
    let mut content = vec![b'x'; bytes];
    for number in 0..files {
        let parent = directory.join((number / 100).to_string());
        if number % 100 == 0 {
            fs::create_dir_all(&parent)?;
        }
        content[..8].copy_from_slice(&(number as u64).to_le_bytes());
        fs::write(parent.join(number.to_string()), &content)?;
    }
    Ok(())
}

fn twice(stage: &Stage, name: &str, workspace: &Path) -> Result<(f64, f64)> {
    let path = workspace.to_str().context("a path that is not UTF-8")?;
    stage.call([
        "session",
        "create",
        "--name",
        name,
        "--profile",
        "restrictive",
        "--ttl",
        LIFE,
        "--workspace",
        path,
    ])?;
    let first = timed(|| stage.call(["session", "snapshot", name]))?;
    let again = timed(|| stage.call(["session", "snapshot", name]))?;
    Ok((first, again))
}
