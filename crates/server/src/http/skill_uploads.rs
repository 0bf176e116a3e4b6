//! Skills that users send: looked at, added to the library and taken out of it, as far as their role may.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::ActionKind;
use ringfence_service::skills::{
    EditsOf, SkillUpload, add_upload, lint_upload, name_upload, remove_skill, show_shared, validate_upload,
};
use ringfence_service::{ServiceError, weighed};
use ringfence_store::{Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::{ActionAnswer, ClaimQuery};
use super::people::entry;
use super::skills::{ValidateQuery, rules, seen, told, with_seen};
use crate::actions::{Claim, Intent, pass};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::refusals::record_refusal;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(upload))
        .routes(routes!(delete))
        .routes(routes!(validate_archive))
        .routes(routes!(lint_archive))
}

/// Whether an archive's manifest is valid. Nothing is kept.
#[utoipa::path(
    post, path = "/skills/validate", tag = "skills", params(ValidateQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn validate_archive(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<ValidateQuery>,
    bytes: Bytes,
) -> Answer<Json<Value>> {
    caller.needs(Role::Operator)?;
    let permit = app.slot(&caller)?;
    let places = app.places.clone();
    let work = move || {
        let _permit = permit;
        let upload = SkillUpload::new(&places, None, &bytes)?;
        Ok(validate_upload(&places, &upload, query.strictness())?)
    };
    Ok(Json(told(blocking(work).await?)?))
}

/// What is suspicious in an archive. Nothing is kept.
#[utoipa::path(
    post, path = "/skills/lint", tag = "skills",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn lint_archive(
    State(app): State<Shared>,
    caller: Caller,
    bytes: Bytes,
) -> Answer<Json<Value>> {
    caller.needs(Role::Operator)?;
    let permit = app.slot(&caller)?;
    let places = app.places.clone();
    let work = move || {
        let _permit = permit;
        let upload = SkillUpload::new(&places, None, &bytes)?;
        Ok(lint_upload(&places, &upload)?)
    };
    Ok(Json(told(blocking(work).await?)?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadQuery {
    #[param(example = "team")]
    domain: String,
    /// What the archive calls it, where none is given.
    name: Option<String>,
    /// Make it a new version of one that is there.
    #[serde(default)]
    replace: bool,
    /// Take it although lint has found something high or critical. For admins.
    #[serde(default)]
    accept_findings: bool,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UploadedAnswer {
    /// `domain/name`
    skill: String,
    digest: String,
    /// What was published before.
    previous: Option<String>,
    description: String,
    /// High and critical ones.
    #[schema(value_type = Vec<Object>)]
    findings: Value,
    /// What it asks for beyond a profile. Nothing is granted by that.
    #[schema(value_type = Object)]
    asks: Value,
}

/// Add a skill from an archive (`.skill`, zip or tar, compressed or not), to a domain that your role may publish to.
#[utoipa::path(
    post, path = "/skills", tag = "skills", params(UploadQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = UploadedAnswer),
        (status = 202, description = "Nothing was changed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn upload(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Asked(query): Asked<UploadQuery>,
    bytes: Bytes,
) -> Answer<Response> {
    if let Err(error) = may_upload(&app, &caller, &query) {
        return Err(record_refusal(&app, &caller, &request_id, "skill.upload", error).await?);
    }
    let permit = app.slot(&caller)?;
    let (places, called, looked_at) = (app.places.clone(), query.name.clone(), bytes.clone());
    let look = blocking(move || {
        let upload = SkillUpload::new(&places, called.as_deref(), &looked_at)?;
        let findings = lint_upload(&places, &upload)?.findings;
        Ok((findings, name_upload(&places, &upload, called.as_deref()).map_err(by_query)?))
    });
    // A rule on that skill holds for whoever leaves its name to the archive, too.
    let (findings, name) = look.await?;
    let target = format!("{}/{name}", query.domain);
    let archive = blake3::hash(&bytes).to_hex().to_string();
    let shown = json!({
        "skill": target, "replace": query.replace, "accept_findings": query.accept_findings,
        "archive": { "bytes": bytes.len(), "digest": archive }, "findings": findings,
    });
    let exact = (query.replace, query.accept_findings, &archive);
    let claim = Claim { action: query.action.clone(), wait_ms: query.wait_ms };
    let mut intent = Intent::about(ActionKind::SkillUpload, &target, &exact, shown, claim)?;
    intent.asks.findings = weighed(&findings);
    let pass = match pass(&app, &caller, &request_id, intent.asked_by(&app, &caller, &caller.user)).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let places = app.places.clone();
    let added = blocking(move || {
        let _permit = permit;
        let upload = SkillUpload::new(&places, query.name.as_deref(), &bytes)?;
        let added =
            add_upload(&places, &upload, &query.domain, Some(name), query.replace, query.accept_findings);
        added.map_err(by_query)
    })
    .await?;
    let mut about = json!({ "digest": added.digest, "previous": added.previous });
    pass.add_to(&mut about);
    app.record(entry(&caller, &request_id, "skill.upload", Some(added.skill.clone()), about.clone())).await?;
    pass.finish(Outcome::Done, about).await?;
    let answer = UploadedAnswer {
        skill: added.skill,
        digest: added.digest.to_string(),
        previous: added.previous.map(|digest| digest.to_string()),
        description: added.description,
        findings: told(added.findings)?,
        asks: told(added.asks)?,
    };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// In the words of this route.
fn by_query(error: ServiceError) -> ApiError {
    let mut error = ApiError::from(error);
    if error.message.contains("already") {
        error.status = StatusCode::CONFLICT;
    }
    error.hint = error.hint.replace("--replace", "`replace=true`").replace("--name", "`name`");
    error
}

fn may_upload(app: &Shared, caller: &Caller, query: &UploadQuery) -> Answer<()> {
    caller.needs(Role::Operator)?;
    let rules = rules(app, caller);
    let (domain, role) = (query.domain.escape_debug(), caller.role);
    if !rules.publishes(&query.domain) {
        return Err(ApiError::forbidden(
            format!("the role {role} may not publish to the domain `{domain}`"),
            "ask an admin, or name another domain",
        ));
    }
    if query.replace && !rules.overwrites(&query.domain) {
        return Err(ApiError::forbidden(
            format!("the role {role} may not replace skills of the domain `{domain}`"),
            "leave `replace` out and give it another name, or ask an admin",
        ));
    }
    if query.accept_findings {
        caller.needs(Role::Admin)?;
    }
    Ok(())
}

/// What a skill is now; none where that can't be read.
async fn version(app: &Shared, caller: &Caller, domain: &str, name: &str) -> Answer<Option<String>> {
    let look = |places: &_, domain: &str, name: &str| {
        let shown = show_shared(places, domain, name).ok();
        Ok(shown.and_then(|shown| shown.digest).map(|digest| digest.to_string()))
    };
    with_seen(app, caller, (domain.to_owned(), name.to_owned()), look).await
}

/// Take a skill out of the library, of a domain that your role may overwrite. Its versions are kept.
#[utoipa::path(
    delete, path = "/skills/{domain}/{name}", tag = "skills",
    params(("domain" = String, Path), ("name" = String, Path), ClaimQuery),
    responses(
        (status = 204),
        (status = 202, description = "Nothing was changed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named((domain, name)): Named<(String, String)>,
    Asked(query): Asked<ClaimQuery>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    seen(&app, &caller, &domain, &name).await?;
    if !rules(&app, &caller).overwrites(&domain) {
        let error = ApiError::forbidden(
            format!("the role {} may not remove skills of the domain `{domain}`", caller.role),
            "ask an admin",
        );
        return Err(record_refusal(&app, &caller, &request_id, "skill.delete", error).await?);
    }
    let (places, skill) = (app.places.clone(), format!("{domain}/{name}"));
    let claim = Claim { action: query.action, wait_ms: query.wait_ms };
    let kind = ActionKind::SkillDelete;
    let version = version(&app, &caller, &domain, &name).await?;
    let shown = json!({ "skill": skill, "version": version });
    let intent = Intent::about(kind, &skill, &version, shown, claim)?;
    let pass = match pass(&app, &caller, &request_id, intent.asked_by(&app, &caller, &caller.user)).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    // Whoever decided has looked at that version.
    if self::version(&app, &caller, &domain, &name).await? != version {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "changed",
            format!("the skill `{skill}` is not what it was when this was asked for"),
            "look at it again, and ask again",
        ));
    }
    let gone = skill.clone();
    blocking(move || Ok(remove_skill(&places, None, &gone, EditsOf::Keep)?)).await?;
    let mut told = json!({});
    pass.add_to(&mut told);
    app.record(entry(&caller, &request_id, kind.as_str(), Some(skill), told)).await?;
    pass.finish(Outcome::Done, Value::Null).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
