//! `--allow-registry`: the hosts that a package client is itself configured to use, asked of the client at run time.
//!
//! No registry is known here: pip, npm, cargo and apt are run outside the sandbox, before it, and say which index they
//! use and where it sends them for downloads. What the sandbox could have written is never run, read or believed: see
//! `surroundings`. Credentials in an address stay outside.

mod apt;
mod cargo;
mod client;
mod configured;
mod found;
mod npm;
mod npmrc;
mod pip;
mod surroundings;
mod url;

use std::fmt;
use std::str::FromStr;

use ringfence_policy::{Layer, Origin, Policy};
use ringfence_sandbox::AttachedFile;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use client::ClientError;
pub(crate) use configured::{Client, Settings, configured};
use found::{Findings, Found};
pub(crate) use npmrc::to_npmrc;
use surroundings::Surroundings;

/// A package client that can be asked for its registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registry {
    Pip,
    Npm,
    Cargo,
    Apt,
}

impl Registry {
    pub const ALL: [Self; 4] = [Self::Pip, Self::Npm, Self::Cargo, Self::Apt];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Cargo => "cargo",
            Self::Apt => "apt",
        }
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Registry {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|registry| registry.as_str() == name);
        found.ok_or_else(|| "these can be asked: pip, npm, cargo, apt".to_owned())
    }
}

/// What the clients said: one layer each, with the flag as its origin, and what a person should know.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    pub(crate) layers: Vec<(Origin, Layer)>,
    /// Of our own, for the clients inside.
    pub(crate) files: Vec<AttachedFile>,
    pub(crate) notes: Vec<String>,
}

/// Ask each client. `policy` is the run's without these grants: it says what the sandbox sees and writes.
pub(crate) fn ask(
    places: &Places,
    policy: &Policy,
    registries: &[Registry],
) -> Result<Granted, ServiceError> {
    let surroundings = Surroundings::of_process(places, policy);
    let mut wanted = registries.to_vec();
    wanted.sort();
    wanted.dedup();
    if wanted.contains(&Registry::Cargo) {
        places.state.ensure()?;
    }
    let mut granted = Granted::default();
    for registry in wanted {
        let asked = match registry {
            Registry::Pip => pip::ask(&surroundings),
            Registry::Npm => npm::ask(&surroundings),
            Registry::Cargo => cargo::ask(&surroundings),
            Registry::Apt => apt::ask(&surroundings),
        };
        let Findings { layer, files, notes } =
            asked.and_then(Found::into_findings).map_err(|error| refused(registry, &error))?;
        granted.files.extend(files);
        granted.layers.push((Origin::flag(format!("--allow-registry {registry}")), layer));
        granted.notes.extend(notes.into_iter().map(|note| format!("--allow-registry {registry}: {note}")));
    }
    Ok(granted)
}

fn refused(registry: Registry, error: &ClientError) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadRequest,
        format!("--allow-registry {registry}: {error}"),
        "correct that, or name the hosts yourself: --allow-host NAME:PORT",
    )
}

#[cfg(test)]
mod tests;
