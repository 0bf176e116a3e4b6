//! Forks: new sessions that begin where another one, or a snapshot, is.

use std::ops::ControlFlow;

use ringfence_sandbox::{Sandbox, SessionFacts};

use super::snapshots::{save, store};
use super::{SessionCreate, SessionCreated, decided, sessions};
use crate::error::ServiceError;
use crate::places::Places;

/// The session that forks of `from`, a session or a snapshot, are to be like: none for a snapshot that this very session has
/// not taken, whatever it says of itself.
pub fn model_of(places: &Places, from: &str) -> Result<Option<SessionFacts>, ServiceError> {
    if let Ok(sandbox) = super::open_session(places, from) {
        return Ok(Some(sandbox.facts()?));
    }
    let store = store(places)?;
    let id = store.find(from)?;
    let session = super::open_session(places, &store.load(id)?.facts.session).ok();
    let own = session.filter(|sandbox| sandbox.place().has_taken(&id.to_string()));
    Ok(own.and_then(|sandbox| sandbox.facts().ok()))
}

/// Make a session for each of `wanted`, from a session that lives, or from a snapshot.
pub fn fork_session(
    places: &Places,
    from: &str,
    wanted: Vec<SessionCreate>,
) -> Result<Vec<SessionCreated>, ServiceError> {
    let store = store(places)?;
    let id = match super::open_session(places, from) {
        Ok(_) => save(places, from, None, &mut |_| ControlFlow::Continue(()))?.0,
        Err(_) => store.find(from)?,
    };
    let mut made = Vec::with_capacity(wanted.len());
    for create in wanted {
        let create = SessionCreate { overlay: true, ..create };
        let name = create.name.clone();
        let (mut warnings, mut notes) = (Vec::new(), Vec::new());
        let spec = |claim, layers| -> Result<_, ServiceError> {
            let spec;
            (spec, warnings, notes) = decided(places, create, claim, layers)?;
            Ok(spec)
        };
        let sandbox = Sandbox::fork_of(&sessions(places), &store, id, name.as_deref(), spec)?;
        made.push(SessionCreated { sandbox, warnings, notes });
    }
    Ok(made)
}
