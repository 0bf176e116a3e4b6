//! The gate that every request passes before it does something: allowed by a rule, by a person, or not.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ringfence_policy::{ActionFacts, Judgement, Level, Ruling, Verdict, judge};
use ringfence_store::{
    ActionRow, ActionState, AuditEntry, Decision, Level as StoredLevel, NewAction, Outcome, RuleDecision,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::intent::Intent;
use crate::app::Shared;
use crate::auth::Caller;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError};
use crate::http::ActionAnswer;

/// What a request says about its approval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim {
    /// The action that was approved for exactly this request.
    pub(crate) action: Option<String>,
    /// How long to wait for a decision before the answer is 202.
    pub(crate) wait_ms: Option<u64>,
}

/// A request is not held open longer than this; its client asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) enum Gated {
    Clear(Clearance),
    /// Somebody has to decide first.
    Waiting(Box<ActionRow>),
}

impl Gated {
    /// The answer of a route whose action waits.
    pub(crate) fn accepted(row: ActionRow) -> Response {
        let place = HeaderValue::from_str(&format!("/v1/actions/{}", row.id));
        let mut response = (StatusCode::ACCEPTED, axum::Json(ActionAnswer::from(row))).into_response();
        if let Ok(place) = place {
            response.headers_mut().insert(header::LOCATION, place);
        }
        response
    }
}

/// It may be done, and has not begun.
#[derive(Debug)]
#[must_use = "an approval that is not begun is not used"]
pub(crate) struct Clearance {
    level: Level,
    by: String,
    /// With the digest of what is about to be done.
    action: Option<(String, String)>,
}

impl Clearance {
    /// Just before it is done. An approval is used up here: of two that try, one begins.
    pub(crate) async fn begin(self, app: &Shared) -> Answer<Pass> {
        let Self { level, by, action } = self;
        let action = match action {
            Some((id, digest)) => {
                app.store.start_action(&id, &digest).await?;
                app.actions.tell();
                Some(id)
            }
            None => None,
        };
        Ok(Pass { app: app.clone(), level, by, action })
    }
}

/// It is being done. What comes of it is told by `finish`; an action that is dropped before has failed.
#[derive(Debug)]
pub(crate) struct Pass {
    app: Shared,
    level: Level,
    by: String,
    action: Option<String>,
}

impl Pass {
    /// What the audit says of it beside the rest.
    pub(crate) fn add_to(&self, result: &mut Value) {
        result["level"] = self.level.as_str().into();
        result["allowed_by"] = self.by.clone().into();
        if let Some(action) = &self.action {
            result["action"] = action.clone().into();
        }
    }

    pub(crate) async fn finish(mut self, outcome: Outcome, result: Value) -> Answer<()> {
        if let Some(id) = self.action.take() {
            self.app.store.finish_action(&id, outcome, result).await?;
            self.app.actions.tell();
        }
        Ok(())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(id) = self.action.take() else { return };
        let app = self.app.clone();
        // Without a runtime the server is ending; the next one finds it running and says that it failed.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let result = json!({ "error": "it was broken off" });
                if let Err(error) = app.store.finish_action(&id, Outcome::Failed, result).await {
                    tracing::warn!(%error, "an action that was broken off is not finished");
                }
                app.actions.tell();
            });
        }
    }
}

/// May this be done? By a rule, by an approval that is remembered, by the one that is claimed; or it waits.
pub(crate) async fn gate(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    intent: Intent,
) -> Answer<Gated> {
    let (judged, ruling) = ruled(app, caller, request_id, &intent).await?;
    let wait = Duration::from_millis(intent.claim.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
    // Before anything is written down: whoever waits holds a connection.
    let asked = intent.claim.action.is_some() || ruling.verdict == Verdict::Ask;
    let held = (asked && !wait.is_zero()).then(|| app.hold(caller)).transpose()?;
    let row = match (&intent.claim.action, ruling.verdict) {
        (Some(id), _) => claimed(app, caller, id, &intent, &judged).await?,
        (None, Verdict::Ask) => match remembered(app, caller, &intent, judged.level).await? {
            Some(by) => return Ok(Gated::Clear(Clearance { level: judged.level, by, action: None })),
            None => add(app, caller, request_id, &intent, &judged, None).await?,
        },
        (None, _) => {
            let by = format!("rule {:?}", ruling.rule);
            return Ok(Gated::Clear(Clearance { level: judged.level, by, action: None }));
        }
    };
    let row = app.actions.decided(&app.store, row, wait).await?;
    if held.is_some() {
        app.check_standing(caller).await?;
    }
    drop(held);
    match row.state {
        ActionState::Waiting => Ok(Gated::Waiting(Box::new(row))),
        ActionState::Denied => Err(denied_by_a_person(&row)),
        // Any other state is told by the step that can't be taken.
        _ => {
            let by = row.decided_by.unwrap_or_default();
            Ok(Gated::Clear(Clearance { level: judged.level, by, action: Some((row.id, intent.digest)) }))
        }
    }
}

/// Through the gate and begun, or the answer that it waits.
pub(crate) async fn pass(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    intent: Intent,
) -> Answer<Result<Pass, Response>> {
    match gate(app, caller, request_id, intent).await? {
        Gated::Clear(clearance) => Ok(Ok(clearance.begin(app).await?)),
        Gated::Waiting(row) => Ok(Err(Gated::accepted(*row))),
    }
}

/// Through the gate without a person, for what can't be shown to one before it is done: where a rule asks, it is refused.
pub(crate) async fn pass_at_once(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    intent: Intent,
    instead: &str,
) -> Answer<Pass> {
    let (judged, ruling) = ruled(app, caller, request_id, &intent).await?;
    if ruling.verdict == Verdict::Ask {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "needs_approval",
            format!(
                "the rule {:?} asks a person about this {} action, and nobody can look at it before it is done",
                ruling.rule, judged.level
            ),
            instead,
        ));
    }
    let by = format!("rule {:?}", ruling.rule);
    Clearance { level: judged.level, by, action: None }.begin(app).await
}

/// Write an action down without doing it: it waits, or a rule has decided already.
pub(crate) async fn submit(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    intent: Intent,
) -> Answer<ActionRow> {
    let (judged, ruling) = ruled(app, caller, request_id, &intent).await?;
    let by = match ruling.verdict {
        Verdict::Ask => remembered(app, caller, &intent, judged.level).await?,
        _ => Some(format!("rule {:?}", ruling.rule)),
    };
    let decided = by.map(|by| RuleDecision { decision: Decision::Approve, by, why: None, scope: None });
    add(app, caller, request_id, &intent, &judged, decided).await
}

/// The level and what the rules say. A denial is written down here, and is the error.
async fn ruled(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    intent: &Intent,
) -> Answer<(Judgement, Ruling)> {
    let judged = judge(intent.kind, &intent.asks);
    let facts = ActionFacts {
        kind: intent.kind,
        brings: intent.asks.brings(),
        level: judged.level,
        user: &caller.user,
        role: caller.role.as_str(),
        profile: intent.asks.profile,
        hosts: &intent.asks.hosts,
        more_hosts: intent.asks.any_host || !intent.asks.private.is_empty(),
        command: &intent.command,
        target: intent.target.as_deref(),
    };
    let rules = &app.config.actions.rules;
    let members =
        intent.members.iter().map(|path| rules.decide(&ActionFacts { target: Some(path), ..facts }));
    let typed = intent.typed.iter().map(|command| rules.decide(&ActionFacts { command, ..facts }));
    // The strictest holds for all.
    let ruling = members.chain(typed).fold(rules.decide(&facts), |strictest, one| {
        if one.verdict > strictest.verdict { one } else { strictest }
    });
    if ruling.verdict != Verdict::Deny {
        return Ok((judged, ruling));
    }
    let mut entry = entry(caller, request_id, intent, &judged);
    entry.decision = Some("deny".into());
    entry.result["rule"] = ruling.rule.clone().into();
    app.record_without(entry, &intent.secrets).await?;
    let mut error = ApiError::new(
        StatusCode::FORBIDDEN,
        "denied_by_rule",
        format!(
            "the rule {:?} denies this {} action: {}",
            ruling.rule,
            judged.level,
            judged.reasons.join("; ")
        ),
        "ask for less, or ask an admin to change the rules",
    );
    error.recorded = true;
    Err(error)
}

fn denied_by_a_person(row: &ActionRow) -> ApiError {
    let by = row.decided_by.as_deref().unwrap_or("somebody");
    let why = row.decided_why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    ApiError::new(
        StatusCode::FORBIDDEN,
        "denied",
        format!("{by} denied the action {}{why}", row.id),
        "ask them, or ask for less",
    )
}

/// Who approved exactly this before, for longer than once.
async fn remembered(app: &Shared, caller: &Caller, intent: &Intent, level: Level) -> Answer<Option<String>> {
    let found = app
        .store
        .decisions()
        .find(&caller.user, intent.kind.as_str(), &intent.digest, intent.sandbox.as_deref())
        .await?;
    // What one approved for oneself while it was less does not hold now.
    let theirs = |by: &str| by == caller.user && stored(level).needs_another_person();
    Ok(found.filter(|one| !theirs(&one.by)).map(|one| format!("{} ({}, {})", one.by, one.scope, one.id)))
}

/// The action of this caller that was submitted for exactly this.
async fn claimed(
    app: &Shared,
    caller: &Caller,
    id: &str,
    intent: &Intent,
    judged: &Judgement,
) -> Answer<ActionRow> {
    let row = app.store.action(id).await?.filter(|row| row.user == caller.user);
    let row = row.ok_or_else(|| ApiError::not_found("action", id))?;
    let changed = |what: &str| {
        Err(ApiError::new(
            StatusCode::CONFLICT,
            "changed",
            format!("{what} is not what the action {id} was submitted with"),
            "send exactly what was submitted, or submit this and have it approved",
        ))
    };
    if row.kind != intent.kind.as_str() || row.digest != intent.digest {
        return changed("what is about to run (command, policy, files, stdin, sandbox)");
    }
    if stored(judged.level) > row.level {
        return changed("its level");
    }
    Ok(row)
}

/// The same word on both sides.
pub(crate) fn stored(level: Level) -> StoredLevel {
    match level {
        Level::Low => StoredLevel::Low,
        Level::Medium => StoredLevel::Medium,
        Level::High => StoredLevel::High,
        Level::Critical => StoredLevel::Critical,
    }
}

async fn add(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    intent: &Intent,
    judged: &Judgement,
    decided: Option<RuleDecision>,
) -> Answer<ActionRow> {
    intent.check_size()?;
    let rules = &app.config.actions;
    if decided.is_none() && app.store.waiting_actions(Some(&caller.user)).await? >= rules.waiting {
        return Err(ApiError::too_many(
            format!("{} actions of yours wait for a decision, and that is as many as may", rules.waiting),
            "wait for a decision, or cancel one",
            30,
        ));
    }
    let new = NewAction {
        id: Uuid::now_v7().simple().to_string(),
        user: caller.user.clone(),
        kind: intent.kind.as_str().into(),
        level: stored(judged.level),
        summary: intent.summary(),
        request: json!({ "shown": intent.shown, "sandbox": intent.sandbox, "target": intent.target }),
        digest: intent.digest.clone(),
        reasons: judged.reasons.clone(),
        expires: crate::now().saturating_add(rules.expires),
        decided,
    };
    let bytes = new.request.to_string().len() as u64;
    let row = app.store.add_action(new).await?;
    app.action_kept(&row.user, bytes).await?;
    let mut entry = entry(caller, request_id, intent, judged);
    entry.kind = "action.submit".into();
    entry.target = Some(row.id.clone());
    entry.decision = Some(if row.state == ActionState::Waiting { "ask" } else { "allow" }.into());
    app.record_without(entry, &intent.secrets).await?;
    app.actions.tell();
    Ok(row)
}

fn entry(caller: &Caller, request_id: &RequestId, intent: &Intent, judged: &Judgement) -> AuditEntry {
    let result = json!({
        "kind": intent.kind,
        "level": judged.level,
        "reasons": judged.reasons,
        "summary": intent.summary(),
        "digest": intent.digest,
    });
    crate::http::entry(caller, request_id, intent.kind.as_str(), intent.target.clone(), result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_same_words_in_the_same_order_on_both_sides() {
        assert_eq!(Level::ALL.len(), StoredLevel::ALL.len());
        for (one, other) in Level::ALL.into_iter().zip(StoredLevel::ALL) {
            assert_eq!((one.as_str(), stored(one)), (other.as_str(), *other));
        }
    }
}
