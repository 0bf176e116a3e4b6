//! `ringfence doctor`

use ringfence_service::{Places, RowStatus, doctor as examine};

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output;

pub(crate) fn doctor(args: DoctorArgs) -> Result<i32, Failure> {
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
