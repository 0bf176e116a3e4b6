//! `ringfence run`

use std::fs::{File, OpenOptions};
use std::io::Write;

use ringfence_sandbox::{Denial, DenialKind, Mount, Plan, Ready, Receipt, Status};
use ringfence_service::skills::library_attached;
use ringfence_service::{LearnedRules, Places, RunReport, RunSpec, explain, prepare};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::json::RunObject;
use crate::output;
use crate::resolve::{self, ReceiptTo, Telling};
use crate::spool::Noted;
use crate::stats;

/// How many denials are told one by one.
const TOLD: usize = 10;

pub(crate) fn run(args: RunArgs) -> Result<i32, Failure> {
    let json = args.flags.json;
    match &args.pool {
        Some(socket) if !args.flags.explain => super::pool::run_through(socket, args.flags.terminal),
        _ => run_in(args, None),
    }
    .map_err(|failure| failure.with_json(json))
}

/// In a sandbox that was made ahead, where there is one and it fits.
pub(crate) fn run_in(args: RunArgs, ready: Option<Ready>) -> Result<i32, Failure> {
    let (skills, library) = (args.skills, args.library.clone());
    let (mut spec, telling) = resolve::run(args)?;
    if skills {
        let view = library_attached(&Places::from_env()?, library.as_deref())?;
        view.notes.iter().for_each(|note| output::note(note));
        spec.attached = view.attached;
    }
    if telling.explain { print_plan(spec, telling.json) } else { carry_out(spec, telling, ready) }
}

fn carry_out(spec: RunSpec, telling: Telling, ready: Option<Ready>) -> Result<i32, Failure> {
    // Opened before the command can put a link in its place, and before anything runs in vain.
    let receipt = telling.receipt.map(ReceiptFile::open).transpose()?;
    let places = Places::from_env()?;
    let noted = Noted::run(&spec);
    let prepared = match prepare(places.clone(), spec) {
        Ok(prepared) => prepared,
        Err(error) => {
            noted.refused(&places, &error);
            return Err(error.into());
        }
    };
    for warning in prepared.warnings() {
        output::warning(warning);
    }
    for note in prepared.notes() {
        output::note(note);
    }
    let (mut report, remains) = match prepared.run_and_leave(ready) {
        Ok(ran) => ran,
        Err(error) => {
            noted.refused(&places, &error);
            return Err(error.into());
        }
    };
    // Beside the kernel, which takes the sandbox down meanwhile.
    noted.ended(&places, &report);
    report.outcome.notes.extend(remains.clear());
    if let Some(receipt) = receipt {
        receipt.write(&report.outcome.receipt)?;
    }
    let code = report.exit_code;
    if telling.stats {
        stats::print(&report.outcome);
    }
    if telling.json {
        if let Some(error) = &report.not_started {
            output::error(error);
        }
        output::json(&RunObject::from(report));
    } else {
        tell(&report);
    }
    Ok(code)
}

pub(crate) fn tell(report: &RunReport) {
    if let Some(error) = &report.not_started {
        output::error(error);
    }
    // What was learned says the same of the network in fewer words.
    let said_below = |denial: &&Denial| report.learned.is_some() && denial.kind == DenialKind::Network;
    let denials: Vec<&Denial> = report.outcome.denials.iter().filter(|denial| !said_below(denial)).collect();
    for denial in denials.iter().take(TOLD) {
        output::denied(&sentence(denial));
    }
    if denials.len() > TOLD {
        output::denied(&format!("and {} more: see `ringfence denials --last`", denials.len() - TOLD));
    }
    for note in &report.outcome.notes {
        output::note(note);
    }
    if let Some(learned) = &report.learned {
        tell_learned(learned);
    }
}

fn tell_learned(learned: &LearnedRules) {
    if learned.flags.is_empty() {
        output::learned("the command tried to connect to nothing");
    } else {
        output::learned("these flags would grant what the command tried, and nothing more:");
        output::below(&learned.flags.join(" "));
        output::learned("the same in a policy file:");
        output::below(&learned.toml);
    }
    if !learned.looked_up.is_empty() {
        output::learned(&format!("looked up and never connected to: {}", learned.looked_up.join(", ")));
    }
}

/// What was blocked and what to do, with how often and how sure.
pub(crate) fn sentence(denial: &Denial) -> String {
    let mut text = denial.remedy.clone();
    if denial.count > 1 {
        text.push_str(&format!(" ({} times)", denial.count));
    }
    if denial.inferred {
        text.push_str(" (inferred)");
    }
    text
}

pub(crate) enum ReceiptFile {
    Stderr,
    File(File, std::path::PathBuf),
}

impl ReceiptFile {
    pub(crate) fn open(to: ReceiptTo) -> Result<Self, Failure> {
        match to {
            ReceiptTo::Stderr => Ok(Self::Stderr),
            ReceiptTo::File(path) => {
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                let file = opened.map_err(|error| cannot_write(&path, &error))?;
                Ok(Self::File(file, path))
            }
        }
    }

    pub(crate) fn write(self, receipt: &Receipt) -> Result<(), Failure> {
        let mut text = serde_json::to_string_pretty(receipt).map_err(|error| {
            Failure::new(format!("the receipt can't be written as JSON: {error}"), "report this")
        })?;
        text.push('\n');
        match self {
            Self::Stderr => {
                let _ = std::io::stderr().write_all(text.as_bytes());
                Ok(())
            }
            Self::File(mut file, path) => {
                // A device or a pipe has no length to set.
                let _ = file.set_len(0);
                file.write_all(text.as_bytes()).map_err(|error| cannot_write(&path, &error))
            }
        }
    }
}

fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write the receipt to {}: {error}", path.display()),
        "name a file that you can write, or `-` for stderr",
    )
}

pub(crate) fn print_plan(spec: RunSpec, json: bool) -> Result<i32, Failure> {
    let explanation = explain(Places::from_env()?, spec)?;
    for note in &explanation.notes {
        output::note(note);
    }
    if json {
        output::json(&explanation);
        return Ok(0);
    }
    let plan = explanation.plan;
    for warning in &plan.receipt.warnings {
        output::warning(warning);
    }
    output::table(
        ["clause", "value", "mechanism"],
        plan.receipt.clauses.iter().map(|line| {
            let value = match line.status {
                Status::Enforced => line.value.clone(),
                Status::Waived => "waived".into(),
                Status::Unenforced => format!("{} (not enforced)", line.value),
            };
            [line.clause.to_string(), value, line.mechanism.clone()]
        }),
    );
    if !explanation.network_rules.is_empty() {
        output::line("");
        let rows = explanation.network_rules.into_iter().map(|row| [row.clause, row.value, row.origin]);
        output::table(["network", "value", "from"], rows);
    }
    output::line("");
    output::table(["inside", "what", "from"], plan.mounts.iter().map(mount_row));
    output::line("");
    output::table(["start", ""], start_rows(&plan));
    Ok(0)
}

fn mount_row(mount: &Mount) -> [String; 3] {
    let (what, from) = match mount {
        Mount::Bind { source, access, .. } => {
            (format!("{access:?}").to_lowercase(), source.display().to_string())
        }
        Mount::Overlay { source, .. } => ("throwaway layer over".into(), source.display().to_string()),
        Mount::Layered { lower, .. } => ("copy-on-write over".into(), lower.display().to_string()),
        Mount::Private { .. } => ("private, empty".into(), String::new()),
        Mount::Temporary { bytes, .. } => {
            (format!("tmpfs of {}", ringfence_policy::ByteSize(*bytes)), String::new())
        }
        Mount::Symlink { to, .. } => ("link to".into(), to.display().to_string()),
        Mount::File { .. } => ("small file of ringfence's".into(), String::new()),
        Mount::Seed { .. } => ("starts with a file of ringfence's".into(), String::new()),
        Mount::Device { .. } => ("device".into(), String::new()),
        Mount::Terminals { .. } => ("terminals of its own".into(), String::new()),
        Mount::Proc { .. } => ("processes of its own".into(), String::new()),
        Mount::Hide { .. } => ("hidden".into(), String::new()),
    };
    [mount.target().display().to_string(), what, from]
}

fn start_rows(plan: &Plan) -> Vec<[String; 2]> {
    let names: Vec<&str> = plan.environment.iter().map(|(name, _)| name.as_str()).collect();
    vec![
        ["directory".into(), plan.directory.display().to_string()],
        ["user".into(), format!("{} ({}:{})", plan.ids.user, plan.ids.uid, plan.ids.gid)],
        ["environment".into(), names.join(" ")],
    ]
}
