//! What was measured, as a page.

use std::fmt::Write as _;

use ringfence_bench::Machine;

use crate::{Kind, Row, TASKS};

/// What a fresh sandbox may take, against the tool by hand.
const FRESH: f64 = 1.2;
/// A command in one that stays must take less than by the tool.
const STAYING: f64 = 1.0;

pub(crate) fn markdown(machine: &Machine, rows: &[Row], absent: &[String]) -> String {
    let mut text = String::from("# What a provider costs\n\n");
    let _ = writeln!(
        text,
        "Written by `./bench/run providers`. {}, {}, {} cores, Linux {}, load {} before. Ours and the tool by hand take turns; the \
         figures are to be read as ratios. By hand there are no limits, no Landlock and no reports: a mount of the host's programs, \
         no network, no capability. As root.\n",
        machine.date, machine.cpu, machine.cores, machine.kernel, machine.load
    );
    for row in rows {
        let Some(hand) = row.hand else { continue };
        let (bar, what) = match row.kind {
            Kind::Fresh(0) => (FRESH, "a fresh sandbox for `/bin/true`"),
            Kind::Fresh(_) => continue,
            Kind::Staying => (STAYING, "a command in one that stays"),
        };
        let ratio = row.ours.median / hand.median;
        let (word, name) = (if ratio <= bar { "pass" } else { "miss" }, row.tool.name());
        let _ = writeln!(
            text,
            "- **{word}**: {name}: {what} takes {ratio:.2}x the tool by hand; the bar is {bar:.1}x"
        );
    }
    text.push_str(
        "\n| provider | what | ours, ms | p10 | p90 | by hand, ms | p10 | p90 | ratio |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let what = match row.kind {
            Kind::Fresh(task) => TASKS[task].0.to_owned(),
            Kind::Staying => "`/bin/true` in a sandbox that stays".to_owned(),
        };
        let ours = &row.ours;
        let _ = write!(
            text,
            "| {} | {what} | {:.2} | {:.2} | {:.2} |",
            row.tool.name(),
            ours.median,
            ours.p10,
            ours.p90
        );
        let _ = match row.hand {
            Some(hand) => writeln!(
                text,
                " {:.2} | {:.2} | {:.2} | {:.2}x |",
                hand.median,
                hand.p10,
                hand.p90,
                ours.median / hand.median
            ),
            None => writeln!(text, " | | | |"),
        };
    }
    if !absent.is_empty() {
        let _ = writeln!(text, "\nNot measured: {}.", absent.join(", "));
    }
    text
}
