//! Time from start to end of one command, all contenders in turns and in an order that changes with each round, so
//! that drift of the machine and what one leaves to the kernel to clear away hit all alike.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ringfence_bench::{Order, Spread};

use crate::contender::{COMMANDS, Contender, Setup};
use crate::figures::{Rhythm, Timing};

const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn measure(setup: &Setup) -> Result<Vec<Timing>> {
    let mut timings = Vec::new();
    let mut order = Order::default();
    for rhythm in Rhythm::ALL {
        for (command, (_, shown, _)) in COMMANDS.iter().enumerate() {
            eprintln!("  {shown}, {}", rhythm.label());
            timings.extend(in_turns(setup, command, rhythm, &mut order)?);
        }
    }
    Ok(timings)
}

fn in_turns(setup: &Setup, command: usize, rhythm: Rhythm, order: &mut Order) -> Result<Vec<Timing>> {
    let (rounds, warm_up) = match (setup.quick, rhythm) {
        (true, _) => (5, 1),
        (false, Rhythm::BackToBack) => (300, 20),
        (false, Rhythm::Paused) => (60, 4),
    };
    let mut samples = vec![Vec::with_capacity(rounds); setup.contenders.len()];
    let mut turns: Vec<usize> = (0..setup.contenders.len()).collect();
    for round in 0..rounds + warm_up {
        order.shuffle(&mut turns);
        for &turn in &turns {
            if rhythm == Rhythm::Paused {
                std::thread::sleep(PAUSE);
            }
            let took = run_once(setup, &setup.contenders[turn], COMMANDS[command].0)?;
            if round >= warm_up {
                samples[turn].push(took.as_secs_f64() * 1e3);
            }
        }
    }
    let timing = |(contender, samples): (&Contender, Vec<f64>)| {
        Some(Timing { kind: contender.kind, command, rhythm, spread: Spread::of(samples)? })
    };
    Ok(setup.contenders.iter().zip(samples).filter_map(timing).collect())
}

pub(crate) fn run_once(setup: &Setup, contender: &Contender, words: &[&str]) -> Result<Duration> {
    let mut command = setup.command(contender, words);
    let started = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {}", contender.kind.label()))?;
    let took = started.elapsed();
    if !status.success() {
        bail!(
            "{} failed once, with {status}; to see why, run it again by hand: {:?}",
            contender.kind.label(),
            setup.words(contender, words)
        );
    }
    Ok(took)
}
