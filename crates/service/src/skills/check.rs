//! What a skill needs and will not have: said before anything runs, with how to get or pass it.

use ringfence_sandbox::Plan;
use ringfence_skills::{Certainty, NeededVariable, Needs, Presence};

use super::inside::has_program;
use crate::error::{ErrorCode, ServiceError};

/// Declared and missing is an error. Found in the code and missing is a warning: a script may do without.
pub(crate) fn check(skill: &str, needs: &Needs, plan: &Plan) -> Result<Vec<String>, ServiceError> {
    let (mut missing, mut hints, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for binary in needs.binaries.iter().filter(|binary| binary.certainty != Certainty::Optional) {
        if binary.any_of.iter().any(|name| has_program(plan, name)) {
            continue;
        }
        let names = binary.any_of.join(" or ");
        if binary.certainty == Certainty::Declared {
            missing.push(format!("the program {names} ({})", binary.origin));
            hints.push(match &binary.hint {
                Some(hint) => format!("install {names} ({hint})"),
                None => format!("install {names}, or show it with --read if it is in your home"),
            });
        } else {
            warnings.push(format!("{} calls {names}, which is not in the sandbox", binary.origin));
        }
    }
    for variable in &needs.variables {
        if plan.environment.iter().any(|(name, value)| *name == variable.name && !value.is_empty()) {
            continue;
        }
        match variable.presence {
            Presence::Required => {
                let what = if variable.secret { "the secret" } else { "the variable" };
                missing.push(format!("{what} {} ({})", variable.name, variable.origin));
                hints.push(how_to_pass(variable));
            }
            Presence::Expected => {
                warnings.push(format!(
                    "{} reads {}, which is not set: {}",
                    variable.origin,
                    variable.name,
                    how_to_pass(variable)
                ));
            }
            Presence::Optional => {}
        }
    }
    if missing.is_empty() {
        return Ok(warnings);
    }
    Err(ServiceError::new(
        ErrorCode::Missing,
        format!("{skill} needs what is not there: {}", missing.join(", ")),
        hints.join("; "),
    ))
}

fn how_to_pass(NeededVariable { name, secret, .. }: &NeededVariable) -> String {
    if *secret {
        format!("--secret {name}=env:{name}@HOST keeps it outside, --pass-env {name} hands it in")
    } else {
        format!("--env {name}=VALUE, or --pass-env {name} for your own")
    }
}
