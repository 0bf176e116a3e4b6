//! NETWORK.md: the machine, each bar in plain words, a table for each figure.

use std::fmt::Write;

use ringfence_bench::{Machine, Spread, load};

use crate::figures::{Figures, Row};
use crate::route::Route;

const THROUGHPUT: f64 = 0.7;
const CONNECTION: f64 = 3.0;
const START: f64 = 4.0 / 3.0;

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    /// The share of the processors' time that other programs had.
    pub(crate) others: f64,
    /// Its version, where it is installed.
    pub(crate) srt: Option<String>,
    pub(crate) figures: Figures,
}

fn verdict(met: bool) -> &'static str {
    if met { "**pass**" } else { "**miss**" }
}

impl Report {
    /// One line a bar.
    pub(crate) fn bars(&self) -> Vec<String> {
        let figures = &self.figures;
        let mut bars = Vec::new();
        let transparent =
            |figure: fn(&Row) -> Option<Spread>| figures.ratio(Route::Transparent, Route::Direct, figure);
        if let Some(ratio) = transparent(|row| row.download) {
            bars.push(format!(
                "{}: a transparent download has {ratio:.2}x the throughput of a direct one; the bar is at least \
                 {THROUGHPUT}x",
                verdict(ratio >= THROUGHPUT)
            ));
        }
        if let Some(ratio) = transparent(|row| row.request) {
            bars.push(format!(
                "{}: a transparent connection with a short request takes {ratio:.2}x the time of a direct one; the bar \
                 is at most {CONNECTION}x",
                verdict(ratio <= CONNECTION)
            ));
        }
        if let Some(ratio) = transparent(|row| row.crowd) {
            bars.push(format!(
                "{}: {} transparent connections at once take {ratio:.2}x the time of direct ones; the bar is at most \
                 {CONNECTION}x",
                verdict(ratio <= CONNECTION),
                figures.crowd_count
            ));
        }
        let ratio = figures.start.allow.median / figures.start.off.median;
        bars.push(format!(
            "{}: a start with an allowlist takes {ratio:.2}x the time of one with the network off; the bar is at most \
             {START:.2}x",
            verdict(ratio <= START)
        ));
        bars
    }

    pub(crate) fn markdown(&self) -> String {
        let Machine { cpu, cores, kernel, date, load: before } = &self.machine;
        let mut text = String::from(
            "# What the way out costs\n\n\
             Written by `./bench/run network`, which builds and measures everything again (about five minutes, as root; \
             `--quick` only shows that it runs). All routes take turns in one run, in an order that is shuffled for each \
             round, so the figures are to be read as ratios; the times are this machine's.\n\n",
        );
        let _ = writeln!(text, "- **Machine**: {cpu}, {cores} cores, Linux {kernel}, {date}");
        let _ = writeln!(text, "- **Load** (one minute) before {before}, after {}", load());
        let _ = writeln!(
            text,
            "- **Other programs** had {:.0} % of the processors' time meanwhile; the more, the less the ratios say: a \
             route of three processes gets a larger share of a busy machine than a route of two",
            self.others * 100.0
        );
        if self.quick {
            text += "- **Quick run**: far too few samples to say anything\n";
        }
        text += "- **Place**: a network namespace for client and egress, one for the server, and a veth pair between them; all \
                 share the cores\n\
                 - **direct**: an HTTP/1.1 server that answers from memory, its threads waiting in `accept`; the client \
                 outside any sandbox, connecting to its address\n\
                 - **transparent**: the same client in `ringfence run --profile restrictive --allow-host NAME:PORT`, \
                 connecting by name; the profile's limits of processors, open files and \
                 connections are lifted\n\
                 - **proxy**: the same, through the proxy that `HTTP_PROXY` names inside\n\
                 - **TLS, direct**: the same server over TLS 1.3, a whole handshake for each connection\n\
                 - **TLS, transparent**: egress checks the name and relays\n\
                 - **TLS, terminated**: the host has a secret (`--secret`): TLS ends in egress, which puts the secret \
                 into the request (the server refuses others), looks for it in the answer, and speaks TLS to the server\n";
        match &self.srt {
            Some(version) => {
                let _ = writeln!(
                    text,
                    "- **srt**: version {version}, through the proxy that `HTTP_PROXY` names inside"
                );
            }
            None => text += "- **srt**: not installed here, so not measured\n",
        }
        text += "\n## Bars\n\n\
                 They are for the transparent path, which programs take that know of nothing. The proxies are for programs \
                 that insist on one: a request to the proxy and its answer come before the rest, and no bar is set for \
                 them.\n\n";
        for bar in self.bars() {
            let _ = writeln!(text, "- {bar}");
        }
        self.tables(&mut text);
        text
    }

    fn tables(&self, text: &mut String) {
        let figures = &self.figures;
        let mib = figures.download_bytes >> 20;
        let title = format!("Throughput\n\nOne download of {mib} MiB; MB a second");
        table(text, figures, &title, |row| row.download);
        let title = "Latency\n\nA new connection, a short request, its answer to the end of the connection, one after \
                     the other; microseconds";
        table(text, figures, title, |row| row.request);
        let title = format!(
            "{} connections at once\n\nAll are open before the first is asked; until the last has its answer; \
             milliseconds",
            figures.crowd_count
        );
        table(text, figures, &title, |row| row.crowd);
        let _ = writeln!(
            text,
            "\n## Names\n\nA lookup inside takes {} microseconds, median (p10 – p90). It is not part of the figures above: \
             the client looks its name up once.",
            shown(figures.lookup)
        );
        let start = &figures.start;
        let _ = writeln!(
            text,
            "\n## Start\n\n`ringfence run --profile restrictive -- /bin/true`, back to back, {} runs each; milliseconds: \
             median (p10 – p90).\n\n| | | x off |\n|---|---|---|\n| network off | {} | 1.00 |\n\
             | `--allow-host NAME` | {} | {:.2} |",
            start.off.count,
            shown(start.off),
            shown(start.allow),
            start.allow.median / start.off.median
        );
    }
}

fn shown(spread: Spread) -> String {
    let Spread { median, p10, p90, .. } = spread;
    let digits = if median < 100.0 { 2 } else { 0 };
    format!("{median:.digits$} ({p10:.digits$} – {p90:.digits$})")
}

fn table(text: &mut String, figures: &Figures, title: &str, figure: impl Fn(&Row) -> Option<Spread>) {
    let count = figures.rows.first().and_then(&figure).map_or(0, |spread| spread.count);
    let _ = write!(
        text,
        "\n## {title}: median (p10 – p90) of {count}.\n\n| | | x direct | x TLS, direct |\n|---|---|---|---|\n"
    );
    for row in &figures.rows {
        let ratio =
            |to| figures.ratio(row.route, to, &figure).map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let secure = if row.route.is_tls() { ratio(Route::DirectTls) } else { "-".into() };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {secure} |",
            row.route.label(),
            figure(row).map_or("failed".into(), shown),
            ratio(Route::Direct)
        );
    }
}
