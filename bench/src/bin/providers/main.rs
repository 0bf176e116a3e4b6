//! Measures every provider that is here beside the tool that it drives, driven by hand: a fresh sandbox for `/bin/true`, a start of
//! Python and a thousand small files, and a command in one that stays.
//!
//! `providers [--quick] [--out DIR]` writes PROVIDERS.md. A missed bar is a result, not an error: only what keeps it from
//! measuring fails. It needs root: so do the daemon and the runtimes that are driven by hand.

mod hand;
mod ours;
mod place;
mod report;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use ringfence_bench::{Machine, Order, Spread};

use hand::Hand;
use ours::Ours;
use place::Place;

/// What is run, how it is written in the report, and its words.
pub(crate) const TASKS: [(&str, &[&str]); 3] = [
    ("`/bin/true`", &["/bin/true"]),
    ("`python3 -c 'print(1)'`", &["/usr/bin/python3", "-c", "print(1)"]),
    (
        "1,000 small files",
        &["/bin/sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo $i > /tmp/$i; i=$((i+1)); done"],
    ),
];

/// A tool, by hand and as a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Native,
    Bwrap,
    Crun,
    Runc,
    Runsc,
    Docker,
}

impl Tool {
    const ALL: [Self; 6] = [Self::Native, Self::Bwrap, Self::Crun, Self::Runc, Self::Runsc, Self::Docker];

    /// The program that is driven.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Runsc => "runsc",
            Self::Docker => "docker",
        }
    }
}

/// One row: a task in a fresh sandbox, or `/bin/true` in one that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fresh(usize),
    Staying,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) tool: Tool,
    pub(crate) kind: Kind,
    pub(crate) ours: Spread,
    /// None where the tool can't do it by hand.
    pub(crate) hand: Option<Spread>,
}

fn main() -> Result<()> {
    let (mut rounds, mut out) = (60, PathBuf::from("bench"));
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--quick") => rounds = 2,
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!("unknown argument `{}`; usage: providers [--quick] [--out DIR]", word.display()),
        }
    }
    ensure!(rustix::process::getuid().is_root(), "runtimes and a daemon are driven by hand: that needs root");
    let machine = Machine::look();
    let place = Place::new()?;
    let mut rows = Vec::new();
    let mut absent = Vec::new();
    for tool in Tool::ALL {
        match measure(&place, tool, rounds) {
            Ok(measured) => rows.extend(measured),
            Err(error) => absent.push(format!("{} ({error:#})", tool.name())),
        }
    }
    let text = report::markdown(&machine, &rows, &absent);
    print!("{text}");
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("PROVIDERS.md"), text)?;
    Ok(())
}

/// Both in turns, so that a slow moment of the machine is everybody's.
fn measure(place: &Place, tool: Tool, rounds: usize) -> Result<Vec<Row>> {
    let ours = Ours::start(place, tool)?;
    let hand = Hand::start(place, tool)?;
    let kinds = (0..TASKS.len()).map(Kind::Fresh).chain([Kind::Staying]);
    let mut turns: Vec<(Kind, bool)> = kinds.clone().flat_map(|kind| [(kind, true), (kind, false)]).collect();
    turns.retain(|(kind, by_us)| *by_us || hand.can(*kind));
    let mut samples: Vec<((Kind, bool), Vec<f64>)> = turns.iter().map(|turn| (*turn, Vec::new())).collect();
    let mut order = Order::default();
    // The first round warms.
    for round in 0..=rounds {
        order.shuffle(&mut turns);
        for turn in &turns {
            let mut command = if turn.1 { ours.command(turn.0) } else { hand.command(turn.0) };
            let began = Instant::now();
            quietly(&mut command)?;
            let took = began.elapsed().as_secs_f64() * 1_000.0;
            if round > 0 {
                let of = samples.iter_mut().find(|(had, _)| had == turn);
                of.context("a turn has samples")?.1.push(took);
            }
        }
    }
    let mut spread = |wanted: (Kind, bool)| {
        let at = samples.iter().position(|(had, _)| *had == wanted)?;
        Spread::of(std::mem::take(&mut samples[at].1))
    };
    kinds
        .map(|kind| {
            let ours = spread((kind, true)).context("nothing was measured")?;
            Ok(Row { tool, kind, ours, hand: spread((kind, false)) })
        })
        .collect()
}

/// runsc wants pipes, not files, as stdout: so have all.
fn quietly(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}: {}", output.status, said.trim());
    Ok(())
}
