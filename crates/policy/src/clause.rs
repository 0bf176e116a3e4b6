//! The names of the clauses and what may be done with each: is it a limit, may it be waived.
//!
//! Invariant: a name is never reused for another meaning; receipts and audit records keep them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use crate::model::Clause;
use crate::nearest::nearest;
use crate::units::shown;

/// Why a name can't be taken as a clause to waive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClauseError {
    #[error("unknown clause `{name}`, {}", .nearest.map_or_else(
        || format!("the clauses that can be waived are {}", waivable_names()),
        |n| format!("did you mean `{n}`?")
    ))]
    Unknown { name: String, nearest: Option<&'static str> },
    #[error(
        "clause `{name}` can't be waived, the other clauses stand on it; these can: {}",
        waivable_names()
    )]
    NotWaivable { name: &'static str },
}

impl Clause {
    /// Every clause, in the order that receipts list them.
    pub const ALL: [Clause; 31] = [
        Clause::FilesystemHost,
        Clause::FilesystemToolchains,
        Clause::FilesystemWorkspace,
        Clause::FilesystemRead,
        Clause::FilesystemWrite,
        Clause::FilesystemAttached,
        Clause::FilesystemHide,
        Clause::FilesystemTmp,
        Clause::FilesystemProtected,
        Clause::FilesystemLandlock,
        Clause::Network,
        Clause::Processes,
        Clause::Ipc,
        Clause::Hostname,
        Clause::Cgroups,
        Clause::Devices,
        Clause::Proc,
        Clause::Capabilities,
        Clause::NoNewPrivs,
        Clause::Identity,
        Clause::Environment,
        Clause::Syscalls,
        Clause::LimitCpus,
        Clause::LimitMemory,
        Clause::LimitProcesses,
        Clause::LimitDisk,
        Clause::LimitOpenFiles,
        Clause::LimitOutput,
        Clause::LimitWallTime,
        Clause::LimitConnections,
        Clause::LimitBandwidth,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Clause::FilesystemHost => "filesystem.host",
            Clause::FilesystemToolchains => "filesystem.toolchains",
            Clause::FilesystemWorkspace => "filesystem.workspace",
            Clause::FilesystemRead => "filesystem.read",
            Clause::FilesystemWrite => "filesystem.write",
            Clause::FilesystemAttached => "filesystem.attached",
            Clause::FilesystemHide => "filesystem.hide",
            Clause::FilesystemTmp => "filesystem.tmp",
            Clause::FilesystemProtected => "filesystem.protected",
            Clause::FilesystemLandlock => "filesystem.landlock",
            Clause::Network => "network",
            Clause::Processes => "processes",
            Clause::Ipc => "ipc",
            Clause::Hostname => "hostname",
            Clause::Cgroups => "cgroups",
            Clause::Devices => "devices",
            Clause::Proc => "proc",
            Clause::Capabilities => "capabilities",
            Clause::NoNewPrivs => "no_new_privs",
            Clause::Identity => "identity",
            Clause::Environment => "environment",
            Clause::Syscalls => "syscalls",
            Clause::LimitCpus => "limits.cpus",
            Clause::LimitMemory => "limits.memory",
            Clause::LimitProcesses => "limits.processes",
            Clause::LimitDisk => "limits.disk",
            Clause::LimitOpenFiles => "limits.open_files",
            Clause::LimitOutput => "limits.output",
            Clause::LimitWallTime => "limits.wall_time",
            Clause::LimitConnections => "limits.connections",
            Clause::LimitBandwidth => "limits.bandwidth",
        }
    }

    /// A bound on how much is used. A profile's default may go unenforced with a warning; one asked for may not.
    pub const fn is_limit(self) -> bool {
        matches!(
            self,
            Clause::LimitCpus
                | Clause::LimitMemory
                | Clause::LimitProcesses
                | Clause::LimitDisk
                | Clause::LimitOpenFiles
                | Clause::LimitOutput
                | Clause::LimitWallTime
                | Clause::LimitConnections
                | Clause::LimitBandwidth
        )
    }

    /// A wall. Never best effort.
    pub const fn is_isolation(self) -> bool {
        !self.is_limit()
    }

    /// May the caller give this up by name? Walls that the others stand on may not: with capabilities, a host
    /// identity, setuid programs or the host's files back, no other clause would mean anything.
    pub const fn waivable(self) -> bool {
        self.is_limit()
            || matches!(
                self,
                Clause::Network | Clause::Syscalls | Clause::FilesystemLandlock | Clause::FilesystemProtected
            )
    }

    /// The clause of this name, if it may be waived.
    pub fn parse_waivable(name: &str) -> Result<Self, ClauseError> {
        let clause: Self = name.parse()?;
        if clause.waivable() { Ok(clause) } else { Err(ClauseError::NotWaivable { name: clause.as_str() }) }
    }
}

fn waivable_names() -> String {
    let names: Vec<_> = Clause::ALL.iter().filter(|c| c.waivable()).map(|c| c.as_str()).collect();
    names.join(", ")
}

impl From<Clause> for &'static str {
    fn from(clause: Clause) -> Self {
        clause.as_str()
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Clause {
    type Err = ClauseError;

    fn from_str(name: &str) -> Result<Self, ClauseError> {
        Self::ALL.into_iter().find(|c| c.as_str() == name).ok_or_else(|| ClauseError::Unknown {
            name: shown(name),
            nearest: nearest(name, Self::ALL.iter().map(|c| c.as_str())),
        })
    }
}

impl<'de> Deserialize<'de> for Clause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Clause {
    fn schema_name() -> Cow<'static, str> {
        "WaivableClause".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Self::ALL.iter().filter(|c| c.waivable()).map(|c| c.as_str()).collect();
        json_schema!({ "description": "A clause that may be waived.", "type": "string", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_is_unique() {
        for (i, clause) in Clause::ALL.into_iter().enumerate() {
            assert_eq!(clause.as_str().parse(), Ok(clause));
            assert!(Clause::ALL[i + 1..].iter().all(|other| other.as_str() != clause.as_str()));
            assert_ne!(clause.is_limit(), clause.is_isolation());
            assert_eq!(clause.is_limit(), clause.as_str().starts_with("limits."));
        }
    }

    #[test]
    fn walls_that_others_stand_on_stay() {
        for name in ["capabilities", "no_new_privs", "identity", "filesystem.host", "processes", "proc"] {
            let error = Clause::parse_waivable(name).unwrap_err();
            assert!(matches!(error, ClauseError::NotWaivable { .. }), "{name}");
        }
        assert_eq!(Clause::parse_waivable("network"), Ok(Clause::Network));
        assert_eq!(Clause::parse_waivable("limits.memory"), Ok(Clause::LimitMemory));
    }

    #[test]
    fn errors() {
        insta::assert_snapshot!(Clause::parse_waivable("identity").unwrap_err(), @"clause `identity` can't be waived, the other clauses stand on it; these can: filesystem.protected, filesystem.landlock, network, syscalls, limits.cpus, limits.memory, limits.processes, limits.disk, limits.open_files, limits.output, limits.wall_time, limits.connections, limits.bandwidth");
        insta::assert_snapshot!("limits.memroy".parse::<Clause>().unwrap_err(), @"unknown clause `limits.memroy`, did you mean `limits.memory`?");
        insta::assert_snapshot!("quux-and-so-on".parse::<Clause>().unwrap_err(), @"unknown clause `quux-and-so-on`, the clauses that can be waived are filesystem.protected, filesystem.landlock, network, syscalls, limits.cpus, limits.memory, limits.processes, limits.disk, limits.open_files, limits.output, limits.wall_time, limits.connections, limits.bandwidth");
    }
}
