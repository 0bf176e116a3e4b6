//! Sandboxes a second, one and two at a time, in slices of a second that the contenders take in turns.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::contender::{COMMANDS, Contender, Setup};
use crate::figures::Throughput;
use crate::rhythm::run_once;

pub(crate) const AT_ONCE: [usize; 2] = [1, 2];

pub(crate) fn measure(setup: &Setup) -> Result<Vec<Throughput>> {
    let (slices, slice) =
        if setup.quick { (1, Duration::from_millis(200)) } else { (5, Duration::from_secs(1)) };
    let mut rows = Vec::new();
    for at_once in AT_ONCE {
        eprintln!("  throughput, {at_once} at a time");
        let mut totals = vec![(0, Duration::ZERO); setup.contenders.len()];
        for _ in 0..slices {
            for (contender, (runs, time)) in setup.contenders.iter().zip(&mut totals) {
                let started = Instant::now();
                *runs += run_for(setup, contender, at_once, slice)?;
                *time += started.elapsed();
            }
        }
        rows.extend(setup.contenders.iter().zip(totals).map(|(contender, (runs, time))| Throughput {
            kind: contender.kind,
            at_once,
            per_second: f64::from(runs) / time.as_secs_f64(),
        }));
    }
    Ok(rows)
}

fn run_for(setup: &Setup, contender: &Contender, at_once: usize, slice: Duration) -> Result<u32> {
    let until = Instant::now() + slice;
    let one = || -> Result<u32> {
        let mut runs = 0;
        while Instant::now() < until {
            run_once(setup, contender, COMMANDS[0].0)?;
            runs += 1;
        }
        Ok(runs)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(one)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?).sum()
    })
}
