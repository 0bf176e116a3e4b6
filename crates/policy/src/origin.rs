//! Where each clause of a merged policy came from.
//!
//! Only what layers set is recorded, so a policy that is a bare profile costs nothing here.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::model::{Clause, ProfileName};

/// Who set a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A named policy's own value.
    Profile(ProfileName),
    /// A file, and what it is to the user: "user config", "project".
    File(PathBuf, String),
    /// A `RINGFENCE_…` variable.
    Environment,
    /// A flag, as the user typed it: `--memory`.
    Flag(String),
}

impl Origin {
    pub fn flag(name: impl Into<String>) -> Self {
        Origin::Flag(name.into())
    }

    pub fn file(path: impl Into<PathBuf>, label: impl Into<String>) -> Self {
        Origin::File(path.into(), label.into())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Profile(name) => write!(f, "profile {name}"),
            Origin::File(path, label) if label.is_empty() => write!(f, "{}", path.display()),
            Origin::File(path, label) => write!(f, "{label} {}", path.display()),
            Origin::Environment => f.write_str("environment"),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The origins of a merged policy, by clause path (`limits.memory`) and by list element.
#[derive(Clone, Debug, PartialEq)]
pub struct Origins {
    profile: Origin,
    layers: Vec<Origin>,
    /// Clause path and layer, in the order of merging: the last entry of a path wins.
    scalars: Vec<(&'static str, usize)>,
    items: Vec<(&'static str, String, usize)>,
}

impl Origins {
    pub(crate) fn of_profile(name: ProfileName) -> Self {
        Self { profile: Origin::Profile(name), layers: Vec::new(), scalars: Vec::new(), items: Vec::new() }
    }

    pub(crate) fn push_layer(&mut self, origin: Origin) {
        self.layers.push(origin);
    }

    /// The layer pushed last set this clause.
    pub(crate) fn scalar(&mut self, clause: &'static str) {
        self.scalars.push((clause, self.layers.len() - 1));
    }

    /// The layer pushed last added this element.
    pub(crate) fn item(&mut self, clause: &'static str, item: &str) {
        self.items.push((clause, item.to_owned(), self.layers.len() - 1));
    }

    /// Who set the clause with this path; for a list, who added to it last.
    pub fn of(&self, clause_path: &str) -> &Origin {
        let scalar =
            self.scalars.iter().rev().find(|(path, _)| *path == clause_path).map(|(_, layer)| *layer);
        let item =
            self.items.iter().rev().find(|(path, _, _)| *path == clause_path).map(|(_, _, layer)| *layer);
        scalar.max(item).map_or(&self.profile, |layer| &self.layers[layer])
    }

    /// Who added this element of a list (or set this variable of `environment.set`).
    pub fn of_item(&self, clause_path: &str, item: &str) -> &Origin {
        let found = self.items.iter().rev().find(|(path, text, _)| *path == clause_path && text == item);
        found.map_or(&self.profile, |(_, _, layer)| &self.layers[*layer])
    }

    /// Did a file, a variable or a flag set this clause? What the caller asked for must be enforced; what a
    /// profile brings along may, for a limit, be a warning.
    pub fn asked(&self, clause: Clause) -> bool {
        let covers = |path: &str| match clause {
            Clause::Network => path.starts_with("network."),
            Clause::Syscalls => path.starts_with("syscalls."),
            Clause::Environment => path.starts_with("environment."),
            Clause::Identity => path == "identity.user",
            Clause::Hostname => path == "identity.hostname",
            Clause::FilesystemProtected => matches!(path, "filesystem.unprotect" | "filesystem.protect"),
            _ => path == clause.as_str(),
        };
        let by_caller = |layer: usize| !matches!(self.layers[layer], Origin::Profile(_));
        self.scalars.iter().any(|(path, layer)| covers(path) && by_caller(*layer))
            || self.items.iter().any(|(path, _, layer)| covers(path) && by_caller(*layer))
    }
}
