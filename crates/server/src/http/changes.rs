//! What a sandbox changed, how a copy-on-write workspace gets into the one beneath, and forks.

use std::path::{Component, PathBuf};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::ActionKind;
use ringfence_service::workers::{ForkOrder, Order, Report};
use ringfence_service::{
    ErrorCode, ServiceError, Since, commit_reviewed, remove_session, review_changes, session_changes,
};
use ringfence_store::{Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::ActionAnswer;
use super::bounds::{Millis, Within};
use super::creation::{Begun, CreateRequest, ForkOf, begin, enforced, take_back};
use super::people::{entry, entry_in};
use super::sandboxes::SandboxAnswer;
use super::snapshots::find;
use crate::actions::{Claim, Gated, Intent, handed_in, pass, suspicious};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::launch::Worker;
use crate::metrics::Start;
use crate::owed::merge;
use crate::refusals::record_refusal;

/// What one request makes.
const MOST_FORKS: u64 = 16;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(diff))
        .routes(routes!(commit))
        .routes(routes!(fork))
        .routes(routes!(fork_snapshot))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    /// A snapshot, by id or name; without one, the beginning of a copy-on-write or private workspace.
    since: Option<String>,
    /// `list` or `unified`
    format: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DiffAnswer {
    changes: Vec<ChangeAnswer>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangeAnswer {
    /// workspace or home
    root: String,
    path: String,
    /// added, changed, mode, removed or replaced
    change: &'static str,
    size: Option<u64>,
    /// It was changed beneath too: it can't be committed.
    conflict: bool,
}

/// What a sandbox changed: as a list, or as text that `patch` and git read.
#[utoipa::path(
    get, path = "/sandboxes/{id}/diff", tag = "snapshots", params(("id" = String, Path), DiffQuery),
    responses(
        (status = 200, description = "The list, or with `format=unified` text", content(
            (DiffAnswer = "application/json"),
            (String = "text/x-diff"),
        )),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn diff(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Asked(query): Asked<DiffQuery>,
) -> Answer<Response> {
    let unified = match query.format.as_deref() {
        None | Some("list") => false,
        Some("unified") => true,
        Some(_) => return Err(ApiError::bad("that is no format of a diff", "name `list` or `unified`")),
    };
    let (row, _) = app.kept_sandbox(&caller, &id).await?;
    let places = app.places_of(&row.user)?;
    let since = match query.since {
        Some(snapshot) => Since::Snapshot(find(&places, &snapshot).await?.id),
        None => Since::Start,
    };
    let changes = blocking(move || match session_changes(&places, &id, &since) {
        Err(error) if error.code == ErrorCode::BadRequest && since == Since::Start => Err(ApiError::bad(
            "nobody has kept what the workspace was when the sandbox began: it writes to it at once",
            "make the sandbox with `overlay`, or compare with a snapshot: `?since=`",
        )),
        changes => Ok(changes?),
    })
    .await?;
    if unified {
        return Ok(([(header::CONTENT_TYPE, "text/x-diff; charset=utf-8")], changes.text).into_response());
    }
    let changes = changes.changes.into_iter().map(|one| ChangeAnswer {
        root: one.root,
        path: one.path,
        change: one.change,
        size: one.size,
        conflict: one.conflict,
    });
    Ok(Json(DiffAnswer { changes: changes.collect() }).into_response())
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CommitRequest {
    /// These paths of the workspace, and what is in them; all, if there are none.
    only: Vec<String>,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommitAnswer {
    #[schema(value_type = Vec<Object>)]
    applied: Value,
    /// Protected names, pipes and the like, which are never committed.
    #[schema(value_type = Vec<Object>)]
    left_out: Value,
}

/// Apply what a sandbox wrote to a copy-on-write workspace to the workspace beneath: all that is chosen, or nothing.
#[utoipa::path(
    post, path = "/sandboxes/{id}/commit", tag = "snapshots", params(("id" = String, Path)),
    request_body = CommitRequest,
    responses(
        (status = 200, body = CommitAnswer),
        (status = 202, description = "Nothing was changed: a person has to approve this action first", body = ActionAnswer),
        (status = 409, description = "It was changed beneath meanwhile; `paths` says what", body = ErrorBody),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn commit(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<CommitRequest>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let (row, _) = app.kept_sandbox(&caller, &id).await?;
    let only = request.only.iter().map(|path| below(path)).collect::<Answer<Vec<_>>>()?;
    let places = app.places_of(&row.user)?;
    let (looked_at, at, of) = (places.clone(), id.clone(), only.clone());
    let (found, reviewed) = blocking(move || review_changes(&looked_at, &at, of).map_err(refused)).await?;
    // What was looked at is what may be applied: anything written since is another action.
    let diff = blake3::hash(&found.text).to_hex().to_string();
    let claim = Claim { action: request.action, wait_ms: request.wait_ms };
    let mut intent = Intent::in_sandbox(ActionKind::Commit, &id, &(&request.only, &diff, &reviewed), claim)?;
    intent.shown = json!({
        "sandbox": id, "only": request.only, "diff": handed_in(&found.text), "changes": reviewed,
    });
    intent.asks.suspicions = suspicious(&[("the diff".to_owned(), &found.text)]);
    intent.target = Some(id.clone());
    let pass = match pass(&app, &caller, &request_id, intent.asked_by(&app, &caller, &row.user)).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let session = id.clone();
    // Whoever decided may have taken their time, and processes of the sandbox went on meanwhile.
    let committed =
        blocking(move || commit_reviewed(&places, &session, only, reviewed).map_err(refused)).await;
    let report = match committed {
        Ok(committed) => json!(committed.report),
        Err(error) => {
            let mut about = json!({ "error": error.code });
            pass.add_to(&mut about);
            let entry = entry_in(&app, &caller, &request_id, "sandbox.commit", &id, about.clone()).await?;
            app.record(entry).await?;
            pass.finish(Outcome::Failed, about).await?;
            return Err(error);
        }
    };
    let mut about = json!({ "applied": report["applied"].as_array().map(Vec::len) });
    pass.add_to(&mut about);
    let entry = entry_in(&app, &caller, &request_id, "sandbox.commit", &id, about.clone()).await?;
    app.record(entry).await?;
    pass.finish(Outcome::Done, about).await?;
    let answer = CommitAnswer { applied: report["applied"].clone(), left_out: report["left_out"].clone() };
    Ok(Json(answer).into_response())
}

fn refused(mut error: ServiceError) -> ApiError {
    match error.code {
        ErrorCode::BadRequest => ApiError::bad(
            "there is nothing to commit: this sandbox writes to its workspace at once",
            "make sandboxes with `overlay` to look at their changes first",
        ),
        ErrorCode::Commit => {
            error.hint = error.hint.replace("--only", "`only`");
            error.into()
        }
        _ => error.into(),
    }
}

/// A path of the workspace and of nothing else.
fn below(path: &str) -> Answer<PathBuf> {
    let given = PathBuf::from(path);
    let plain = given.components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || path.contains('\0') || !plain {
        return Err(ApiError::bad(
            format!("`{}` is no path of a workspace", path.escape_debug()),
            "give paths relative to the workspace, with no `..`",
        ));
    }
    Ok(given)
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ForkRequest {
    /// How many; one where none is given.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 16)]
    count: Option<Within<1, MOST_FORKS>>,
    /// They end after so long.
    #[schema(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
    /// They end when nothing was done in them for so long.
    #[schema(value_type = Option<u64>, minimum = 1)]
    idle_ms: Option<Millis>,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ForkAnswer {
    sandboxes: Vec<SandboxAnswer>,
}

/// Make sandboxes that begin where this one is, each with its own copy-on-write workspace and the same policy, if the
/// caller may still have it. A snapshot of it is taken for that, and stays.
#[utoipa::path(
    post, path = "/sandboxes/{id}/fork", tag = "snapshots", params(("id" = String, Path)), request_body = ForkRequest,
    responses(
        (status = 201, body = ForkAnswer),
        (status = 202, description = "Nothing was made: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn fork(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<ForkRequest>,
) -> Answer<Response> {
    let (row, _) = app.own_sandbox(&caller, &id).await?;
    if row.user != caller.user {
        return Err(ApiError::forbidden(
            "a fork belongs to the user whose sandbox it comes from",
            "ask them to make it",
        ));
    }
    let model = model(row.request.as_deref())?;
    make(app, caller, request_id, id, model, request).await
}

/// Make sandboxes that begin where a snapshot is. Their policy is that of the sandbox it was taken of, where that is still
/// known and the caller may have it.
#[utoipa::path(
    post, path = "/snapshots/{id}/fork", tag = "snapshots", params(("id" = String, Path)), request_body = ForkRequest,
    responses(
        (status = 201, body = ForkAnswer),
        (status = 202, description = "Nothing was made: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn fork_snapshot(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<ForkRequest>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let snapshot = find(&app.places_of(&caller.user)?, &id).await?;
    // An imported one names a sandbox that may be anybody's.
    let taken_of = app.store.sandbox(&snapshot.facts.session).await?.filter(|row| row.user == caller.user);
    let model = model(taken_of.and_then(|row| row.request).as_deref())?;
    make(app, caller, request_id, snapshot.id, model, request).await
}

fn model(kept: Option<&str>) -> Answer<CreateRequest> {
    kept.map_or_else(|| Ok(CreateRequest::default()), serde_json::from_str)
        .map_err(|error| ApiError::internal("read what the sandbox was asked for with", error))
}

async fn make(
    app: Shared,
    caller: Caller,
    request_id: RequestId,
    from: String,
    model: CreateRequest,
    request: ForkRequest,
) -> Answer<Response> {
    let count = request.count.map_or(1, |count| count.get() as u32);
    app.room(&caller.user).await?;
    let claim = Claim { action: request.action, wait_ms: request.wait_ms };
    let wanted = model.forked(request.ttl_ms, request.idle_ms, claim);
    let fork = ForkOf { from: &from, count };
    let (orders, policy_digest, pass) = match begin(&app, &caller, &request_id, wanted, Some(fork)).await {
        Ok(Begun::Making { orders, policy_digest, pass }) => (orders, policy_digest, pass),
        Ok(Begun::Waiting(row)) => return Ok(Gated::accepted(*row)),
        Err(error) => {
            return Err(record_refusal(&app, &caller, &request_id, "sandbox.fork", error).await?);
        }
    };
    // Goes on if the client goes away meanwhile: what was begun is finished or taken back.
    let making = tokio::spawn(async move {
        let ids: Vec<String> = orders.iter().map(|order| order.name.clone()).collect();
        let order = ForkOrder { tenant: caller.user.clone(), from: from.clone(), wanted: orders };
        let order = Order::Fork(Box::new(order));
        let made = async {
            match Worker::silent(&app.launcher, &order).await?.report().await? {
                Report::Forked(reports) => Ok(reports),
                _ => Err(ApiError::internal("understand a worker", "it reported on something else")),
            }
        };
        let mut told = entry(&caller, &request_id, "sandbox.fork", Some(from), json!({ "made": ids }));
        pass.add_to(&mut told.result);
        told.policy_digest = Some(policy_digest.clone());
        match made.await {
            Ok(reports) => {
                let mut answers = Vec::new();
                for (id, report) in ids.iter().zip(reports) {
                    let enforced = enforced(&app, id, policy_digest.clone()).await;
                    app.store.sandbox_is_alive(id, &enforced).await?;
                    // They are alike: the same policy on the same host.
                    told.receipt_digest = enforced.receipt_digest;
                    app.metrics.sandboxes.inc();
                    app.metrics.started(Start::Session, None);
                    let row =
                        app.store.sandbox(id).await?.ok_or_else(|| ApiError::not_found("sandbox", id))?;
                    answers.push(SandboxAnswer::made(row, report));
                }
                app.record(told).await?;
                pass.finish(Outcome::Done, json!({ "sandboxes": ids })).await?;
                Ok(answers)
            }
            Err(error) => {
                let (places, gone) = (app.places_of(&caller.user)?, ids.clone());
                blocking(move || {
                    // Those that were made before the one that was not.
                    gone.iter().for_each(|id| drop(remove_session(&places, id)));
                    Ok(())
                })
                .await?;
                for id in &ids {
                    take_back(&app, id).await?;
                }
                merge(&mut told.result, json!({ "error": error.code }));
                app.record(told).await?;
                pass.finish(Outcome::Failed, json!({ "error": error.code })).await?;
                Err(error)
            }
        }
    });
    let sandboxes = making.await.map_err(|error| ApiError::internal("make sandboxes", error))??;
    Ok((StatusCode::CREATED, Json(ForkAnswer { sandboxes })).into_response())
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_path_to_commit_stays_in_the_workspace() {
        assert!(below("a/b").is_ok());
        for path in ["", "/a", "..", "a/../b", ".", "a\0b"] {
            assert!(below(path).is_err(), "{path:?}");
        }
    }
}
