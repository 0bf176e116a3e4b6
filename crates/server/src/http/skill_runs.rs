//! A script of a skill in place of a command: by `POST /v1/skills/{domain}/{name}/run`, and by `skill` of a run. Both are the
//! same run, with the same gate and the same row in the audit.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use ringfence_policy::Finding;
use ringfence_service::skills::{lint_shared, show_shared};
use ringfence_service::weighed;
use ringfence_service::workers::SkillOrder;
use ringfence_store::Role;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::ActionAnswer;
use super::bounds::Millis;
use super::run::{RunAnswer, RunRequest, to_the_end};
use super::skills::{rules, with_seen};
use super::wanted::{FileWanted, NetworkWanted, SecretWanted, without_nul};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::library::{SkillName, find_skill};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(run))
}

/// A script of a skill, and the sandbox for it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SkillRunRequest {
    /// Its path in the skill; the only one that it has, where none is given.
    #[schema(example = "scripts/count.py")]
    script: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    stdin: Option<String>,
    /// 30000 where neither this nor the policy says how long.
    #[schema(value_type = Option<u64>, minimum = 1)]
    timeout_ms: Option<Millis>,
    profile: Option<String>,
    #[schema(value_type = Option<Object>)]
    policy: Option<ringfence_policy::Layer>,
    network: Option<NetworkWanted>,
    workspace: Option<String>,
    files: Vec<FileWanted>,
    secrets: Vec<SecretWanted>,
    strict: bool,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

/// Run a script of a skill in a fresh sandbox, within your role's ceiling.
#[utoipa::path(
    post, path = "/skills/{domain}/{name}/run", tag = "skills",
    params(("domain" = String, Path), ("name" = String, Path)), request_body = SkillRunRequest,
    responses(
        (status = 200, description = "The script ran, whatever its exit status", body = RunAnswer),
        (status = 202, description = "Nothing ran: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", description = "Nothing ran", body = ErrorBody),
    )
)]
pub(crate) async fn run(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named((domain, name)): Named<(String, String)>,
    Body(wanted): Body<SkillRunRequest>,
) -> Answer<Response> {
    let request = RunRequest {
        env: wanted.env,
        stdin: wanted.stdin,
        timeout_ms: wanted.timeout_ms,
        profile: wanted.profile,
        policy: wanted.policy,
        network: wanted.network,
        workspace: wanted.workspace,
        files: wanted.files,
        secrets: wanted.secrets,
        strict: wanted.strict,
        action: wanted.action,
        wait_ms: wanted.wait_ms,
        script: Some(ScriptWanted {
            skill: SkillName { domain, name },
            script: wanted.script,
            args: wanted.args,
        }),
        ..RunRequest::default()
    };
    to_the_end(&app, &caller, &request_id, request).await
}

/// A skill that somebody named, and what of it is to run.
#[derive(Debug)]
pub(super) struct ScriptWanted {
    skill: SkillName,
    /// None: the only one that it has.
    script: Option<String>,
    args: Vec<String>,
}

impl ScriptWanted {
    /// As `skill` of a run names it: the command is the script and its arguments.
    pub(super) async fn named(
        app: &Shared,
        caller: &Caller,
        given: String,
        command: Vec<String>,
    ) -> Answer<Self> {
        caller.needs(Role::Operator)?;
        let (places, rules) = (app.places.clone(), rules(app, caller).clone());
        let skill = blocking(move || find_skill(&places, |domain| rules.sees(domain), &given)).await?;
        let mut words = command.into_iter();
        let script = words.next();
        if script.as_ref().is_some_and(String::is_empty) {
            return Err(ApiError::bad(
                "the script of the skill has no name",
                "give `command` its path in the skill and its arguments, or leave it out for the only one",
            ));
        }
        Ok(Self { skill, script, args: words.collect() })
    }

    /// What it is now, if the caller may see it: what is run later is exactly that.
    pub(super) async fn looked_at(self, app: &Shared, caller: &Caller) -> Answer<Script> {
        caller.needs(Role::Operator)?;
        let Self { skill: SkillName { domain, name }, script, args } = self;
        without_nul(script.iter().chain(&args).map(String::as_str), "an argument")?;
        let look = |places: &_, domain: &str, name: &str| {
            Ok((show_shared(places, domain, name)?.digest, lint_shared(places, domain, name)?.findings))
        };
        let (version, findings) = with_seen(app, caller, (domain.clone(), name.clone()), look).await?;
        let version = version.map(|digest| digest.to_string());
        let order = SkillOrder { domain, name, script, args, version };
        Ok(Script { order, findings: weighed(&findings) })
    }
}

/// A script that is there and may be run.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) order: SkillOrder,
    /// Of the skill's lint.
    pub(super) findings: Vec<Finding>,
}

impl Script {
    pub(super) fn skill(&self) -> String {
        format!("{}/{}", self.order.domain, self.order.name)
    }

    /// What people and rules are told in place of a command.
    pub(super) fn command(&self) -> Vec<String> {
        let mut command = vec![format!("skill:{}", self.skill())];
        command.extend(self.order.script.iter().chain(&self.order.args).cloned());
        command
    }
}
