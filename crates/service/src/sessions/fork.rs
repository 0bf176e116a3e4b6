//! Forks: new sessions that begin where another one, or a snapshot, is.

use std::ops::ControlFlow;

use ringfence_sandbox::{Sandbox, SessionFacts};

use super::snapshots::{save, store};
use super::{SessionCreate, SessionCreated, decided, sessions};
use crate::error::ServiceError;
use crate::places::Places;

/// The session that forks of `from`, a session or a snapshot, are to be like, if it is still known.
pub fn model_of(places: &Places, from: &str) -> Result<Option<SessionFacts>, ServiceError> {
    let known = |name: &str| super::open_session(places, name).ok().and_then(|sandbox| sandbox.facts().ok());
    if let Some(facts) = known(from) {
        return Ok(Some(facts));
    }
    let store = store(places)?;
    Ok(known(&store.load(store.find(from)?)?.facts.session))
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
