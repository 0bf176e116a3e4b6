//! One client: the session that its calls work in, made before the first one asks for it, and what was too long to tell.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::host::{Command, Host, SessionWish, Sink};
use super::outputs::Outputs;
use crate::error::Answer;

#[derive(Debug, Default)]
pub(super) struct Connection {
    /// What calls work in that name no session.
    session: tokio::sync::Mutex<OwnSession>,
    /// What ends with the connection, and whose it is.
    made: Mutex<Vec<(Host, String)>>,
    pub(super) outputs: Outputs,
}

#[derive(Debug, Default)]
struct OwnSession {
    name: Option<String>,
    /// The action of making it, which waits for a person.
    asked: Option<String>,
    /// The one that it was made by.
    made_by: Option<String>,
}

impl Connection {
    /// Make the session that the first call will want, without letting anybody wait. If it can't be made, that call says so.
    /// A person is not asked before somebody wants it.
    pub(super) fn make_ahead(self: &Arc<Self>, host: &Host) {
        let (connection, host) = (Arc::clone(self), host.clone());
        tokio::spawn(async move {
            let mut session = connection.session.lock().await;
            // What a call has asked a person for is that call's.
            if session.name.is_some() || session.asked.is_some() {
                return;
            }
            if connection.made(&mut session, &host).await.is_err()
                && let Some(asked) = session.asked.take()
            {
                let _ = host.cancel_action(&asked).await;
            }
        });
    }

    /// The name of the connection's own session, made if there is none.
    async fn session(&self, host: &Host) -> Answer<String> {
        self.made(&mut *self.session.lock().await, host).await
    }

    async fn made(&self, session: &mut OwnSession, host: &Host) -> Answer<String> {
        if let Some(name) = &session.name {
            return Ok(name.clone());
        }
        let action = session.asked.take();
        match host.create(SessionWish { action: action.clone(), ..SessionWish::default() }).await {
            Ok((name, _)) => {
                self.remember(host, &name);
                (session.name, session.made_by) = (Some(name.clone()), action);
                Ok(name)
            }
            Err(error) => {
                session.asked = error.waits_for.as_ref().and_then(|action| text(&action["id"]));
                Err(error)
            }
        }
    }

    /// The approval that a call brings for itself: one for making the session was not for the call.
    pub(super) async fn claim(&self, action: Option<String>) -> Option<String> {
        let session = self.session.lock().await;
        action.filter(|action| ![&session.asked, &session.made_by].contains(&&Some(action.clone())))
    }

    /// The one that is named, else the connection's own, which lives.
    pub(super) async fn living(&self, host: &Host, named: Option<&str>) -> Answer<String> {
        if let Some(named) = named {
            return Ok(named.to_owned());
        }
        let name = self.session(host).await?;
        if host.sandbox(&name).await.is_ok() {
            return Ok(name);
        }
        self.lost(&name).await;
        self.session(host).await
    }

    /// A session that ends with the connection.
    pub(super) fn remember(&self, host: &Host, name: &str) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push((host.clone(), name.to_owned()));
    }

    pub(super) async fn forget(&self, name: &str) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, made)| made != name);
        self.lost(name).await;
    }

    async fn lost(&self, name: &str) {
        let mut session = self.session.lock().await;
        if session.name.as_deref() == Some(name) {
            session.name = None;
        }
    }

    /// Run a command in the session that is named, or in the connection's own, which is made again if it has ended.
    pub(super) async fn exec(
        &self,
        host: &Host,
        named: Option<&str>,
        mut command: Command,
        sink: Sink,
    ) -> Answer<(String, Value)> {
        let name = self.living(host, named).await?;
        command.action = self.claim(command.action).await;
        let facts = host.exec(&name, command, sink).await?;
        Ok((name, facts))
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

impl Drop for Connection {
    /// Of a server's client that went away; for stdio the process ends all that it leased itself.
    fn drop(&mut self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for (host, name) in made {
            if let Host::Served(_) = host {
                runtime.spawn(async move { host.close(&name).await });
            }
        }
    }
}
