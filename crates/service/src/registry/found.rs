//! What a client said, gathered: hosts to grant, variables to set, files to show, and what a person should know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ringfence_policy::{Host, HostRule, Layer};

use super::client::ClientError;
use super::surroundings::Surroundings;
use super::url::{has_credentials, place, without_credentials};

/// An index that sends its clients to more hosts than this is not one that a person means to grant.
const MOST_HOSTS: usize = 32;

pub(super) struct Found<'a> {
    surroundings: &'a Surroundings,
    hosts: BTreeSet<HostRule>,
    /// Ports of the caller's own loopback.
    local: BTreeSet<u16>,
    variables: BTreeMap<String, String>,
    read: BTreeSet<std::path::PathBuf>,
    notes: Vec<String>,
}

impl<'a> Found<'a> {
    pub(super) fn new(surroundings: &'a Surroundings) -> Self {
        Self {
            surroundings,
            hosts: BTreeSet::new(),
            local: BTreeSet::new(),
            variables: BTreeMap::new(),
            read: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    /// Grant the host of a URL that the client is configured with.
    pub(super) fn grant(&mut self, url: &str) -> Result<(), ClientError> {
        let wrong = |why: String| ClientError::Url { url: without_credentials(url), why };
        let Some(found) = place(url).map_err(wrong)? else { return Ok(()) };
        let rule = HostRule::of(found.host.clone(), Some(found.port));
        if is_loopback(&found.host) {
            self.local.insert(found.port);
            return Ok(());
        }
        rule.grantable().map_err(|error| wrong(error.to_string()))?;
        if self.hosts.len() >= MOST_HOSTS {
            return Err(wrong(format!("there are more than {MOST_HOSTS} hosts")));
        }
        self.hosts.insert(rule);
        Ok(())
    }

    /// Grant the host of a URL that an index gave. It is not the user's word: never this machine, and one that can't be
    /// granted is only said.
    pub(super) fn grant_linked(&mut self, url: &str) {
        match place(url) {
            Ok(Some(found)) if is_loopback(&found.host) && !self.local.contains(&found.port) => {
                self.note(format!(
                    "the index leads to {}, which is this machine: not granted",
                    without_credentials(url)
                ))
            }
            Ok(None) => {}
            _ => {
                if let Err(error) = self.grant(url) {
                    self.note(error.to_string());
                }
            }
        }
    }

    /// A variable for the client inside, without credentials.
    pub(super) fn set(&mut self, name: impl Into<String>, value: &str) {
        let name = name.into();
        if has_credentials(value) {
            self.note(format!("the credentials in {name} stay outside"));
        }
        self.variables.insert(name, without_credentials(value));
    }

    /// Show a file or directory of the client's, unless it is to be seen anyway.
    pub(super) fn show(&mut self, path: &Path) {
        if path.is_absolute() && path.exists() && !self.surroundings.is_shown(path) {
            self.read.insert(path.to_path_buf());
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn into_layer(self) -> Result<(Layer, Vec<String>), ClientError> {
        if self.hosts.is_empty() && self.local.is_empty() {
            return Err(ClientError::Nothing);
        }
        let mut layer = Layer::default();
        layer.network.allow = self.hosts.into_iter().collect();
        layer.network.local = self.local.into_iter().collect();
        layer.environment.set = self.variables;
        layer.filesystem.read = self.read.into_iter().collect();
        Ok((layer, self.notes))
    }
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.is_localhost(),
        Host::Address(address) => address.is_loopback(),
    }
}
