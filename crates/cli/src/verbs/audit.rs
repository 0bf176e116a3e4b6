//! `ringfence audit`

use std::path::{Path, PathBuf};

use ringfence_server::{ServerConfig, fold_spool};
use ringfence_service::Places;
use ringfence_store::{AuditFilter, AuditRow, AuditVerdict, StoreOptions};
use serde_json::json;

use crate::args::{AuditArgs, AuditVerb};
use crate::failure::Failure;
use crate::output;
use crate::verbs::key::record;
use crate::verbs::store::{with_store, with_store_of};

/// The chain is not whole.
const BROKEN: i32 = 1;

pub(crate) fn audit(args: AuditArgs) -> Result<i32, Failure> {
    fold()?;
    match args.verb {
        AuditVerb::Ls { user, kind, limit, json } => {
            let rows = with_store(async |store| {
                let audit = store.audit();
                let head = audit.head().await?;
                // The last ones: rows of one number each, from the head back.
                let after_seq = match (&user, &kind) {
                    (None, None) => Some((head.seq - i64::from(limit)).max(0)),
                    _ => None,
                };
                audit.query(&AuditFilter { user, kind, since: None, until: None, after_seq, limit }).await
            })?;
            list(&rows, json);
        }
        AuditVerb::Export { from } => {
            let mut bytes = Vec::new();
            with_store(async |store| store.audit().export(&mut bytes, from).await)?;
            output::json_lines(&bytes);
        }
        AuditVerb::Verify { mut anchor, config, json } => {
            anchor.extend(anchors(config.as_deref())?);
            let verdict = with_store(async |store| store.audit().verify(&anchor).await)?;
            return Ok(tell(&verdict, json));
        }
        AuditVerb::ResetAnchors { reason, config } => {
            let options = StoreOptions { anchors: anchors(config.as_deref())?, ..StoreOptions::default() };
            let head = with_store_of(options, async |store| {
                let audit = store.audit();
                let found = audit.verify(&[]).await?.problems.len();
                let head = audit.reset_anchors().await?;
                let result =
                    json!({ "reason": reason, "row": head.seq, "digest": head.digest, "problems": found });
                record(&store, "audit.reset", "anchors", result).await?;
                Ok(head)
            })?;
            output::line(format!("anchored at row {}, {}", head.seq, head.digest));
        }
    }
    Ok(0)
}

/// Those that a server's configuration names.
fn anchors(config: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    Ok(config
        .map(|path| ServerConfig::load(Some(path)))
        .transpose()?
        .map_or(Vec::new(), |config| config.audit.anchors))
}

/// What runs without a server have left goes into the chain first.
fn fold() -> Result<(), Failure> {
    let state = Places::from_env()?.state;
    let report = with_store(async |store| fold_spool(&store, state.path()).await)?;
    for torn in report.torn {
        output::warning(&format!(
            "a record of a run is torn, and kept as {}: {}",
            torn.path.display(),
            torn.why
        ));
    }
    Ok(())
}

fn list(rows: &[AuditRow], json: bool) {
    if json {
        output::json(&rows);
        return;
    }
    let rows = rows.iter().map(|row| {
        let entry = &row.entry;
        [
            row.seq.to_string(),
            output::moment(entry.at),
            entry.user.clone(),
            entry.kind.clone(),
            entry.target.clone().unwrap_or_default(),
            entry.decision.clone().unwrap_or_default(),
            entry.result.to_string(),
        ]
    });
    output::table(["row", "at", "user", "kind", "target", "decision", "result"], rows);
}

fn tell(verdict: &AuditVerdict, json: bool) -> i32 {
    let whole = verdict.is_whole();
    if json {
        output::json(&serde_json::json!({ "whole": whole, "verdict": verdict }));
    } else if whole {
        output::line(format!("whole: {} rows, the last one {}", verdict.rows, verdict.head.digest));
    } else {
        for problem in &verdict.problems {
            output::line(output::printable(&format!("row {}: {}", problem.seq, problem.what)));
        }
    }
    if whole { 0 } else { BROKEN }
}
