//! `ringfence denials`

use ringfence_sandbox::Denial;
use ringfence_service::{AllowFor, DeniedRun, Places, allow_denial, denied_runs};

use crate::args::{DenialsArgs, Scope};
use crate::failure::Failure;
use crate::output::{self, printable};

pub(crate) fn denials(args: DenialsArgs) -> Result<i32, Failure> {
    let json = args.json;
    carry_out(args).map_err(|failure| failure.with_json(json))
}

fn carry_out(args: DenialsArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let mut runs = denied_runs(&places)?;
    if let Some(number) = args.allow {
        return allow(&places, &runs, number, args.scope);
    }
    if args.last {
        runs.truncate(1);
    }
    if args.json {
        output::json(&with_json(&runs));
    } else if runs.is_empty() {
        output::line("nothing was denied");
    } else {
        print(&runs);
    }
    Ok(0)
}

/// Every denial with the number that `--allow` takes: 1 is the first of the newest run.
fn numbered(runs: &[DeniedRun]) -> impl Iterator<Item = (usize, &DeniedRun, &Denial)> {
    let all = runs.iter().flat_map(|run| run.denials.iter().map(move |denial| (run, denial)));
    all.enumerate().map(|(i, (run, denial))| (i + 1, run, denial))
}

fn print(runs: &[DeniedRun]) {
    let mut number = 1;
    for run in runs {
        output::line(format!("{}  {}  (exit {})", run.time, printable(&run.command), run.exit_code));
        let rows = run.denials.iter().enumerate().map(|(i, denial)| {
            let times = if denial.count > 1 { format!(" ({} times)", denial.count) } else { String::new() };
            let inferred = if denial.inferred { " (inferred)" } else { "" };
            let what = format!("{}{times}{inferred}", denial.what);
            [(number + i).to_string(), what, denial.rule.clone(), denial.remedy.clone()]
        });
        output::table(["n", "what", "rule", "remedy"], rows);
        number += run.denials.len();
    }
}

fn with_json(runs: &[DeniedRun]) -> serde_json::Value {
    let rows = numbered(runs).map(|(number, run, denial)| {
        serde_json::json!({
            "number": number,
            "time": run.time,
            "directory": run.directory,
            "command": run.command,
            "exit_code": run.exit_code,
            "denial": denial,
        })
    });
    rows.collect()
}

fn allow(places: &Places, runs: &[DeniedRun], number: usize, scope: Scope) -> Result<i32, Failure> {
    let found = numbered(runs).find(|(n, ..)| *n == number).ok_or_else(|| {
        Failure::new(format!("there is no denial number {number}"), "see `ringfence denials` for the numbers")
    })?;
    let scope = match scope {
        Scope::Project => AllowFor::Project,
        Scope::User => AllowFor::User,
    };
    let allowed = allow_denial(places, found.2, scope)?;
    let done = if allowed.unchanged { "already says" } else { "now says" };
    let ports = allowed.without_port.map_or(String::new(), |ports| format!("; that {ports}"));
    let trusted = if scope == AllowFor::Project { ", and is trusted as it is" } else { "" };
    output::line(format!(
        "{} {done}: {}{trusted}{ports}",
        printable(&allowed.path.to_string_lossy()),
        printable(&allowed.rule)
    ));
    Ok(0)
}
