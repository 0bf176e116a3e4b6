//! `ringfence actions`: what waits for a person, decided on the machine itself by whoever can write the server's database.

use std::time::Duration;

use ringfence_server::{Decider, cancel_action, decide_action, expire_actions, forget_decision};
use ringfence_store::{ActionEvent, ActionFilter, ActionRow, Decision, Remembered, Scope, Store, StoreError};
use serde_json::{Value, json};

use crate::args::{ActionsArgs, ActionsVerb};
use crate::failure::Failure;
use crate::output::{self, printable};
use crate::verbs::store::with_store;

/// How often the database is asked for news.
const POLL: Duration = Duration::from_millis(250);
const PAGE: u32 = 200;

pub(crate) fn actions(args: ActionsArgs) -> Result<i32, Failure> {
    match args.verb {
        ActionsVerb::Ls { state, user, limit, json } => {
            let rows = with_store(async |store| {
                expire_actions(&store).await?;
                store.actions(&ActionFilter { user, state, after: None, limit }).await
            })?;
            list(&rows, json);
        }
        ActionsVerb::Show { id, json } => {
            let row = with_store(async |store| {
                expire_actions(&store).await?;
                find(&store, &id).await
            })?;
            show(&row, json);
        }
        ActionsVerb::Approve { id, remember, reason, json } => {
            let row = decide(&id, Decision::Approve, remember, reason.as_deref())?;
            told(&row, "approved", json);
        }
        ActionsVerb::Deny { id, reason, json } => {
            let row = decide(&id, Decision::Deny, Scope::Once, reason.as_deref())?;
            told(&row, "denied", json);
        }
        ActionsVerb::Cancel { id, json } => {
            let by = decider();
            let row = with_store(async |store| cancel_action(&store, &by, &id).await)?;
            told(&row, "cancelled", json);
        }
        ActionsVerb::Remembered { json } => {
            let rows = with_store(async |store| {
                store.decisions().purge().await?;
                store.decisions().list(None).await
            })?;
            list_remembered(&rows, json);
        }
        ActionsVerb::Forget { id } => {
            let by = decider();
            with_store(async |store| forget_decision(&store, &by, &id).await)?;
        }
        ActionsVerb::Watch { from, json } => with_store(async |store| watch(&store, from, json).await)?,
    }
    Ok(0)
}

fn decide(id: &str, decision: Decision, remember: Scope, why: Option<&str>) -> Result<ActionRow, Failure> {
    let by = decider();
    with_store(async |store| {
        expire_actions(&store).await?;
        decide_action(&store, &by, id, decision, remember, why).await
    })
}

async fn find(store: &Store, id: &str) -> Result<ActionRow, StoreError> {
    let missing = || StoreError::NotFound { what: "action", name: id.to_owned() };
    store.action(id).await?.ok_or_else(missing)
}

/// The account of this machine, by its name: who has an account and a user of the same name is one person.
fn decider() -> Decider {
    let uid = rustix::process::getuid().as_raw();
    let text = std::fs::read("/etc/passwd").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    });
    Decider { name: name.unwrap_or_else(|| format!("uid {uid}")), key: None, origin: "cli", request_id: None }
}

/// Until it is interrupted.
async fn watch(store: &Store, from: Option<i64>, json: bool) -> Result<(), StoreError> {
    let mut after = match from {
        Some(from) => from,
        None => store.last_event().await?,
    };
    loop {
        for event in store.events_after(after, None, PAGE).await? {
            after = event.seq;
            let row = store.action(&event.action).await?;
            output::line(event_line(&event, row.as_ref(), json));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn event_line(event: &ActionEvent, row: Option<&ActionRow>, json: bool) -> String {
    let (level, summary) = row.map_or(("", ""), |row| (row.level.as_str(), row.summary.as_str()));
    if json {
        let event = json!({
            "seq": event.seq, "action": event.action, "user": event.user, "state": event.state, "by": event.by,
            "at": event.at, "level": level, "summary": printable(summary),
        });
        return output::escaped_json(&event.to_string());
    }
    let by = event.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    let line = format!(
        "{}  {}  {}{by}  {level}  {}  {summary}",
        output::moment(event.at),
        event.action,
        event.state,
        event.user
    );
    printable(&line)
}

fn told(row: &ActionRow, what: &str, json: bool) {
    if json {
        output::json(&object(row));
    } else {
        output::line(printable(&format!("{what}: {} ({}, {}'s)", row.summary, row.level, row.user)));
    }
}

/// As the server tells it.
fn object(row: &ActionRow) -> Value {
    let mut object = json!(row);
    object["sandbox"] = row.request["sandbox"].clone();
    object["request"] = row.request["shown"].clone();
    object["remember"] = json!(row.scope);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("scope");
    }
    object
}

fn list(rows: &[ActionRow], json: bool) {
    if json {
        output::json(&rows.iter().map(object).collect::<Vec<_>>());
        return;
    }
    let rows = rows.iter().map(|row| {
        [
            row.id.clone(),
            row.state.to_string(),
            row.level.to_string(),
            row.user.clone(),
            row.summary.clone(),
            output::moment(row.expires),
            row.decided_by.clone().unwrap_or_default(),
        ]
    });
    output::table(["action", "state", "level", "user", "what", "expires", "decided by"], rows);
}

fn show(row: &ActionRow, json: bool) {
    if json {
        output::json(&object(row));
        return;
    }
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut rows = vec![
        ["action".to_owned(), row.id.clone()],
        ["what".to_owned(), row.summary.clone()],
        ["user".to_owned(), row.user.clone()],
        ["level".to_owned(), row.level.to_string()],
        ["state".to_owned(), row.state.to_string()],
        ["created".to_owned(), output::moment(row.created)],
        ["expires".to_owned(), output::moment(row.expires)],
        ["decided by".to_owned(), optional(&row.decided_by)],
        ["why".to_owned(), optional(&row.decided_why)],
        ["digest".to_owned(), row.digest.clone()],
    ];
    rows.extend(row.reasons.iter().map(|reason| ["reason".to_owned(), reason.clone()]));
    output::table(["", ""], rows);
    output::pretty(&row.request["shown"]);
}

fn list_remembered(rows: &[Remembered], json: bool) {
    if json {
        output::json(&rows);
        return;
    }
    let rows = rows.iter().map(|row| {
        [
            row.id.clone(),
            row.user.clone(),
            row.kind.clone(),
            row.scope.to_string(),
            row.session.clone().unwrap_or_default(),
            row.until.map_or(String::new(), output::moment),
            row.by.clone(),
            row.shape.clone(),
        ]
    });
    output::table(["approval", "user", "kind", "for", "sandbox", "until", "by", "digest"], rows);
}
