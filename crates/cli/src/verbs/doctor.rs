//! `ringfence doctor`

use std::io::{IsTerminal, Write, stderr, stdin};

use ringfence_policy::ProviderName;
use ringfence_service::{Places, RowStatus, carry_out_fix, doctor as examine, provider_fix};
use serde_json::json;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output;

pub(crate) fn doctor(args: DoctorArgs) -> Result<i32, Failure> {
    if let Some(provider) = args.fix {
        return fix(provider, &args).map_err(|failure| failure.with_json(args.json));
    }
    let report = examine(&Places::from_env().map_err(|error| Failure::from(error).with_json(args.json))?);
    let code = i32::from(!report.restrictive);
    if args.json {
        output::json(&report);
        return Ok(code);
    }
    let word = |status| match status {
        RowStatus::Ok => "ok",
        RowStatus::Partial => "partial",
        RowStatus::Gap => "gap",
    };
    let rows =
        report.rows.into_iter().map(|row| [row.name, word(row.status).to_owned(), row.detail, row.fix]);
    output::table(["what", "status", "detail", "fix"], rows);
    output::line(if report.restrictive {
        "the restrictive profile can be enforced whole"
    } else {
        "the restrictive profile cannot be enforced whole: see the gaps above"
    });
    Ok(code)
}

/// Nothing runs that was not shown and agreed to.
fn fix(provider: ProviderName, args: &DoctorArgs) -> Result<i32, Failure> {
    let fix = provider_fix(provider)?;
    if args.json {
        // JSON comes at the end; what is about to run is shown all the same.
        for step in &fix.steps {
            let _ = writeln!(stderr(), "{}: {}", step.command.join(" "), step.why);
        }
    } else {
        match fix.steps.is_empty() {
            true => output::line(format!("{provider}: nothing to do, it can be used")),
            false => output::table(
                ["command", "what for"],
                fix.steps.iter().map(|step| [step.command.join(" "), step.why.clone()]),
            ),
        }
    }
    if fix.steps.is_empty() || args.dry_run {
        if args.json {
            output::json(&json!({ "provider": provider, "steps": fix.steps, "ran": false }));
        }
        return Ok(i32::from(!fix.steps.is_empty()));
    }
    if !args.yes && !agreed()? {
        return Err(Failure::new("nothing was changed", "say yes, or run the commands yourself"));
    }
    let found = carry_out_fix(&fix)?;
    if args.json {
        output::json(&json!({ "provider": provider, "steps": fix.steps, "ran": true, "found": found }));
    } else {
        output::line(format!("{provider} {} can be used", found.version));
    }
    Ok(0)
}

/// A person at a terminal is asked; nobody else has agreed.
fn agreed() -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::new(
            "these commands change this system, and there is nobody to ask",
            "add --yes to run them, or --dry-run to see them only",
        ));
    }
    let _ = write!(stderr(), "run these commands? [y/N] ");
    let mut answer = String::new();
    let _ = stdin().read_line(&mut answer);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
