//! What a person does to an action: approve, deny, cancel; and withdraw an approval that is remembered. Over the database
//! alone, so that the command line can do it on the machine itself.

use ringfence_policy::masked_text;
use ringfence_store::{
    ActionRow, AuditEntry, Clock, Decision, Level, Maker, NewRemembered, Scope, Store, StoreError,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// Who decides, and from where.
#[derive(Clone, Debug)]
pub struct Decider {
    pub name: String,
    /// The key that they came with.
    pub key: Option<String>,
    /// `http` or `cli`.
    pub origin: &'static str,
    pub request_id: Option<String>,
}

const HOUR: i64 = 60 * 60 * 1000;

/// Approve or deny what waits. An approval for longer than once holds for exactly the same order by the same user, and in the
/// same sandbox where it was for one.
pub async fn decide_action(
    store: &Store,
    by: &Decider,
    id: &str,
    decision: Decision,
    remember: Scope,
    why: Option<&str>,
) -> Result<ActionRow, StoreError> {
    let missing = || StoreError::NotFound { what: "action", name: id.to_owned() };
    let before = store.action(id).await?.ok_or_else(missing)?;
    let sandbox = before.request["sandbox"].as_str().map(str::to_owned);
    if decision == Decision::Approve {
        check_scope(&before, remember, sandbox.as_deref())?;
    }
    let who = Maker { user: by.name.clone(), key: by.key.clone() };
    if before.level.needs_another_person() && store.is_made_by(&who, &before.user).await? {
        let (id, user, level) = (before.id, before.user, before.level);
        return Err(StoreError::MadeBySubmitter { id, user, by: by.name.clone(), level });
    }
    let why = why.map(|why| masked_text(why, &[]));
    let row = store.decide_action(id, &by.name, decision, why.as_deref(), Some(remember)).await?;
    let mut remembered = None;
    if decision == Decision::Approve && remember != Scope::Once {
        let new = NewRemembered {
            id: Uuid::now_v7().simple().to_string(),
            user: row.user.clone(),
            kind: row.kind.clone(),
            shape: row.digest.clone(),
            scope: remember,
            session: sandbox,
            until: (remember == Scope::Hour).then(|| Clock::system().now() + HOUR),
            by: by.name.clone(),
        };
        remembered = Some(store.decisions().remember(new).await?.id);
    }
    let (kind, word) = match decision {
        Decision::Approve => ("action.approve", "allow"),
        Decision::Deny => ("action.deny", "deny"),
    };
    let result = json!({
        "kind": row.kind, "level": row.level, "user": row.user, "digest": row.digest, "summary": row.summary,
        "remember": row.scope, "remembered": remembered, "why": row.decided_why,
    });
    record(store, by, kind, id, Some(word), result).await?;
    Ok(row)
}

fn check_scope(row: &ActionRow, scope: Scope, sandbox: Option<&str>) -> Result<(), StoreError> {
    let refused = |why: &str, next| {
        Err(StoreError::Conflict {
            what: "action",
            name: row.id.clone(),
            wanted: "remembered",
            why: why.to_owned(),
            next,
        })
    };
    match scope {
        Scope::Session if sandbox.is_none() => {
            refused("it is not in a sandbox that stays", "approve it once, for an hour or always")
        }
        Scope::Once => Ok(()),
        _ if row.level == Level::Critical => {
            refused("a critical action is approved each time anew", "approve it once")
        }
        _ => Ok(()),
    }
}

/// What waits, or was approved and has not begun.
pub async fn cancel_action(store: &Store, by: &Decider, id: &str) -> Result<ActionRow, StoreError> {
    let row = store.cancel_action(id, &by.name).await?;
    let result = json!({ "kind": row.kind, "level": row.level, "user": row.user, "summary": row.summary });
    record(store, by, "action.cancel", id, None, result).await?;
    Ok(row)
}

/// An approval that was remembered holds no longer.
pub async fn forget_decision(store: &Store, by: &Decider, id: &str) -> Result<(), StoreError> {
    store.decisions().forget(id).await?;
    record(store, by, "decision.forget", id, None, Value::Null).await
}

async fn record(
    store: &Store,
    by: &Decider,
    kind: &str,
    target: &str,
    decision: Option<&str>,
    result: Value,
) -> Result<(), StoreError> {
    let entry = AuditEntry {
        at: Clock::system().now(),
        user: by.name.clone(),
        kind: kind.into(),
        target: Some(target.into()),
        decision: decision.map(str::to_owned),
        policy_digest: None,
        receipt_digest: None,
        denials: Value::Array(Vec::new()),
        result,
        request_id: by.request_id.clone(),
        origin: Some(by.origin.into()),
    };
    store.audit().append(vec![entry]).await.map(|_| ())
}
