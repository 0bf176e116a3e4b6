//! Forks: new sessions that begin where another one, or a snapshot, is.

use std::ops::ControlFlow;

use ringfence_sandbox::{Claim, SessionFacts, WorkspaceLayers};

use super::snapshots::{HOME_ROOT, WORKSPACE_ROOT, restore, save, store};
use super::{SessionCreate, SessionCreated, create_claimed, sessions};
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
    let has_home = store.load(id)?.root(HOME_ROOT).is_ok();
    let mut made = Vec::with_capacity(wanted.len());
    for create in wanted {
        let create = SessionCreate { overlay: true, ..create };
        let claim = Claim::new(&sessions(places), create.name.as_deref())?;
        let beginning = claim.place().beginning();
        store.materialise(id, &beginning)?;
        let lower = Some(beginning.join(WORKSPACE_ROOT));
        let layers = WorkspaceLayers { directory: claim.place().layers(), lower };
        let created = create_claimed(places, create, claim, layers)?;
        if has_home && created.sandbox.facts()?.keeps_home {
            restore(&store, id, &created.sandbox, &[HOME_ROOT])?;
        }
        made.push(created);
    }
    Ok(made)
}
