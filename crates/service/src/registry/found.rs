//! What a client said, gathered: hosts to grant, variables to set, files to show, and what a person should know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ringfence_egress::is_own_address;
use ringfence_policy::{AddressClass, Host, HostRule, Layer, address_class};
use ringfence_sandbox::AttachedFile;

use super::client::ClientError;
use super::surroundings::Surroundings;
use super::url::{Place, has_credentials, place, without_credentials};

/// An index that sends its clients to more hosts than this is not one that a person means to grant.
const MOST_HOSTS: usize = 32;

pub(super) struct Found<'a> {
    surroundings: &'a Surroundings,
    hosts: BTreeSet<HostRule>,
    /// Ports of the caller's own loopback.
    local: BTreeSet<u16>,
    variables: BTreeMap<String, String>,
    read: BTreeSet<PathBuf>,
    files: Vec<AttachedFile>,
    notes: Vec<String>,
}

/// All of it, for one run.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) layer: Layer,
    pub(super) files: Vec<AttachedFile>,
    pub(super) notes: Vec<String>,
}

impl<'a> Found<'a> {
    pub(super) fn new(surroundings: &'a Surroundings) -> Self {
        Self {
            surroundings,
            hosts: BTreeSet::new(),
            local: BTreeSet::new(),
            variables: BTreeMap::new(),
            read: BTreeSet::new(),
            files: Vec::new(),
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

    /// Grant the host of a URL that an index gave. It is not the user's word: never this machine, no address that is not
    /// public (a rule for an address opens it, whatever it is), and one that can't be granted is only said.
    pub(super) fn grant_linked(&mut self, url: &str) {
        let refused = match place(url) {
            Ok(None) => return,
            Ok(Some(found)) if self.has(&found) => return,
            Ok(Some(found)) => unfit(&found.host),
            Err(_) => None,
        };
        if let Some(what) = refused {
            self.note(format!(
                "the index leads to {}, which is {what}: not granted",
                without_credentials(url)
            ));
        } else if let Err(error) = self.grant(url) {
            self.note(error.to_string());
        }
    }

    /// Is it granted by what the client is configured with?
    fn has(&self, place: &Place) -> bool {
        self.hosts.contains(&HostRule::of(place.host.clone(), Some(place.port)))
            || (is_loopback(&place.host) && self.local.contains(&place.port))
    }

    /// A variable for the client inside, without credentials.
    pub(super) fn set(&mut self, name: impl Into<String>, value: &str) {
        let name = name.into();
        let value = self.plain(&name, value);
        self.variables.insert(name, value);
    }

    /// The value of a setting as it may be inside.
    pub(super) fn plain(&mut self, name: &str, value: &str) -> String {
        if has_credentials(value) {
            self.note(format!("the credentials in {name} stay outside"));
        }
        without_credentials(value)
    }

    /// A file of our own for the client inside.
    pub(super) fn write(&mut self, target: &str, text: String) {
        self.files.push(AttachedFile { target: target.into(), text });
    }

    /// Show a file or directory of the client's, unless it is to be seen anyway. What the policy hides stays hidden: this
    /// flag is not what names it.
    pub(super) fn show(&mut self, path: &Path) {
        if !path.is_absolute() || !path.exists() || self.surroundings.is_shown(path) {
            return;
        }
        if self.surroundings.is_hidden(path) {
            self.note(format!("{} is hidden by the policy, and stays so", path.display()));
        } else {
            self.read.insert(path.to_path_buf());
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn into_findings(self) -> Result<Findings, ClientError> {
        if self.hosts.is_empty() && self.local.is_empty() {
            return Err(ClientError::Nothing);
        }
        let mut layer = Layer::default();
        layer.network.allow = self.hosts.into_iter().collect();
        layer.network.local = self.local.into_iter().collect();
        layer.environment.set = self.variables;
        layer.filesystem.read = self.read.into_iter().collect();
        Ok(Findings { layer, files: self.files, notes: self.notes })
    }
}

/// What a host is that an index can't have granted.
fn unfit(host: &Host) -> Option<String> {
    let address = match host {
        _ if is_loopback(host) => return Some("this machine".into()),
        Host::Name(_) => return None,
        Host::Address(address) => *address,
    };
    match address_class(address) {
        // One that can't be reached at all is of no use to the client either.
        AddressClass::Public if is_own_address(address).unwrap_or(true) => {
            Some("an address of this machine, or one that can't be reached from it".into())
        }
        AddressClass::Public => None,
        class => Some(format!("a {class} address")),
    }
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.is_localhost(),
        Host::Address(address) => address.is_loopback(),
    }
}
