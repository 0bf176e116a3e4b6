//! SERVER.md.

use std::fmt::Write as _;

use ringfence_bench::{Machine, Spread};

use crate::Amount;
use crate::client::Answers;
use crate::place::Held;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) spread: Spread,
}

pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) load_after: String,
    pub(crate) quick: bool,
    pub(crate) amount: Amount,
    pub(crate) one: Vec<Row>,
    pub(crate) crowd: Answers,
    /// Sandboxes a second.
    pub(crate) direct: f64,
    /// Or why not.
    pub(crate) docker: Result<Spread, String>,
    pub(crate) before: Held,
    pub(crate) after: Held,
}

fn bar(passed: bool, text: String) -> String {
    format!("**{}**: {text}", if passed { "pass" } else { "miss" })
}

impl Report {
    pub(crate) fn bars(&self) -> Vec<String> {
        let median = |index: usize| self.one.get(index).map_or(f64::NAN, |row| row.spread.median);
        let (private, own) = (median(2) / median(0), median(3) / median(0));
        let many = self.crowd.a_second() / self.direct;
        let leaks = self.after.more_than(&self.before, self.crowd.asked());
        vec![
            bar(
                private <= 3.0,
                format!(
                    "at one connection `/run` in a private workspace takes {private:.2}x a plain fork and exec; the bar is at \
                     most 3x"
                ),
            ),
            bar(
                own <= 3.0,
                format!(
                    "at one connection `/run` in the caller's own workspace, the default, takes {own:.2}x a plain fork and \
                     exec; the bar is at most 3x"
                ),
            ),
            bar(
                many >= 0.7,
                format!(
                    "at {} connections there are {many:.2}x the sandboxes a second of direct creation; the bar is at least 0.7x",
                    self.amount.connections
                ),
            ),
            bar(
                self.crowd.wrong == 0,
                format!("{} of {} requests failed", self.crowd.wrong, self.crowd.asked()),
            ),
            bar(
                leaks.is_empty(),
                match leaks.is_empty() {
                    true => "no descriptor, process, cgroup, sandbox, file or memory is left".into(),
                    false => leaks.join(", "),
                },
            ),
        ]
    }

    pub(crate) fn markdown(&self) -> String {
        let machine = &self.machine;
        let mut text = format!(
            "# What the server costs\n\nWritten by `./bench/run server`. {}, {}, {} cores, Linux {}, load {} before and {} after.{}\n\n",
            machine.date,
            machine.cpu,
            machine.cores,
            machine.kernel,
            machine.load,
            self.load_after,
            if self.quick { " A quick run: it shows that everything runs, not what it costs." } else { "" }
        );
        for bar in self.bars() {
            let _ = writeln!(text, "- {bar}");
        }
        text.push_str("\nOne after the other, in turns, on one connection:\n\n| what | median, ms | p10 | p90 | samples |\n|---|---|---|---|---|\n");
        let mut row = |what: &str, spread: &Spread| {
            let Spread { median, p10, p90, count } = spread;
            let _ = writeln!(text, "| {what} | {median:.3} | {p10:.3} | {p90:.3} | {count} |");
        };
        for one in &self.one {
            row(one.what, &one.spread);
        }
        if let Ok(spread) = &self.docker {
            row("`docker exec` of `/bin/true`", spread);
        }
        if let Err(why) = &self.docker {
            let _ = writeln!(text, "\nNot here to compare with: `docker exec` ({why}).");
        }
        let crowd = &self.crowd;
        let _ = writeln!(
            text,
            "\n{} connections for {:.0} s, each with the next `POST /v1/run` of `/bin/true` in a private workspace as soon as it has an answer: \
             {} requests, {:.0} a second, p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms. Direct creation, `ringfence run` in a loop \
             for each processor: {:.0} a second.\n",
            self.amount.connections,
            crowd.seconds,
            crowd.times.len(),
            crowd.a_second(),
            crowd.at(0.5),
            crowd.at(0.99),
            crowd.at(1.0),
            self.direct,
        );
        text.push_str("| of the server | before | after |\n|---|---|---|\n");
        for (what, before, after) in [
            ("descriptors", self.before.fds as u64, self.after.fds as u64),
            ("private dirty memory, kB", self.before.memory, self.after.memory),
            ("processes", self.before.processes as u64, self.after.processes as u64),
            ("cgroups", self.before.cgroups as u64, self.after.cgroups as u64),
            ("entries below `sessions`", self.before.sandboxes as u64, self.after.sandboxes as u64),
            ("entries of the state directory", self.before.entries as u64, self.after.entries as u64),
        ] {
            let _ = writeln!(text, "| {what} | {before} | {after} |");
        }
        text
    }
}
