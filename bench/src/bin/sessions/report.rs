//! SESSIONS.md: the machine, each bar in plain words, tables of all figures.

use ringfence_bench::{Machine, Spread, load};

use crate::contenders::{Execs, Way};
use crate::crowd::Crowd;
use crate::snapshots::Snapshots;
use crate::streams::Streams;

/// A command through the library against a plain fork and exec; through the command line against nsenter.
const EXEC: f64 = 1.5;
/// Making the last of many sessions against the first.
const CROWD: f64 = 1.5;
const MEMORY: f64 = 2e6;
/// A snapshot of an unchanged workspace with a hundred times the bytes: noise only.
const UNCHANGED: f64 = 1.5;

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) execs: Execs,
    pub(crate) streams: Streams,
    pub(crate) snapshots: Snapshots,
    pub(crate) crowd: Crowd,
}

impl Report {
    /// One line a bar.
    pub(crate) fn bars(&self) -> Vec<String> {
        let ratio = |way: Way, to: Way| Some(self.execs.of(way)?.median / self.execs.of(to)?.median);
        let mut bars = Vec::new();
        if let Some(times) = ratio(Way::Library, Way::Fork) {
            bars.push(format!(
                "{}: a command in a session, through the library, takes {times:.2}x a plain fork and exec; the bar is at \
                 most {EXEC}x",
                verdict(times <= EXEC)
            ));
        }
        match ratio(Way::CommandLine, Way::Nsenter) {
            Some(times) => bars.push(format!(
                "{}: `ringfence session exec` takes {times:.2}x `nsenter`; the bar is at most {EXEC}x",
                verdict(times <= EXEC)
            )),
            None => bars.push("not measured: `nsenter`, which needs root".into()),
        }
        let Crowd { count, first, last, memory, .. } = &self.crowd;
        let times = last.median / first.median;
        bars.push(format!(
            "{}: with {count} sessions alive, making another takes {times:.2}x the first ones; the bar is at most {CROWD}x",
            verdict(times <= CROWD)
        ));
        bars.push(format!(
            "{}: an idle session has {:.2} MB of private dirty memory, keeper, guard and spare shim; the bar is at most 2 MB",
            verdict(memory.p90 <= MEMORY),
            memory.median / 1e6
        ));
        let Snapshots { small_again, large_again, small_bytes, large_bytes, .. } = &self.snapshots;
        let times = large_again / small_again;
        bars.push(format!(
            "{}: a snapshot of an unchanged workspace takes {times:.2}x as long for {}x the bytes in as many files; the bar \
             is at most {UNCHANGED}x",
            verdict(times <= UNCHANGED),
            large_bytes / small_bytes
        ));
        bars
    }

    pub(crate) fn markdown(&self) -> String {
        let Machine { cpu, cores, kernel, date, load: before } = &self.machine;
        let quick = if self.quick { "\nA quick run: it only shows that everything runs.\n" } else { "" };
        let bars: String = self.bars().iter().map(|bar| format!("- {bar}\n")).collect();
        let execs = execs(&self.execs);
        let absent = match self.execs.absent.is_empty() {
            true => String::new(),
            false => format!("\nNot here to compare with: {}.\n", self.execs.absent.join(", ")),
        };
        let Streams { write, read, plain_write, plain_read, piped, plain_piped } = &self.streams;
        let rows = [
            row("1 MB written into a session", write),
            row("1 MB written to tmpfs", plain_write),
            row("1 MB read from a session", read),
            row("1 MB read from tmpfs", plain_read),
            crowd(&self.crowd),
        ]
        .concat();
        let once = |what: String, time: f64| format!("| {what} | {time:.0} | | | 1 |\n");
        let Snapshots { files, small_bytes, large_bytes, .. } = &self.snapshots;
        let (small, large) = (small_bytes / 1_000_000, large_bytes / 1_000_000);
        let rows = rows
            + &[
                once(
                    format!("snapshot of {files} files, {small} MB, for the first time"),
                    self.snapshots.small_first,
                ),
                once(format!("the same, {large} MB"), self.snapshots.large_first),
                once(format!("snapshot of {files} files, {small} MB, unchanged"), self.snapshots.small_again),
                once(format!("the same, {large} MB"), self.snapshots.large_again),
                once(format!("fork of the session with {large} MB, snapshot included"), self.snapshots.fork),
                once("its first command".into(), self.snapshots.first_command_in_fork),
            ]
            .concat();
        let header = "| what | median, ms | p10 | p90 | samples |\n|---|---|---|---|---|\n";
        format!(
            "# What a session costs\n\nWritten by `./bench/run sessions`. {date}, {cpu}, {cores} cores, Linux {kernel}, load \
             {before} before and {} after. Everybody runs `/bin/true`, in turns.\n{quick}\n{bars}\n{header}{execs}{absent}\n\
             {header}{rows}\nOutput through a pipe: {:.2} GB/s out of a session, {:.2} GB/s without one.\n",
            load(),
            piped / 1e9,
            plain_piped / 1e9
        )
    }
}

/// Rows of a table.
pub(crate) fn execs(execs: &Execs) -> String {
    execs.rows.iter().map(|(way, spread)| row(way.label(), spread)).collect()
}

pub(crate) fn crowd(crowd: &Crowd) -> String {
    let Crowd { count, first, last, answers, .. } = crowd;
    [
        row("`session create`, with few others", first),
        row(&format!("`session create`, with {count} others"), last),
        row("a command in each of them, once", answers),
    ]
    .concat()
}

fn row(what: &str, spread: &Spread) -> String {
    format!("| {what} | {:.3} | {:.3} | {:.3} | {} |\n", spread.median, spread.p10, spread.p90, spread.count)
}

fn verdict(met: bool) -> &'static str {
    if met { "**pass**" } else { "**miss**" }
}
