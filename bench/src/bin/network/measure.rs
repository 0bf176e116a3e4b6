//! Rounds in which each route has its turn, in an order that is shuffled for each round: what else happens on the machine
//! hits all alike.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use ringfence_bench::{Order, Spread};

use crate::figures::{Figures, Row, Start};
use crate::job::Task;
use crate::route::Route;
use crate::stage::Stage;

/// The most connections at one time.
pub(crate) const CROWD: usize = 1000;

/// How much of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) starts: usize,
    rounds: usize,
    download: usize,
    requests: usize,
    crowd: usize,
}

pub(crate) const FULL: Amount =
    Amount { starts: 200, rounds: 6, download: 1 << 30, requests: 300, crowd: CROWD };
pub(crate) const QUICK: Amount = Amount { starts: 3, rounds: 1, download: 16 << 20, requests: 10, crowd: 50 };

pub(crate) fn measure(stage: &Stage, routes: &[Route], amount: Amount, start: Start) -> Result<Figures> {
    let mut order = Order::default();
    let mut all = |what: &str, task| -> Result<Vec<Vec<f64>>> {
        eprintln!("  {what}");
        in_turns(stage, routes, task, amount.rounds, &mut order)
    };
    let requests = all("short requests on new connections", Task::Requests(amount.requests))?;
    let crowds = all("connections at one time", Task::Crowd(amount.crowd))?;
    let downloads = all("one large download", Task::Download(amount.download))?;
    let megabytes = amount.download as f64 / 1e6;
    let rows = routes.iter().zip(requests).zip(crowds).zip(downloads).map(
        |(((route, requests), crowds), downloads)| Row {
            route: *route,
            download: Spread::of(downloads.iter().map(|seconds| megabytes / seconds).collect()),
            request: scaled(requests, 1e6),
            crowd: scaled(crowds, 1e3),
        },
    );
    let rows = rows.collect();
    eprintln!("  lookups");
    let lookups = run_client(stage, Route::Transparent, Task::Lookups(amount.requests))?;
    Ok(Figures {
        rows,
        start,
        lookup: scaled(lookups, 1e6).context("a client measured nothing")?,
        download_bytes: amount.download,
        crowd_count: amount.crowd,
    })
}

fn scaled(seconds: Vec<f64>, by: f64) -> Option<Spread> {
    Spread::of(seconds.into_iter().map(|seconds| seconds * by).collect())
}

/// Each route's samples. A route of others that fails has none: only our own must work.
fn in_turns(
    stage: &Stage,
    routes: &[Route],
    task: Task,
    rounds: usize,
    order: &mut Order,
) -> Result<Vec<Vec<f64>>> {
    let mut samples = vec![Vec::new(); routes.len()];
    let mut turns: Vec<usize> = (0..routes.len()).collect();
    for _ in 0..rounds {
        order.shuffle(&mut turns);
        let mut failed = Vec::new();
        for &turn in &turns {
            match run_client(stage, routes[turn], task) {
                Ok(seconds) => samples[turn].extend(seconds),
                Err(error) if routes[turn].needs_srt() => {
                    eprintln!("  {error:#}");
                    failed.push(turn);
                }
                Err(error) => return Err(error),
            }
        }
        for &turn in &failed {
            samples[turn].clear();
        }
        turns.retain(|turn| !failed.contains(turn));
    }
    Ok(samples)
}

fn run_client(stage: &Stage, route: Route, task: Task) -> Result<Vec<f64>> {
    let mut command = route.command(stage, task);
    let output =
        command.stderr(Stdio::piped()).output().with_context(|| format!("cannot start {}", route.label()))?;
    if !output.status.success() {
        bail!(
            "{} failed at {task:?}, with {}: {}",
            route.label(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // The last line: a sandbox may speak before its command does.
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).with_context(|| format!("{} printed {text:?}", route.label()))
}
