//! The Skills extension (`io.modelcontextprotocol/skills`): each skill of the library with its frontmatter and the digest of
//! every file; the files themselves are resources. Also skills as prompts.

use ring::digest::{SHA256, digest};
use ringfence_service::skills::{Kind, catalogue, read_shared_file, show_shared};
use rmcp::ErrorData;
use rmcp::model::{Prompt, PromptArgument, Resource};
use serde_json::{Value, json};

use super::host::{Host, SkillName};
use super::resources::{skill_file, skill_uri};
use crate::blocking;
use crate::error::{Answer, ApiError};

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/skills";
pub(super) const MANIFEST: &str = "SKILL.md";
/// What every host must be able to take: a skill with more is not offered.
const MOST_FILES: usize = 512;
const MOST_BYTES: u64 = 16 << 20;
/// Each costs reading all its files.
const PAGE: usize = 50;
/// How long a list may be taken to be right.
const TTL_MS: u64 = 60_000;

/// One skill of the library.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// `domain/name`.
    pub(super) skill: String,
    pub(super) description: String,
}

/// The skills that can be read, by name.
pub(super) async fn known(host: &Host) -> Answer<Vec<Known>> {
    let host = host.clone();
    blocking(move || {
        let places = host.places().clone();
        let entries = catalogue(&places, None, &[], false)?.entries;
        let known = entries.into_iter().filter_map(|entry| {
            // As a sandbox has it: /skills/DOMAIN/NAME/SKILL.md.
            let skill = entry.location.strip_prefix("/skills/")?.rsplit_once('/')?.0.to_owned();
            let seen = skill.split_once('/').is_some_and(|(domain, _)| host.sees(domain));
            seen.then_some(Known { skill, description: entry.description })
        });
        let mut known: Vec<Known> = known.collect();
        known.sort_by(|one, other| one.skill.cmp(&other.skill));
        Ok(known)
    })
    .await
}

pub(super) async fn resources(host: &Host) -> Answer<Vec<Resource>> {
    let shown = |known: Known| {
        let name = known.skill.rsplit('/').next().unwrap_or_default().to_owned();
        Resource::new(skill_uri(&known.skill, MANIFEST), name)
            .with_description(known.description)
            .with_mime_type("text/markdown")
    };
    Ok(known(host).await?.into_iter().map(shown).collect())
}

/// Each skill as a prompt, by its full name.
pub(super) async fn prompts(host: &Host) -> Answer<Vec<Prompt>> {
    let shown = |known: Known| {
        let task = PromptArgument::new("task").with_description("What to do with it").with_required(false);
        Prompt::new(known.skill, Some(known.description), Some(vec![task]))
    };
    Ok(known(host).await?.into_iter().map(shown).collect())
}

/// `skills/list` and `skills/get`; none: that is no method of the extension.
pub(super) async fn request(
    host: &Host,
    method: &str,
    params: Option<&Value>,
) -> Option<Result<Value, ErrorData>> {
    match method {
        "skills/list" => Some(list(host, params).await),
        "skills/get" => Some(get(host, params).await),
        _ => None,
    }
}

async fn list(host: &Host, params: Option<&Value>) -> Result<Value, ErrorData> {
    let after = match params.and_then(|params| params.get("cursor")) {
        None | Some(Value::Null) => None,
        Some(Value::String(cursor)) => Some(cursor.clone()),
        Some(_) => return Err(ErrorData::invalid_params("`cursor` is a string", None)),
    };
    let known = known(host).await.map_err(|error| failed(host.told(error)))?;
    let mut rest = known.into_iter().filter(|known| after.as_ref().is_none_or(|after| known.skill > *after));
    let page: Vec<Known> = rest.by_ref().take(PAGE).collect();
    let next = page.last().map(|last| last.skill.clone()).filter(|_| rest.next().is_some());
    let mut skills = Vec::new();
    for known in page {
        // One that can't be read whole, or is too large for the extension, is not offered.
        if let Ok(entry) = entry(host, known.skill).await {
            skills.push(entry);
        }
    }
    let mut result = complete(json!({ "skills": skills }));
    if let Some(next) = next {
        result["nextCursor"] = json!(next);
    }
    Ok(result)
}

async fn get(host: &Host, params: Option<&Value>) -> Result<Value, ErrorData> {
    let uri = params.and_then(|params| params["uri"].as_str());
    let uri = uri.ok_or_else(|| ErrorData::invalid_params("`uri` is missing", None))?;
    let unknown = || ErrorData::invalid_params("there is no such skill", Some(json!({ "uri": uri })));
    let (skill, _) = skill_file(uri).filter(|(_, path)| path == MANIFEST).ok_or_else(unknown)?;
    let entry = entry(host, skill).await.map_err(|_| unknown())?;
    Ok(complete(json!({ "skill": entry })))
}

fn complete(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    result["ttlMs"] = json!(TTL_MS);
    result["cacheScope"] = json!("private");
    result
}

pub(super) fn failed(error: ApiError) -> ErrorData {
    ErrorData::internal_error(error.message, Some(json!({ "code": error.code, "hint": error.hint })))
}

/// A skill as the extension describes it: complete, or not at all.
async fn entry(host: &Host, skill: String) -> Answer<Value> {
    let SkillName { domain, name } = host.skill(&skill).await?;
    let places = host.places().clone();
    blocking(move || {
        let shown = show_shared(&places, &domain, &name)?;
        let mut resources = Vec::new();
        let mut bytes_in_all = 0;
        for file in &shown.files {
            let Kind::File { .. } = file.kind else {
                return Err(ApiError::bad(format!("{skill} has more than files"), "take it out"));
            };
            let bytes = read_shared_file(&places, &domain, &name, Some(&file.path))?;
            bytes_in_all += bytes.len() as u64;
            if bytes_in_all > MOST_BYTES || resources.len() >= MOST_FILES {
                return Err(ApiError::bad(format!("{skill} is too large"), "read its files one by one"));
            }
            let hex: String =
                digest(&SHA256, &bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            resources.push(json!({
                "uri": skill_uri(&skill, &file.path),
                "digest": format!("sha256:{hex}"),
                "size": bytes.len(),
            }));
        }
        Ok(json!({
            "uri": skill_uri(&skill, MANIFEST),
            "frontmatter": shown.frontmatter,
            "resources": resources,
        }))
    })
    .await
}
