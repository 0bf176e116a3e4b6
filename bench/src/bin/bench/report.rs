//! RESULTS.md: the machine, each bar in plain words, a table for each section.

use std::fmt::Write;
use std::process::Command;

use ringfence_bench::{Machine, Spread, load};

use crate::contender::{COMMANDS, Kind};
use crate::figures::{Figures, Rhythm};
use crate::throughput::AT_ONCE;

const TO_FLOOR: f64 = 1.5;
const TO_BWRAP: f64 = 0.8;
const MEMORY: u64 = 1_500_000;
/// `/bin/true`, which the bars are on.
const TRUE: usize = 0;

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) figures: Vec<Figures>,
}

impl Report {
    /// One line a bar.
    pub(crate) fn bars(&self) -> Vec<String> {
        self.figures.iter().flat_map(bars_of).collect()
    }

    pub(crate) fn markdown(&self) -> String {
        let Machine { cpu, cores, kernel, date, load: before } = &self.machine;
        let bwrap = bwrap_version();
        let mut text = String::from(
            "# What a sandbox costs\n\n\
             Written by `./bench/run`, which builds and measures everything again (about ten minutes; `--quick` only \
             shows that it runs). All contenders take turns in one run, in an order that is shuffled for each round, so \
             the figures are to be read as ratios; the milliseconds are this machine's.\n\n",
        );
        let _ = writeln!(text, "- **Machine**: {cpu}, {cores} cores, Linux {kernel}, {bwrap}, {date}");
        let _ = writeln!(text, "- **Load** (one minute) before {before}, after {}", load());
        if self.quick {
            text += "- **Quick run**: far too few samples to say anything\n";
        }
        text += "- **plain exec**: the command started by the harness, no sandbox\n\
                 - **floor**: `bench/src/bin/floor.rs`, the same seven namespaces, mounts, pivot and guard fork as \
                 ringfence's restrictive profile, then exec, and nothing else\n\
                 - **bwrap**: the nearest policy, with masked paths and our seccomp filter; no limits, no Landlock, no reports\n\
                 - **ringfence, restrictive**: `ringfence run --profile restrictive`\n\
                 - **ringfence, moderate**: `ringfence run`, in an empty directory and in a small git repository\n\n\
                 ![Time for each command, median and p10 to p90](results.svg)\n\n## Bars\n\n";
        for bar in self.bars() {
            let _ = writeln!(text, "- {bar}");
        }
        for figures in &self.figures {
            section(&mut text, figures);
        }
        text
    }
}

fn bwrap_version() -> String {
    let output = Command::new("bwrap").arg("--version").output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().into())
}

fn verdict(met: bool) -> &'static str {
    if met { "**pass**" } else { "**miss**" }
}

fn bars_of(figures: &Figures) -> Vec<String> {
    let who = &figures.who;
    let mut bars = Vec::new();
    for (to, most) in [(Kind::Floor, TO_FLOOR), (Kind::Bwrap, TO_BWRAP)] {
        for rhythm in Rhythm::ALL {
            if let Some(ratio) = figures.ratio(Kind::Restrictive, to, TRUE, rhythm) {
                bars.push(format!(
                    "{}: as {who}, {}, restrictive takes {ratio:.2}x the time of {}; the bar is at most {most}x",
                    verdict(ratio <= most),
                    rhythm.label(),
                    to.label(),
                ));
            }
        }
    }
    for at_once in AT_ONCE {
        if let (Some(ours), Some(theirs)) =
            (figures.per_second(Kind::Restrictive, at_once), figures.per_second(Kind::Bwrap, at_once))
        {
            bars.push(format!(
                "{}: as {who}, {at_once} at a time, restrictive does {ours:.0} sandboxes a second; the bar is more \
                 than bwrap's {theirs:.0}",
                verdict(ours > theirs),
            ));
        }
    }
    match figures.memory.iter().find(|row| row.kind == Kind::Restrictive) {
        Some(row) => bars.push(format!(
            "{}: as {who}, a sleeping sandbox has {} of private dirty memory over the command's own; the bar is at \
             most {}",
            verdict(row.private_dirty <= MEMORY),
            megabytes(row.private_dirty),
            megabytes(MEMORY),
        )),
        None => bars.push(format!("not measured: memory as {who}; only root may look into guard")),
    }
    bars
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

fn section(text: &mut String, figures: &Figures) {
    let _ = writeln!(text, "\n## As {}", figures.who);
    for (command, (_, shown, _)) in COMMANDS.iter().enumerate() {
        let _ = write!(text, "\n### `{shown}`\n\nMilliseconds: median (p10 – p90).\n\n|");
        for rhythm in Rhythm::ALL {
            let count = figures.spread(Kind::Exec, command, rhythm).map_or(0, |spread| spread.count);
            let _ = write!(text, " | {}, {count} runs | x floor | x bwrap", rhythm.label());
        }
        *text += " |\n|---|---|---|---|---|---|---|\n";
        for kind in Kind::ALL {
            let _ = write!(text, "| {}", kind.label());
            for rhythm in Rhythm::ALL {
                let Some(Spread { median, p10, p90, .. }) = figures.spread(kind, command, rhythm) else {
                    continue;
                };
                let ratio = |to| {
                    figures.ratio(kind, to, command, rhythm).map_or("-".into(), |ratio| format!("{ratio:.2}"))
                };
                let _ = write!(
                    text,
                    " | {median:.2} ({p10:.2} – {p90:.2}) | {} | {}",
                    ratio(Kind::Floor),
                    ratio(Kind::Bwrap)
                );
            }
            *text += " |\n";
        }
    }
    *text += "\n### Throughput\n\n`/bin/true`, runs a second.\n\n| | one at a time | two at a time |\n|---|---|---|\n";
    for kind in Kind::ALL {
        let rate =
            |at_once| figures.per_second(kind, at_once).map_or("-".into(), |rate| format!("{rate:.0}"));
        let _ = writeln!(text, "| {} | {} | {} |", kind.label(), rate(1), rate(2));
    }
    if figures.memory.is_empty() {
        return;
    }
    *text += "\n### Memory of a sleeping sandbox\n\nAll its processes but the command's own.\n\n\
              | | processes | private dirty | proportional (PSS) |\n|---|---|---|---|\n";
    for row in &figures.memory {
        let (dirty, shared) = (megabytes(row.private_dirty), megabytes(row.proportional));
        let _ = writeln!(text, "| {} | {} | {dirty} | {shared} |", row.kind.label(), row.processes);
    }
}
