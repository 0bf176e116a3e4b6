//! What an allowlist adds to the start of a sandbox, back to back.

use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use ringfence_bench::{Order, Spread};

use crate::figures::Start;
use crate::place::NAME;
use crate::stage::Stage;

const WARM_UP: usize = 5;

pub(crate) fn measure(stage: &Stage, rounds: usize) -> Result<Start> {
    eprintln!("  starts");
    let (mut off, mut allow) = (Vec::new(), Vec::new());
    let mut order = Order::default();
    let mut turns = [false, true];
    for round in 0..rounds + WARM_UP {
        order.shuffle(&mut turns);
        for with in turns {
            let took = run_once(stage, if with { &["--allow-host", NAME] } else { &[] })?;
            if round >= WARM_UP {
                if with { &mut allow } else { &mut off }.push(took);
            }
        }
    }
    let spread = |samples| Spread::of(samples).context("nothing was started");
    Ok(Start { off: spread(off)?, allow: spread(allow)? })
}

/// Milliseconds.
fn run_once(stage: &Stage, grants: &[&str]) -> Result<f64> {
    let mut command = stage.command(&stage.ringfence());
    command.args(["run", "--profile", "restrictive"]).args(grants).args(["--", "/bin/true"]);
    command.stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status().context("cannot start ringfence")?;
    let took = started.elapsed();
    if !status.success() {
        bail!("ringfence failed once, with {status}: {command:?}");
    }
    Ok(took.as_secs_f64() * 1e3)
}
