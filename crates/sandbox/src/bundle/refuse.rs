//! What a configuration can't hold: refused, or for a profile's own limits said.

use ringfence_policy::Clause;

use crate::network::needs_egress;
use crate::plan::{Access, Mount, Plan};
use crate::refusal::Refusal;
use crate::request::Request;

/// Limits that only somebody who watches can hold. One that was asked for is refused; a profile's own is dropped and named.
pub(super) fn unheld_limits(request: &mut Request) -> Result<Vec<String>, Refusal> {
    let mut notes = Vec::new();
    let limits = &request.policy.policy.limits;
    let held = [
        (Clause::LimitWallTime, limits.wall_time.map(|limit| limit.to_string()), "a runtime has no deadline"),
        (Clause::LimitOutput, limits.output.map(|limit| limit.to_string()), "a runtime captures no output"),
    ];
    for (clause, value, why) in held {
        let Some(value) = value.filter(|_| !request.policy.policy.waived.contains(&clause)) else { continue };
        if request.policy.origins.asked(clause) || request.strict {
            return Err(Refusal::NotEnforceable {
                clause: clause.as_str(),
                why: why.into(),
                fix: format!("leave the limit out with --waive {}, and see to it yourself", clause.as_str()),
            });
        }
        notes.push(format!("{} = {value} is not in the configuration: {why}", clause.as_str()));
    }
    let limits = &mut request.policy.policy.limits;
    (limits.wall_time, limits.output) = (None, None);
    Ok(notes)
}

/// Isolation that a configuration can't hold.
pub(super) fn check(request: &Request, plan: &Plan) -> Result<(), Refusal> {
    let policy = &request.policy.policy;
    let refuse = |clause: Clause, why: &str, fix: &str| {
        Err(Refusal::NotEnforceable { clause: clause.as_str(), why: why.into(), fix: fix.into() })
    };
    if plan.egress.is_some() || needs_egress(request) {
        return refuse(
            Clause::Network,
            "names are answered and connections carried by egress, which a configuration has not",
            "--network off, or --waive network for the host's own",
        );
    }
    if !policy.waived.contains(&Clause::FilesystemLandlock) {
        return refuse(
            Clause::FilesystemLandlock,
            "a configuration has no Landlock, the second wall around files",
            "give the second wall up with --waive filesystem.landlock",
        );
    }
    if plan.workspace.as_ref().is_some_and(|workspace| workspace.protect) {
        return refuse(
            Clause::FilesystemProtected,
            "a configuration can't pin a protected name that is not there yet, nor look again at the end",
            "--workspace private, or --waive filesystem.protected",
        );
    }
    let shown_as_own = plan.mounts.iter().find_map(|mount| match mount {
        Mount::Bind { source, access: Access::Write, own_ids: true, .. } => Some(source),
        _ => None,
    });
    if let (Some(source), Some(_)) = (shown_as_own, plan.ids.mapped) {
        return Err(Refusal::NotEnforceable {
            clause: Clause::Identity.as_str(),
            why: format!(
                "{} can't be shown under another owner by every runtime, and root is never mapped into a sandbox",
                source.display()
            ),
            fix: "run this as the user whose files they are, or with --workspace private".into(),
        });
    }
    Ok(())
}
