//! `/v1/skills`: the library, as far as the caller's role may see, publish and overwrite it, domain by domain.
//!
//! A skill of a domain that the caller may not see is not there. No path of the server is told, and none is taken.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ringfence_service::ServiceError;
use ringfence_service::skills::{
    SearchSpec, Strictness, has_shared_skill, lint_shared, pack_shared, page_of_skills, read_shared_file,
    search_skills, shared_history, show_shared, validate_shared,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::bounds::{PageLimit, Within};
use super::pages::page_size;
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Named};
use crate::config::SkillRules;
use crate::error::{Answer, ApiError, ErrorBody};

/// Where clients look for skills by themselves.
pub(crate) const INDEX: &str = "/.well-known/agent-skills/index.json";
const INDEX_SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";
/// An index is read whole.
const MOST_INDEXED: usize = 200;
/// More than are told, since some may be of domains that are not seen.
const MOST_SEARCHED: usize = 200;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(search))
        .routes(routes!(get))
        .routes(routes!(file))
        .routes(routes!(archive))
        .routes(routes!(versions))
        .routes(routes!(validate))
        .routes(routes!(lint))
}

pub(super) fn rules<'a>(app: &'a Shared, caller: &Caller) -> &'a SkillRules {
    &app.config.role(caller.role).skills
}

/// A skill that is there and that the caller may see; else it is not there.
pub(super) async fn seen(app: &Shared, caller: &Caller, domain: &str, name: &str) -> Answer<()> {
    let missing = || ApiError::not_found("skill", &format!("{domain}/{name}"));
    if !rules(app, caller).sees(domain) {
        return Err(missing());
    }
    let (places, of, called) = (app.places.clone(), domain.to_owned(), name.to_owned());
    match blocking(move || Ok(has_shared_skill(&places, &of, &called)?)).await? {
        true => Ok(()),
        false => Err(missing()),
    }
}

/// One call of a service for a skill that the caller may see.
pub(super) async fn with_seen<T: Send + 'static>(
    app: &Shared,
    caller: &Caller,
    (domain, name): (String, String),
    work: impl FnOnce(&ringfence_service::Places, &str, &str) -> Result<T, ServiceError> + Send + 'static,
) -> Answer<T> {
    seen(app, caller, &domain, &name).await?;
    let places = app.places.clone();
    blocking(move || Ok(work(&places, &domain, &name)?)).await
}

pub(super) fn told(value: impl Serialize) -> Answer<Value> {
    serde_json::to_value(value).map_err(|error| ApiError::internal("write an answer", error))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SkillsQuery {
    /// Of one domain.
    domain: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<PageLimit>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillAnswer {
    domain: String,
    name: String,
    /// Null where its manifest can't be read.
    description: Option<String>,
    /// published, edited, unpublished or unfit
    state: &'static str,
    /// The BLAKE3 of its tree: its version.
    digest: Option<String>,
    problem: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillPage {
    skills: Vec<SkillAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// The skills that you may see, by domain and name.
#[utoipa::path(
    get, path = "/skills", tag = "skills", params(SkillsQuery),
    responses((status = 200, body = SkillPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<SkillsQuery>,
) -> Answer<Json<SkillPage>> {
    let (rules, places) = (rules(&app, &caller).clone(), app.places.clone());
    let size = page_size(query.limit) as usize;
    let (rows, next) = blocking(move || {
        let sees =
            |domain: &str| rules.sees(domain) && query.domain.as_ref().is_none_or(|wanted| wanted == domain);
        Ok(page_of_skills(&places, &sees, query.after.as_deref(), size)?)
    })
    .await?;
    let skills = rows.into_iter().map(|row| SkillAnswer {
        domain: row.domain,
        name: row.name,
        description: row.description,
        state: row.state.as_str(),
        digest: row.digest.map(|digest| digest.to_string()),
        problem: row.problem,
    });
    Ok(Json(SkillPage { skills: skills.collect(), next }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// Words.
    #[param(example = "tables from pdf")]
    q: String,
    #[param(value_type = Option<usize>, minimum = 1, maximum = 100)]
    limit: Option<Within<1, 100>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HitAnswer {
    domain: String,
    name: String,
    description: String,
    /// A piece of its text, and where the words are in it.
    #[schema(value_type = Object)]
    snippet: Value,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchAnswer {
    /// The best first.
    hits: Vec<HitAnswer>,
}

/// Find skills by words of their names, descriptions and manifests.
#[utoipa::path(
    get, path = "/skills/search", tag = "skills", params(SearchQuery),
    responses((status = 200, body = SearchAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn search(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<SearchQuery>,
) -> Answer<Json<SearchAnswer>> {
    let (rules, places) = (rules(&app, &caller).clone(), app.places.clone());
    let most = query.limit.map_or(20, |limit| limit.get() as usize);
    let spec = SearchSpec { text: query.q, most: MOST_SEARCHED, library: None };
    let found = blocking(move || Ok(search_skills(&places, &spec)?)).await?;
    let mut hits = Vec::new();
    for hit in found.hits {
        let Some((domain, name)) = hit.key.split_once('/') else { continue };
        if hits.len() < most && rules.sees(domain) {
            let (domain, name) = (domain.to_owned(), name.to_owned());
            hits.push(HitAnswer { domain, name, description: hit.description, snippet: told(hit.snippet)? });
        }
    }
    Ok(Json(SearchAnswer { hits }))
}

/// One skill: what its manifest says, what it asks for, which files it has.
#[utoipa::path(
    get, path = "/skills/{domain}/{name}", tag = "skills", params(("domain" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Named(at): Named<(String, String)>,
) -> Answer<Json<Value>> {
    let shown = with_seen(&app, &caller, at, show_shared).await?;
    let mut shown = told(shown)?;
    // Where it is on this machine, and where it came from, is the owner's affair.
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("path");
        shown.remove("origin");
    }
    Ok(Json(shown))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileQuery {
    /// Relative to the skill; its SKILL.md where none is given.
    #[param(example = "scripts/count.py")]
    path: Option<String>,
}

/// One file of a skill.
#[utoipa::path(
    get, path = "/skills/{domain}/{name}/file", tag = "skills",
    params(("domain" = String, Path), ("name" = String, Path), FileQuery),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn file(
    State(app): State<Shared>,
    caller: Caller,
    Named(at): Named<(String, String)>,
    Asked(query): Asked<FileQuery>,
) -> Answer<Response> {
    let wanted = query.path.clone();
    let read = with_seen(&app, &caller, at, move |places, domain, name| {
        read_shared_file(places, domain, name, wanted.as_deref())
    });
    let bytes = read.await.map_err(|error| match (error.status, &query.path) {
        // It has no such file, or what is there is none.
        (StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST, Some(path)) => {
            ApiError::not_found("file", path)
        }
        _ => error,
    })?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// A skill as an archive: the same skill, the same bytes.
#[utoipa::path(
    get, path = "/skills/{domain}/{name}/archive", tag = "skills",
    params(("domain" = String, Path), ("name" = String, Path)),
    responses((status = 200, content_type = "application/gzip", body = Vec<u8>), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn archive(
    State(app): State<Shared>,
    caller: Caller,
    Named(at): Named<(String, String)>,
) -> Answer<Response> {
    let bytes = with_seen(&app, &caller, at, pack_shared).await?;
    Ok(([(header::CONTENT_TYPE, "application/gzip")], bytes).into_response())
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionAnswer {
    /// Seconds since 1970.
    at: u64,
    /// add, publish, rollback or remove
    #[schema(value_type = String)]
    action: Value,
    digest: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionsAnswer {
    /// The oldest first.
    versions: Vec<VersionAnswer>,
    /// What the folder holds, where nobody has published that.
    unpublished: Option<String>,
}

/// What became of a skill.
#[utoipa::path(
    get, path = "/skills/{domain}/{name}/versions", tag = "skills",
    params(("domain" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = VersionsAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn versions(
    State(app): State<Shared>,
    caller: Caller,
    Named(at): Named<(String, String)>,
) -> Answer<Json<VersionsAnswer>> {
    let history = with_seen(&app, &caller, at, shared_history).await?;
    let version = |record: ringfence_service::skills::SkillRecord| {
        let digest = record.digest.map(|digest| digest.to_string());
        Ok(VersionAnswer { at: record.at, action: told(record.action)?, digest })
    };
    let versions = history.records.into_iter().map(version).collect::<Answer<_>>()?;
    Ok(Json(VersionsAnswer { versions, unpublished: history.unpublished.map(|digest| digest.to_string()) }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ValidateQuery {
    /// As the reference validator says, and not as clients load it.
    #[serde(default)]
    strict: bool,
}

impl ValidateQuery {
    pub(super) fn strictness(&self) -> Strictness {
        if self.strict { Strictness::Strict } else { Strictness::Lenient }
    }
}

/// Whether a skill's manifest is valid.
#[utoipa::path(
    get, path = "/skills/{domain}/{name}/validate", tag = "skills",
    params(("domain" = String, Path), ("name" = String, Path), ValidateQuery),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn validate(
    State(app): State<Shared>,
    caller: Caller,
    Named(at): Named<(String, String)>,
    Asked(query): Asked<ValidateQuery>,
) -> Answer<Json<Value>> {
    let work =
        move |places: &_, domain: &str, name: &str| validate_shared(places, domain, name, query.strictness());
    Ok(Json(told(with_seen(&app, &caller, at, work).await?)?))
}

/// What is suspicious in a skill. Advice: the sandbox is the control.
#[utoipa::path(
    get, path = "/skills/{domain}/{name}/lint", tag = "skills",
    params(("domain" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn lint(
    State(app): State<Shared>,
    caller: Caller,
    Named(at): Named<(String, String)>,
) -> Answer<Json<Value>> {
    Ok(Json(told(with_seen(&app, &caller, at, lint_shared).await?)?))
}

/// The skills that the caller may see, for clients that discover skills by themselves.
pub(crate) async fn index(State(app): State<Shared>, caller: Caller) -> Answer<Json<Value>> {
    let (rules, places) = (rules(&app, &caller).clone(), app.places.clone());
    let skills = blocking(move || {
        let (rows, _) = page_of_skills(&places, &|domain| rules.sees(domain), None, MOST_INDEXED)?;
        let mut names = BTreeSet::new();
        let mut skills = Vec::new();
        for row in rows {
            // A name is there once; of two, the domain that comes first has it.
            let Some(description) = row.description.filter(|_| names.insert(row.name.clone())) else {
                continue;
            };
            let Ok(bytes) = pack_shared(&places, &row.domain, &row.name) else { continue };
            let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
            let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            skills.push(json!({
                "name": row.name,
                "type": "archive",
                "description": description,
                "url": format!("/v1/skills/{}/{}/archive", row.domain, row.name),
                "digest": format!("sha256:{digest}"),
            }));
        }
        Ok(skills)
    })
    .await?;
    Ok(Json(json!({ "$schema": INDEX_SCHEMA, "skills": skills })))
}
