//! Many sessions at once.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ringfence_bench::Spread;
use ringfence_sandbox::{Exec, Sandbox};

use crate::Amount;
use crate::stage::Stage;

#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) count: usize,
    /// Milliseconds to make one, with few others and with nearly all of them alive.
    pub(crate) first: Spread,
    pub(crate) last: Spread,
    /// Private dirty bytes of keeper, guard and the spare shim.
    pub(crate) memory: Spread,
    /// Milliseconds for a command in each of them.
    pub(crate) answers: Spread,
}

pub(crate) fn measure(stage: &Stage, amount: Amount) -> Result<Crowd> {
    let mut made = Vec::new();
    let mut times = Vec::new();
    for number in 0..amount.sessions {
        let started = Instant::now();
        made.push(stage.create(&format!("crowd{number}"))?);
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    let some = (amount.sessions / 10).max(1);
    let (first, last) = (times[..some].to_vec(), times[times.len() - some..].to_vec());
    let mut answers = Vec::new();
    let mut memory = Vec::new();
    for sandbox in &made {
        memory.push(private_dirty(sandbox)? as f64);
        let started = Instant::now();
        let exec = Exec { argv: vec!["/bin/true".into()], ..Exec::default() };
        ensure!(sandbox.exec(exec)?.wait()?.end.exit_code() == 0, "{} does not answer", sandbox.name());
        answers.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    for sandbox in &made {
        sandbox.destroy()?;
    }
    let spread = |samples| Spread::of(samples).context("nothing was measured");
    Ok(Crowd {
        count: amount.sessions,
        first: spread(first)?,
        last: spread(last)?,
        memory: spread(memory)?,
        answers: spread(answers)?,
    })
}

/// Of the keeper, guard and the shim that waits for a command.
fn private_dirty(sandbox: &Sandbox) -> Result<u64> {
    let mut all = 0;
    let mut left = vec![sandbox.status()?.keeper];
    while let Some(pid) = left.pop() {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        left.extend(children.split_whitespace().flat_map(str::parse::<u32>));
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let line =
            text.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).context("no such line")?;
        all += line.trim().trim_end_matches(" kB").parse::<u64>()? << 10;
    }
    Ok(all)
}
