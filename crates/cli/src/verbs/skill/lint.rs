//! `ringfence skill lint`

use ringfence_service::Places;
use ringfence_service::skills::{LintReport, SkillReference, lint_rules, lint_sarif, lint_skill};

use crate::args::{LintFormat, SkillLintArgs};
use crate::failure::Failure;
use crate::output::{self, printable};

pub(super) fn lint(args: SkillLintArgs) -> Result<i32, Failure> {
    let format = if args.flags.json { LintFormat::Json } else { args.format };
    if args.rules {
        if format == LintFormat::Table {
            let rows = lint_rules().iter().map(|rule| {
                [rule.id.to_owned(), rule.severity.to_string(), rule.title.to_owned(), rule.why.to_owned()]
            });
            output::table(["rule", "severity", "what", "why"], rows);
        } else {
            output::json(&lint_rules());
        }
        return Ok(0);
    }
    let places = Places::from_env()?;
    let mut reports = Vec::new();
    for skill in args.paths {
        let reference = SkillReference { skill, library: args.flags.library.clone() };
        reports.push(lint_skill(&places, &reference)?);
    }
    let worst = reports.iter().flat_map(|report| &report.findings).map(|finding| finding.severity).max();
    match format {
        LintFormat::Table => reports.iter().for_each(tell),
        LintFormat::Json => output::json(&reports),
        LintFormat::Sarif => output::json(&lint_sarif(&reports, env!("CARGO_PKG_VERSION"))),
    }
    let fails = matches!((args.fail_on.0, worst), (Some(from), Some(worst)) if worst >= from);
    Ok(i32::from(fails))
}

fn tell(report: &LintReport) {
    let count = match report.findings.len() {
        0 => "nothing suspicious was found".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    output::line(printable(&format!("{}: {count}", report.path)));
    if !report.findings.is_empty() {
        let rows = report.findings.iter().map(|finding| {
            let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
            let place = format!("{}{line}", finding.file);
            [
                finding.severity.to_string(),
                finding.rule.to_owned(),
                place,
                finding.message.clone(),
                finding.fix.to_owned(),
            ]
        });
        output::table(["severity", "rule", "where", "what", "fix"], rows);
    }
    for note in &report.notes {
        output::note(&format!("{}: {note}", report.path));
    }
}
