//! SKILLS.md: the machine, each bar in plain words, a table of all figures.

use ringfence_bench::{Machine, Spread, load};

use crate::measure::{Amount, Figures};

/// In milliseconds.
const READ: f64 = 1000.0;
const QUERY: f64 = 5.0;
const OVER: f64 = 2.0;

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) amount: Amount,
    pub(crate) figures: Figures,
}

impl Report {
    /// One line a bar.
    pub(crate) fn bars(&self) -> Vec<String> {
        let figures = &self.figures;
        let read = figures.load + figures.validate;
        let over = figures.skill_run.median - figures.run.median;
        vec![
            format!(
                "{}: {} manifests are read and checked in {read:.0} ms on one core; the bar is at most {READ:.0} ms",
                verdict(read <= READ),
                self.amount.skills
            ),
            format!(
                "{}: a search takes {:.2} ms in the middle; the bar is at most {QUERY} ms",
                verdict(figures.query.median <= QUERY),
                figures.query.median
            ),
            format!(
                "{}: `skill run` of a bash script takes {over:.2} ms more than `run` of it; the bar is at most {OVER} ms",
                verdict(over <= OVER)
            ),
        ]
    }

    pub(crate) fn markdown(&self) -> String {
        let Machine { cpu, cores, kernel, date, load: before } = &self.machine;
        let Figures { load: loading, validate, index, look_again, query, command, run, .. } = &self.figures;
        let Figures { skill_run, run_with_library, .. } = &self.figures;
        let shown = self.amount.shown;
        let each = (run_with_library.median - run.median) * 1000.0 / shown as f64;
        let quick = if self.quick { "\nA quick run: it only shows that everything runs.\n" } else { "" };
        let bars: String = self.bars().iter().map(|bar| format!("- {bar}\n")).collect();
        let once = |what: &str, time: &f64| format!("| {what} | {time:.1} | | | 1 |\n");
        let rows = [
            once("read all manifests as clients do", loading),
            once("check all manifests as the reference does", validate),
            once("index all skills", index),
            once("look for changes in all skills", look_again),
            row("search, through the library", query),
            row("search, the whole command `skill search`", command),
            row("`run -- bash main.sh`", run),
            row("`skill run` of the same script", skill_run),
            row(&format!("`run --skills -- bash main.sh`, {shown} skills in the library"), run_with_library),
        ]
        .concat();
        format!(
            "# Skills by the thousand\n\nWritten by `./bench/run skills`. {date}, {cpu}, {cores} cores, Linux {kernel}, load {before} before \
             and {} after, {} generated skills.\n{quick}\n{bars}\n| what | median, ms | p10 | p90 | samples |\n|---|---|---|---|---|\n{rows}\n\
             The command looks for changes in every skill before it searches: it has no daemon that would know.\n\
             `run --skills` mounts each domain once; it looks into every skill for what is to be hidden, and gives it its short \
             name, which is {each:.0} us for each skill.\n",
            load(),
            self.amount.skills
        )
    }
}

fn row(what: &str, spread: &Spread) -> String {
    format!("| {what} | {:.2} | {:.2} | {:.2} | {} |\n", spread.median, spread.p10, spread.p90, spread.count)
}

fn verdict(met: bool) -> &'static str {
    if met { "**pass**" } else { "**miss**" }
}
