//! results.svg: a panel for each user, command and rhythm; bars are medians, whiskers go from p10 to p90.

use std::fmt::Write;

use crate::contender::{COMMANDS, Kind};
use crate::figures::{Figures, Rhythm};

const WIDTH: f64 = 960.0;
const BAR: f64 = 20.0;
const LEFT: f64 = 16.0;
const LABELS: f64 = 150.0;
const GAP: f64 = 24.0;
const PANEL: f64 = (WIDTH - 2.0 * LEFT - LABELS - GAP) / 2.0;
const HEAD: f64 = 44.0;
const AXIS: f64 = 26.0;

const STYLE: &str = "<style>\
    text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}.faint{fill:#59636e}\
    .page{fill:#fff}.grid{stroke:#d1d9e0}.whisker{stroke:#1f2328;stroke-width:1.5}\
    .other{fill:#9aa4af}.floor{fill:#6e7b8a}.bwrap{fill:#d4a72c}.ours{fill:#2f81f7}\
    @media (prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.page{fill:#0d1117}\
    .grid{stroke:#3d444d}.whisker{stroke:#e6edf3}.other{fill:#656c76}.floor{fill:#8b949e}.bwrap{fill:#bb8009}}\
    </style>";

pub(crate) fn svg(all: &[Figures]) -> String {
    let panel_height = Kind::ALL.len() as f64 * BAR;
    let row_height = HEAD + panel_height + AXIS;
    let height = row_height * (all.len() * COMMANDS.len()) as f64 + 16.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Time for each command in each sandbox\">{STYLE}<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
    );
    let mut top = 8.0;
    for figures in all {
        for (command, (_, shown, _)) in COMMANDS.iter().enumerate() {
            row(&mut svg, figures, command, shown, top);
            top += row_height;
        }
    }
    svg += "</svg>\n";
    svg
}

fn row(svg: &mut String, figures: &Figures, command: usize, shown: &str, top: f64) {
    let title = escape(&format!("{shown}, as {}", figures.who));
    let _ = writeln!(svg, "<text class=\"title\" x=\"{LEFT}\" y=\"{:.1}\">{title}</text>", top + 16.0);
    let first = top + HEAD;
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        let y = first + place as f64 * BAR + 14.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            LEFT + LABELS - 8.0,
            short(kind)
        );
    }
    // One axis for both rhythms.
    let most = figures
        .timings
        .iter()
        .filter(|timing| timing.command == command)
        .map(|timing| timing.spread.p90)
        .fold(1.0, f64::max);
    let step = nice_step(most);
    let end = (most / step).ceil() * step;
    for (column, rhythm) in Rhythm::ALL.into_iter().enumerate() {
        let left = LEFT + LABELS + column as f64 * (PANEL + GAP);
        panel(svg, figures, command, rhythm, (left, first), (end, step));
    }
}

fn panel(
    svg: &mut String,
    figures: &Figures,
    command: usize,
    rhythm: Rhythm,
    (left, top): (f64, f64),
    (end, step): (f64, f64),
) {
    let height = Kind::ALL.len() as f64 * BAR;
    let at = |value: f64| left + value / end * PANEL;
    let _ = writeln!(
        svg,
        "<text class=\"faint\" x=\"{left:.1}\" y=\"{:.1}\">{}, ms</text>",
        top - 8.0,
        rhythm.label()
    );
    for tick in 0..=(end / step).round() as u32 {
        let value = f64::from(tick) * step;
        let x = at(value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\"/>\
             <text class=\"faint\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>",
            top + height,
            top + height + 15.0
        );
    }
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        let Some(spread) = figures.spread(kind, command, rhythm) else { continue };
        let y = top + place as f64 * BAR;
        let middle = y + BAR / 2.0;
        let _ = writeln!(
            svg,
            "<rect class=\"{}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}: {:.2} ms</title></rect>",
            class(kind),
            y + 3.0,
            at(spread.median) - left,
            BAR - 6.0,
            kind.label(),
            spread.median,
        );
        let (low, high, reach) = (at(spread.p10), at(spread.p90), 4.0);
        let _ = writeln!(
            svg,
            "<path class=\"whisker\" fill=\"none\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {0:.1}v{1:.1}M{high:.1} {0:.1}v{1:.1}\"/>",
            middle - reach,
            2.0 * reach
        );
    }
}

/// 1, 2 or 5 times a power of ten, for at most six ticks.
fn nice_step(most: f64) -> f64 {
    let power = 10f64.powf((most / 6.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|times| times * power)
        .find(|step| most / step <= 6.0)
        .unwrap_or(most)
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Exec => "other",
        Kind::Floor => "floor",
        Kind::Bwrap => "bwrap",
        Kind::Restrictive | Kind::Moderate | Kind::ModerateGit => "ours",
    }
}

fn short(kind: Kind) -> &'static str {
    match kind {
        Kind::ModerateGit => "ringfence, mod., git",
        kind => kind.label(),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_few_round_ticks() {
        for most in [0.3, 1.0, 7.2, 19.0, 60.0, 61.0, 480.0] {
            let step = nice_step(most);
            assert!((1.0..=6.0).contains(&(most / step).ceil()), "{most}: {step}");
        }
        assert_eq!(nice_step(19.0), 5.0);
    }
}
