//! A row of the audit that is owed for a command that runs: written when it ends, and also when nobody waits for that any more.
//! Whoever could leave no trace by hanging up would.

use ringfence_store::AuditEntry;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::error::Answer;

#[derive(Debug)]
pub(crate) struct Owed {
    app: Shared,
    /// None: it is written.
    entry: Option<AuditEntry>,
    /// Values that may not be in it.
    secrets: Vec<String>,
}

impl Owed {
    /// A command of this entry's begins; how it ends is not known yet.
    pub(crate) fn new(app: &Shared, entry: AuditEntry, secrets: Vec<String>) -> Self {
        app.metrics.running.inc();
        Self { app: app.clone(), entry: Some(entry), secrets }
    }

    /// It has ended; what is to be said of that is added to the entry.
    pub(crate) async fn settle(mut self, ended: impl FnOnce(&mut AuditEntry)) -> Answer<()> {
        self.app.metrics.running.dec();
        let Some(mut entry) = self.entry.take() else { return Ok(()) };
        entry.at = crate::now();
        ended(&mut entry);
        self.app.record_without(entry, &self.secrets).await
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        self.app.metrics.running.dec();
        entry.at = crate::now();
        merge(&mut entry.result, json!({ "error": "broken_off" }));
        let (app, secrets) = (self.app.clone(), std::mem::take(&mut self.secrets));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = app.record_without(entry, &secrets).await {
                    tracing::error!(why = error.message, "a command that was broken off is not in the audit");
                }
            });
        }
    }
}

/// Add these fields to an object.
pub(crate) fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}
