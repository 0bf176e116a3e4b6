//! The life of the egress process: fetch secrets, give up privileges, say so, serve until the owner is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ringfence_linux::{exit_now, send_with_fds};
use ringfence_policy::NetworkRules;
use tokio::runtime::Runtime;

use crate::channel::Channel;
use crate::event::Event;
use crate::gate::{Gate, Shared};
use crate::limits::{Bandwidth, Budget, Connections};
use crate::listeners::Caps;
use crate::names::Names;
use crate::outbox::Outbox;
use crate::privileges::{bound_memory, close_syscalls, drop_privileges, hide};
use crate::resolve::{Files, Resolver};
use crate::secrets;
use crate::server::Server;
use crate::setup::{Setup, StartError};
use crate::terminate::Terminator;
use crate::upstream::Proxies;

/// Far above what programs send that read their answers.
const HEADS: usize = 32 << 20;

/// Be the egress process of one sandbox, for as long as the owner keeps its end of the channel. For a process that was
/// just forked: it closes everything else, leaves the terminal and never returns.
pub fn run(setup: &Setup, owner: OwnedFd) -> ! {
    let failed = match prepare(setup, &owner) {
        Ok(prepared) => serve(setup, prepared, owner).err(),
        Err(error) => {
            tell_failure(&owner, error);
            exit_now(1)
        }
    };
    exit_now(i32::from(failed.is_some()))
}

/// What is made with the privileges that are then dropped.
struct Prepared {
    rules: NetworkRules,
    terminator: Option<Terminator>,
    proxies: Proxies,
    caps: Caps,
    /// Connections at one time.
    connections: u32,
    runtime: Runtime,
}

fn prepare(setup: &Setup, owner: &OwnedFd) -> Result<Prepared, StartError> {
    hide()?;
    let rules = NetworkRules::new(&setup.network);
    let proxies = Proxies::new(&setup.upstream)?;
    let terminates = !setup.network.http.is_empty() || !setup.network.secrets.is_empty();
    let terminator =
        if terminates { Some(Terminator::new(setup, &rules, secrets::load(setup)?)?) } else { None };
    let files = drop_privileges(owner.as_fd(), setup.become_id)?;
    let caps = Caps::for_descriptors(files);
    let most = u32::try_from(caps.accepted).unwrap_or(u32::MAX);
    let connections = setup.connections.map_or(most, |asked| asked.min(most));
    bound_memory(connections)?;
    // It makes descriptors for itself that nothing makes afterwards.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StartError {
        what: "start the network's process".to_owned(),
        why: error.to_string(),
        fix: "run `ringfence doctor`, or run without a network".to_owned(),
    })?;
    close_syscalls()?;
    Ok(Prepared { rules, terminator, proxies, caps, connections, runtime })
}

fn serve(setup: &Setup, prepared: Prepared, owner: OwnedFd) -> io::Result<()> {
    let Prepared { rules, terminator, proxies, caps, connections, runtime } = prepared;
    let (outbox, ended) = runtime.block_on(async {
        let channel = Arc::new(Channel::new(owner)?);
        let outbox = Outbox::new(channel.clone());
        let authority = terminator.as_ref().map(Terminator::authority_pem);
        let gate = Gate::new(Shared {
            rules,
            names: Names::new(),
            outbox: outbox.clone(),
            connections: Connections::new(connections),
            bandwidth: Bandwidth::new(setup.bandwidth),
            heads: Budget::new(HEADS),
            resolver: Resolver::new(Files::default()),
            proxies,
            terminator,
            next_id: Default::default(),
            open: Default::default(),
            #[cfg(test)]
            stand_ins: Default::default(),
        });
        outbox.push(Event::Ready { authority });
        let ended = Server::new(gate, setup.learn, caps).serve(&channel).await;
        io::Result::Ok((outbox, ended))
    })?;
    // Every connection ends here, and says so.
    drop(runtime);
    outbox.flush();
    ended
}

fn tell_failure(owner: &OwnedFd, error: StartError) {
    let StartError { what, why, fix } = error;
    if let Ok(packet) = serde_json::to_vec(&Event::Failed { what, why, fix }) {
        // If the owner is gone there is nobody to tell.
        let _ = send_with_fds(owner.as_fd(), &packet, &[]);
    }
}
