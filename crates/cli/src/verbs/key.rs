//! `ringfence key`: keys of the server, made by whoever can write its database.

use ringfence_server::{is_user_name, new_key};
use ringfence_store::{AuditEntry, Key, NewKey, Role, Store, StoreError};
use serde_json::{Value, json};

use crate::args::{KeyArgs, KeyVerb};
use crate::failure::Failure;
use crate::output;
use crate::verbs::store::{database, with_store};

pub(crate) fn key(args: KeyArgs) -> Result<i32, Failure> {
    match args.verb {
        KeyVerb::Create { user, role, expires, label, json } => {
            if !is_user_name(&user) {
                return Err(Failure::new(
                    format!("`{}` is no name for a user", user.escape_debug()),
                    "use up to 64 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit",
                ));
            }
            let expires = expires.map(|span| now().saturating_add(span.duration().as_millis() as i64));
            let (secret, about) = with_store(|store| create(store, user, role, label, expires))?;
            if json {
                let mut object = json!(about);
                object["key"] = secret.into();
                output::json(&object);
            } else {
                output::line(secret);
                output::note(&format!("this key of {} ({}) is not shown again", about.user, about.role));
            }
        }
        KeyVerb::Ls { user, json } => {
            let keys = with_store(async |store| store.keys(user.as_deref()).await)?;
            list(&keys, json);
        }
        KeyVerb::Rm { id } => with_store(async |store| {
            store.revoke_key(&id).await?;
            record(&store, "key.revoke", &id, Value::Null).await
        })?,
    }
    Ok(0)
}

/// Milliseconds since 1970.
fn now() -> i64 {
    ringfence_store::Clock::system().now()
}

async fn create(
    store: Store,
    user: String,
    role: Role,
    label: Option<String>,
    expires: Option<i64>,
) -> Result<(String, Key), StoreError> {
    if store.user(&user).await?.is_none() {
        store.add_user(&user, role).await?;
    }
    let (secret, secret_hash) = new_key().map_err(|source| StoreError::File {
        what: "no random numbers for the database",
        path: database().unwrap_or_default(),
        source,
    })?;
    // Tells nothing of the secret.
    let id = secret_hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let about = store.add_key(NewKey { id, user, role, label, expires, secret_hash, maker: None }).await?;
    let result = json!({ "key": about.id, "role": about.role, "expires": about.expires });
    record(&store, "key.create", &about.user, result).await?;
    Ok((secret, about))
}

/// Whoever can write the database is known by their uid alone.
pub(super) async fn record(store: &Store, kind: &str, target: &str, result: Value) -> Result<(), StoreError> {
    let entry = AuditEntry {
        at: now(),
        user: format!("uid {}", rustix::process::getuid().as_raw()),
        kind: kind.into(),
        target: Some(target.into()),
        decision: Some("allow".into()),
        policy_digest: None,
        receipt_digest: None,
        denials: Value::Array(Vec::new()),
        result,
        request_id: None,
        origin: Some("cli".into()),
    };
    store.audit().append(vec![entry]).await.map(|_| ())
}

fn list(keys: &[Key], json: bool) {
    if json {
        output::json(&keys);
        return;
    }
    let time = |at: Option<i64>| at.map_or(String::new(), output::moment);
    let rows = keys.iter().map(|key| {
        let state = if key.revoked.is_some() { "revoked" } else { "" };
        [
            key.id.clone(),
            key.user.clone(),
            key.role.to_string(),
            key.label.clone().unwrap_or_default(),
            time(Some(key.created)),
            time(key.expires),
            time(key.last_used),
            state.to_owned(),
        ]
    });
    output::table(["key", "user", "role", "label", "created", "expires", "last used", ""], rows);
}
