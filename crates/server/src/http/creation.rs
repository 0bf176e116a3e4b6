//! Making a sandbox that stays: from what is asked for to one that is alive, or nothing. What was begun is finished or taken
//! back, also when the client goes away meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::{ActionKind, ProfileName};
use ringfence_service::open_session;
use ringfence_service::workers::{CreateOrder, Order, Report, SandboxOrder};
use ringfence_store::{ActionRow, AuditEntry, Enforced, NewSandbox, Outcome, Quotas, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::Instrument;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::actions::ActionAnswer;
use super::bounds::Millis;
use super::run::digest;
use super::sandboxes::SandboxAnswer;
use super::wanted::{SandboxWanted, check_variables, directory};
use crate::actions::{Claim, Gated, Intent, Pass, gate};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::Body;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::launch::Worker;
use crate::metrics::Start;
use crate::refusals::record_refusal;
use crate::usage::claim_of;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create))
}

/// A sandbox that stays.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CreateRequest {
    /// For people; one living sandbox of yours has it at a time.
    name: Option<String>,
    /// It ends after so long.
    #[schema(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
    /// It ends when nothing was done in it for so long.
    #[schema(value_type = Option<u64>, minimum = 1)]
    idle_ms: Option<Millis>,
    /// The workspace is copy-on-write: see `diff` and `commit`.
    overlay: bool,
    /// Where its commands start.
    cwd: Option<String>,
    /// Variables of all its commands.
    env: BTreeMap<String, String>,
    /// Yours to give and to find it by.
    #[schema(value_type = Object)]
    labels: BTreeMap<String, String>,
    /// native, claude-code, codex or gemini: begin from the defaults of that client's own sandbox, as far as your role may have
    /// them. What is here besides holds over it.
    compat: Option<String>,
    profile: Option<String>,
    /// Show the system directories of this image in place of the host's: the one of your role's ceiling.
    image: Option<String>,
    #[schema(value_type = Option<Object>)]
    policy: Option<ringfence_policy::Layer>,
    network: Option<super::wanted::NetworkWanted>,
    workspace: Option<String>,
    files: Vec<super::wanted::FileWanted>,
    skills: bool,
    secrets: Vec<super::wanted::SecretWanted>,
    trace: bool,
    strict: bool,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

impl CreateRequest {
    /// The same for a fork: what it begins with is copied, and the copy is its own.
    pub(super) fn forked(self, ttl_ms: Option<Millis>, idle_ms: Option<Millis>, claim: Claim) -> Self {
        Self {
            name: None,
            overlay: true,
            workspace: Some("private".into()),
            files: Vec::new(),
            ttl_ms: ttl_ms.or(self.ttl_ms),
            idle_ms: idle_ms.or(self.idle_ms),
            action: claim.action,
            wait_ms: claim.wait_ms,
            ..self
        }
    }
}

/// Make a sandbox.
#[utoipa::path(
    post, path = "/sandboxes", tag = "sandboxes", request_body = CreateRequest,
    responses(
        (status = 201, description = "It is alive", body = SandboxAnswer),
        (status = 202, description = "Nothing was made: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", description = "Nothing was made", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<CreateRequest>,
) -> Answer<Response> {
    match begin(&app, &caller, &request_id, request, None).await {
        Ok(Begun::Making { orders, policy_digest, pass }) => {
            let [order] = <[CreateOrder; 1]>::try_from(orders)
                .map_err(|orders| ApiError::internal("make one sandbox", orders.len()))?;
            // Goes on if the client goes away meanwhile: what was begun is finished or taken back.
            let making = make(app, caller, request_id, order, policy_digest, pass).in_current_span();
            let making = tokio::spawn(making);
            let answer = making.await.map_err(|error| ApiError::internal("make a sandbox", error))??;
            Ok((StatusCode::CREATED, Json(answer)).into_response())
        }
        Ok(Begun::Waiting(row)) => Ok(Gated::accepted(*row)),
        Err(error) => Err(record_refusal(&app, &caller, &request_id, "sandbox.create", error).await?),
    }
}

/// What becomes of a request at once.
pub(super) enum Begun {
    /// Each is written down as being made.
    Making { orders: Vec<CreateOrder>, policy_digest: String, pass: Pass },
    /// A person has to decide first.
    Waiting(Box<ActionRow>),
}

/// Where forks come from, and how many are made.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ForkOf<'a> {
    pub(super) from: &'a str,
    pub(super) count: u32,
}

/// A request that was checked, and is within the caller's ceiling.
struct Resolved {
    sandbox: SandboxOrder,
    name: Option<String>,
    profile: Option<String>,
    labels: BTreeMap<String, String>,
    ttl: Option<Duration>,
    idle: Option<Duration>,
    overlay: bool,
    /// What a fork will be asked for with.
    kept: String,
    claim: Claim,
}

impl CreateRequest {
    /// What this would do, for whoever submits it as an action.
    pub(crate) fn intent(self, app: &Shared, caller: &Caller) -> Answer<Intent> {
        self.resolved(app, caller)?.intent(app, caller, None)
    }

    fn resolved(self, app: &Shared, caller: &Caller) -> Answer<Resolved> {
        caller.needs(Role::Operator)?;
        check_variables(&self.env)?;
        let kept = Self { files: Vec::new(), action: None, wait_ms: None, ..self.clone() };
        let kept =
            serde_json::to_string(&kept).map_err(|error| ApiError::internal("keep a request", error))?;
        let mut policy = self.policy.unwrap_or_default();
        policy.environment.set.extend(self.env);
        let wanted = SandboxWanted {
            compat: self.compat,
            profile: self.profile,
            image: self.image,
            policy: Some(policy),
            network: self.network,
            workspace: self.workspace,
            files: self.files,
            skills: self.skills,
            secrets: self.secrets,
            trace: self.trace,
            strict: self.strict,
        };
        let mut sandbox = wanted.order(app, caller, None)?;
        sandbox.directory = directory(self.cwd)?;
        let profile =
            sandbox.layers.first().and_then(|layer| layer.profile).map(|profile| profile.to_string());
        Ok(Resolved {
            sandbox,
            name: self.name,
            profile,
            labels: self.labels,
            ttl: self.ttl_ms.map(Millis::span),
            idle: self.idle_ms.map(Millis::span),
            overlay: self.overlay,
            kept,
            claim: Claim { action: self.action, wait_ms: self.wait_ms },
        })
    }
}

impl Resolved {
    fn intent(&self, app: &Shared, caller: &Caller, fork: Option<ForkOf<'_>>) -> Answer<Intent> {
        let more = json!({
            "name": self.name,
            "labels": self.labels,
            "ttl_ms": self.ttl.map(|time| time.as_millis() as u64),
            "idle_ms": self.idle.map(|time| time.as_millis() as u64),
            "overlay": self.overlay,
            "fork": fork,
        });
        let intent =
            Intent::of_order(ActionKind::SandboxCreate, &self.sandbox, b"", more, self.claim.clone())?;
        Ok(intent.asked_by(app, caller, &caller.user))
    }

    /// One that is being made, in the store; and what to make. Nobody is refused for the sake of sandboxes that have ended.
    async fn write_down(&self, app: &Shared, caller: &Caller) -> Answer<CreateOrder> {
        match self.try_to_write_down(app, caller).await {
            Err(error) if error.code == "quota" && app.reconcile().await? > 0 => {
                self.try_to_write_down(app, caller).await
            }
            written => written,
        }
    }

    async fn try_to_write_down(&self, app: &Shared, caller: &Caller) -> Answer<CreateOrder> {
        let id = Uuid::now_v7().simple().to_string();
        let quotas = Quotas {
            of_user: app.config.role(caller.role).quotas.sandboxes,
            in_all: app.config.server.sandboxes,
        };
        let new = NewSandbox {
            id: id.clone(),
            user: caller.user.clone(),
            name: self.name.clone(),
            profile: self.profile.clone().unwrap_or_else(|| ProfileName::default().to_string()),
            workspace: self.sandbox.workspace.clone(),
            labels: json!(self.labels),
            request: Some(self.kept.clone()),
            claim: claim_of(&self.sandbox.layers)?,
        };
        // Looked at and written down before anybody else looks.
        let claimed = app.claim(caller, &self.sandbox.layers).await?;
        app.store.add_sandbox(new, quotas).await?;
        drop(claimed);
        Ok(CreateOrder {
            sandbox: self.sandbox.clone(),
            name: id,
            ttl: self.ttl,
            idle: self.idle,
            overlay: self.overlay,
            asked: vec!["server".into(), caller.user.clone()],
        })
    }
}

/// Check what is asked for, and write it down as being made; of forks all, or none.
pub(super) async fn begin(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    request: CreateRequest,
    fork: Option<ForkOf<'_>>,
) -> Answer<Begun> {
    let mut resolved = request.resolved(app, caller)?;
    let clearance = match gate(app, caller, request_id, resolved.intent(app, caller, fork)?).await? {
        Gated::Clear(clearance) => clearance,
        Gated::Waiting(row) => return Ok(Begun::Waiting(row)),
    };
    let most = app.may_write(&caller.user).await?;
    resolved.sandbox.disk = resolved.sandbox.disk.map(|own| own.min(most));
    let policy_digest = digest(&resolved.sandbox.layers)?;
    let mut orders = Vec::new();
    let begun = async {
        for _ in 0..fork.map_or(1, |fork| fork.count) {
            orders.push(resolved.write_down(app, caller).await?);
        }
        // Only once there is room for it: an approval is used up here.
        clearance.begin(app).await
    };
    match begun.await {
        Ok(pass) => Ok(Begun::Making { orders, policy_digest, pass }),
        Err(error) => {
            for order in &orders {
                take_back(app, &order.name).await?;
            }
            Err(error)
        }
    }
}

/// One that was written down as being made, and was not.
pub(super) async fn take_back(app: &Shared, id: &str) -> Answer<()> {
    app.store.sandbox_ended(id, "not made").await?;
    app.store.forget_sandbox(id).await?;
    Ok(())
}

/// Of one that was just made: under which policy, and what was enforced.
pub(super) async fn enforced(app: &Shared, id: &str, policy_digest: String) -> Enforced {
    let (places, name) = (app.places.clone(), id.to_owned());
    let receipt = blocking(move || digest(&open_session(&places, &name)?.facts()?.receipt)).await;
    // One that has ended already has left none.
    Enforced { policy_digest: Some(policy_digest), receipt_digest: receipt.ok() }
}

async fn make(
    app: Shared,
    caller: Caller,
    request_id: RequestId,
    order: CreateOrder,
    policy_digest: String,
    pass: Pass,
) -> Answer<SandboxAnswer> {
    let (id, begun) = (order.name.clone(), Instant::now());
    let order = Order::Create(Box::new(order));
    let made = async {
        match Worker::silent(&app.launcher, &order).await?.report().await? {
            Report::Created(report) => Ok(report),
            _ => Err(ApiError::internal("understand a worker", "it reported on something else")),
        }
    };
    let made = made.await;
    let enforced = match &made {
        Ok(_) => enforced(&app, &id, policy_digest.clone()).await,
        Err(_) => Enforced::default(),
    };
    let receipt_digest = enforced.receipt_digest.clone();
    let entry = |mut result: Value| {
        pass.add_to(&mut result);
        AuditEntry {
            at: crate::now(),
            user: caller.user.clone(),
            kind: "sandbox.create".into(),
            target: Some(id.clone()),
            decision: Some("allow".into()),
            policy_digest: Some(policy_digest.clone()),
            receipt_digest: receipt_digest.clone(),
            denials: Value::Array(Vec::new()),
            result,
            request_id: Some(request_id.0.clone()),
            origin: Some("http".into()),
        }
    };
    match made {
        Ok(report) => {
            app.store.sandbox_is_alive(&id, &enforced).await?;
            app.record(entry(json!({ "state": "alive" }))).await?;
            pass.finish(Outcome::Done, json!({ "sandbox": id })).await?;
            app.metrics.sandboxes.inc();
            app.metrics.started(Start::Session, Some(begun.elapsed()));
            let row = app.store.sandbox(&id).await?.ok_or_else(|| ApiError::not_found("sandbox", &id))?;
            Ok(SandboxAnswer::made(row, report))
        }
        Err(error) => {
            take_back(&app, &id).await?;
            app.record(entry(json!({ "error": error.code }))).await?;
            pass.finish(Outcome::Failed, json!({ "error": error.code })).await?;
            Err(error)
        }
    }
}
