//! `/v1/users`, `/v1/keys` and `/v1/login`: who may ask, and by what.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use ringfence_service::{remove_secret, stored_secrets};
use ringfence_store::{AuditEntry, Key, Maker, NewKey, Role, User};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::bounds::{Millis, PageLimit};
use super::pages::page;
use crate::app::Shared;
use crate::auth::{Caller, key_hash, new_key};
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::names::check_user_name;
use crate::refusals::record_refusal;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(me))
        .routes(routes!(users, add_user))
        .routes(routes!(change_user, remove_user))
        .routes(routes!(keys, add_key))
        .routes(routes!(revoke_key))
}

/// The one route that takes a token in place of a key.
pub(crate) fn login_route() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(login))
}

/// Who the key belongs to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MeAnswer {
    user: String,
    role: String,
}

/// Who you are.
#[utoipa::path(get, path = "/me", tag = "people", responses((status = 200, body = MeAnswer), (status = "4XX", body = ErrorBody)))]
pub(crate) async fn me(caller: Caller) -> Json<MeAnswer> {
    Json(MeAnswer { user: caller.user, role: caller.role.to_string() })
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserAnswer {
    name: String,
    role: String,
    created: i64,
    disabled: bool,
}

impl From<User> for UserAnswer {
    fn from(user: User) -> Self {
        Self { name: user.name, role: user.role.to_string(), created: user.created, disabled: user.disabled }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserRequest {
    #[schema(example = "ada")]
    name: String,
    /// viewer, operator, approver or admin
    role: String,
}

fn role(text: &str) -> Answer<Role> {
    text.parse().map_err(|error: ringfence_store::UnknownWord| {
        ApiError::bad(error.to_string(), "name one of the roles")
    })
}

pub(crate) fn entry(
    caller: &Caller,
    request_id: &RequestId,
    kind: &str,
    target: Option<String>,
    result: Value,
) -> AuditEntry {
    AuditEntry {
        at: crate::now(),
        user: caller.user.clone(),
        kind: kind.into(),
        target,
        decision: Some("allow".into()),
        policy_digest: None,
        receipt_digest: None,
        denials: Value::Array(Vec::new()),
        result,
        request_id: Some(request_id.0.clone()),
        origin: Some("http".into()),
    }
}

/// The same for what is done in a sandbox that stays, with what is enforced in it.
pub(super) async fn entry_in(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    kind: &str,
    id: &str,
    result: Value,
) -> Answer<AuditEntry> {
    let mut entry = entry(caller, request_id, kind, Some(id.to_owned()), result);
    if let Some(row) = app.store.sandbox(id).await? {
        (entry.policy_digest, entry.receipt_digest) = (row.policy_digest, row.receipt_digest);
    }
    Ok(entry)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// `next` of the page before.
    pub(super) after: Option<String>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    pub(super) limit: Option<PageLimit>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserPage {
    users: Vec<UserAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// All users, by name. For admins.
#[utoipa::path(
    get, path = "/users", tag = "people", params(PageQuery),
    responses((status = 200, body = UserPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn users(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Answer<Json<UserPage>> {
    caller.needs(Role::Admin)?;
    let rows = app.store.users().await?.into_iter().map(UserAnswer::from).collect();
    let (users, next) = page(rows, query.after.as_deref(), query.limit, |row| row.name.clone())?;
    Ok(Json(UserPage { users, next }))
}

/// Make a user. For admins.
#[utoipa::path(
    post, path = "/users", tag = "people", request_body = UserRequest,
    responses((status = 201, body = UserAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn add_user(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<UserRequest>,
) -> Answer<(StatusCode, Json<UserAnswer>)> {
    caller.needs(Role::Admin)?;
    let role = role(&request.role)?;
    check_user_name(&request.name)?;
    let user = app.store.add_user_by(&request.name, role, Some(&maker(&caller))).await?;
    app.record(entry(&caller, &request_id, "user.create", Some(request.name), json!({ "role": role })))
        .await?;
    Ok((StatusCode::CREATED, Json(user.into())))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UserChange {
    role: Option<String>,
    /// Their keys stop working as long as they are disabled.
    disabled: Option<bool>,
}

/// Change a user's role, or let them in or not. For admins.
#[utoipa::path(
    patch, path = "/users/{name}", tag = "people", params(("name" = String, Path)), request_body = UserChange,
    responses((status = 200, body = UserAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn change_user(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(name): Named<String>,
    Body(change): Body<UserChange>,
) -> Answer<Json<UserAnswer>> {
    caller.needs(Role::Admin)?;
    let missing = || ApiError::not_found("user", &name);
    app.store.user(&name).await?.ok_or_else(missing)?;
    if let Some(text) = &change.role {
        app.store.set_user_role(&name, role(text)?).await?;
    }
    if let Some(disabled) = change.disabled {
        app.store.disable_user(&name, disabled).await?;
    }
    app.people.tell();
    let result = json!({ "role": change.role, "disabled": change.disabled });
    app.record(entry(&caller, &request_id, "user.change", Some(name.clone()), result)).await?;
    let user = app.store.user(&name).await?.ok_or_else(missing)?;
    Ok(Json(user.into()))
}

/// Remove a user with their keys and secrets. Their workspaces and snapshots stay. For admins.
#[utoipa::path(
    delete, path = "/users/{name}", tag = "people", params(("name" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn remove_user(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(name): Named<String>,
) -> Answer<StatusCode> {
    caller.needs(Role::Admin)?;
    app.store.remove_user(&name).await?;
    app.people.tell();
    let places = app.places_of(&name)?;
    blocking(move || {
        for secret in stored_secrets(&places)?.names {
            remove_secret(&places, &secret)?;
        }
        Ok(())
    })
    .await?;
    app.record(entry(&caller, &request_id, "user.remove", Some(name), Value::Null)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyAnswer {
    id: String,
    user: String,
    role: String,
    label: Option<String>,
    created: i64,
    expires: Option<i64>,
    last_used: Option<i64>,
    revoked: Option<i64>,
}

impl KeyAnswer {
    /// In the order of time, which ids alone have not: whose key was made by the command line, has one of its own kind.
    fn cursor(&self) -> String {
        format!("{:020}.{}", self.created, self.id)
    }
}

impl From<Key> for KeyAnswer {
    fn from(key: Key) -> Self {
        Self {
            id: key.id,
            user: key.user,
            role: key.role.to_string(),
            label: key.label,
            created: key.created,
            expires: key.expires,
            last_used: key.last_used,
            revoked: key.revoked,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyPage {
    keys: Vec<KeyAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// Your keys, the oldest first; all, for admins. No secret is among them.
#[utoipa::path(
    get, path = "/keys", tag = "people", params(PageQuery),
    responses((status = 200, body = KeyPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn keys(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Answer<Json<KeyPage>> {
    let of = (caller.role != Role::Admin).then_some(caller.user.as_str());
    let rows = app.store.keys(of).await?.into_iter().map(KeyAnswer::from).collect();
    let (keys, next) = page(rows, query.after.as_deref(), query.limit, KeyAnswer::cursor)?;
    Ok(Json(KeyPage { keys, next }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyRequest {
    /// Whose; yours where none is given. Others' are for admins.
    user: Option<String>,
    /// Your own role where none is given; never more than the user's.
    role: Option<String>,
    label: Option<String>,
    /// From now.
    /// A key that ends makes none that outlives it: the answer says when this one ends.
    #[schema(value_type = Option<u64>, minimum = 1)]
    expires_ms: Option<Millis>,
}

const LONGEST_LABEL: usize = 256;

/// A key that was just made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewKeyAnswer {
    /// Shown this once; empty where the answer is told again for an `Idempotency-Key`.
    key: String,
    #[serde(flatten)]
    about: KeyAnswer,
}

/// Make a key, of no more than your own role and for no longer than the key that you use.
#[utoipa::path(
    post, path = "/keys", tag = "people", request_body = KeyRequest,
    responses((status = 201, body = NewKeyAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn add_key(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<KeyRequest>,
) -> Answer<(StatusCode, Json<NewKeyAnswer>)> {
    if caller.by_token() {
        return Err(ApiError::forbidden(
            "a token ends by itself, and can't make a key that does not",
            "ask an admin for a key",
        ));
    }
    if request.label.as_ref().is_some_and(|label| label.len() > LONGEST_LABEL) {
        return Err(ApiError::bad("the label is too long", "give one of 256 bytes or less"));
    }
    let user = request.user.unwrap_or_else(|| caller.user.clone());
    if user != caller.user {
        caller.needs(Role::Admin)?;
    }
    let role = request.role.as_deref().map(role).transpose()?.unwrap_or(caller.role);
    // A key can't make a stronger one, even of a user who could have it.
    if !caller.role.covers(role) {
        return Err(ApiError::forbidden(
            format!("a key of the role {} can't make one of the role {role}", caller.role),
            "ask an admin",
        ));
    }
    let asked = request.expires_ms.map(|ms| after(ms.get()));
    // Nobody's key outlives the one that made it, also not by way of another user's.
    let expires = asked.into_iter().chain(caller.expires).min();
    let owner = app.store.user(&user).await?.ok_or_else(|| ApiError::not_found("user", &user))?;
    let most = app.config.role(owner.role).quotas.keys;
    let key = NewKey { maker: Some(maker(&caller)), label: request.label, expires, ..new_key_of(user, role) };
    let answer = make_key(&app, key, Some(most)).await?;
    let about = json!({ "key": answer.about.id, "role": answer.about.role, "expires": answer.about.expires });
    app.record(entry(&caller, &request_id, "key.create", Some(answer.about.user.clone()), about)).await?;
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Who makes a user or a key: it is no second person for what they ask for.
fn maker(caller: &Caller) -> Maker {
    Maker { user: caller.user.clone(), key: caller.key.clone() }
}

/// Without a secret yet.
fn new_key_of(user: String, role: Role) -> NewKey {
    let id = Uuid::now_v7().simple().to_string();
    NewKey { id, user, role, label: None, expires: None, secret_hash: [0; 32], maker: None }
}

async fn make_key(app: &Shared, new: NewKey, most: Option<u64>) -> Answer<NewKeyAnswer> {
    let (key, secret_hash) = new_key().map_err(|error| ApiError::internal("make a key", error))?;
    let about = app.store.add_key_of(NewKey { secret_hash, ..new }, most).await?.into();
    Ok(NewKeyAnswer { key, about })
}

fn after(ms: u64) -> i64 {
    crate::now().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Revoke a key, for good: one of your own whose role is no more than that of the key that you use; any, for admins.
#[utoipa::path(
    delete, path = "/keys/{id}", tag = "people", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn revoke_key(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    let of = (caller.role != Role::Admin).then_some(caller.user.as_str());
    let keys = app.store.keys(of).await?;
    let key = keys.iter().find(|key| key.id == id).ok_or_else(|| ApiError::not_found("key", &id))?;
    if !caller.role.covers(key.role) {
        let error = ApiError::forbidden(
            format!("a key of the role {} can't revoke one of the role {}", caller.role, key.role),
            "use a key of that role, or ask an admin",
        );
        return Err(record_refusal(&app, &caller, &request_id, "key.revoke", error).await?);
    }
    app.store.revoke_key(&id).await?;
    app.people.tell();
    app.record(entry(&caller, &request_id, "key.revoke", Some(id), Value::Null)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginRequest {
    /// What `ringfence serve` printed at its first start.
    token: String,
}

/// The user of the first start.
pub(crate) const FIRST_USER: &str = "admin";

/// Exchange the one-time token of the first start for an admin's key.
#[utoipa::path(
    post, path = "/login", tag = "people", request_body = LoginRequest, security(()),
    responses((status = 201, body = NewKeyAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn login(
    State(app): State<Shared>,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<LoginRequest>,
) -> Answer<(StatusCode, Json<NewKeyAnswer>)> {
    app.rates.try_key(&app.config, &key_hash(&request.token))?;
    // It is for a server that nobody can use yet. Once somebody can, who finds it in a log or a history has nothing.
    if !app.store.users().await?.is_empty() {
        app.first_token.end();
    }
    if !app.first_token.redeem(&request.token) {
        return Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "wrong_token",
            "the token is not valid",
            "it is good once, and while there is no user yet; make a key with `ringfence key create --user NAME --role admin`",
        ));
    }
    if app.store.user(FIRST_USER).await?.is_none() {
        app.store.add_user(FIRST_USER, Role::Admin).await?;
    }
    let label = Some("first start".into());
    let answer = make_key(&app, NewKey { label, ..new_key_of(FIRST_USER.into(), Role::Admin) }, None).await?;
    let caller = Caller::without_key(FIRST_USER, Role::Admin);
    app.record(entry(&caller, &request_id, "login", None, json!({ "key": answer.about.id }))).await?;
    Ok((StatusCode::CREATED, Json(answer)))
}
