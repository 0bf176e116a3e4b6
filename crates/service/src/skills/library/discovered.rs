//! Skills that other clients keep, in this project and in the home directory.

use ringfence_skills::{Scope, discover, load, read_manifest};
use serde::Serialize;

use crate::places::Places;

#[derive(Clone, Debug, Serialize)]
pub struct DiscoveredSkill {
    pub name: String,
    pub description: Option<String>,
    pub path: String,
    /// The client that looks there.
    pub client: &'static str,
    pub scope: Scope,
    /// Why its manifest can't be read.
    pub problem: Option<String>,
}

/// They are run where they are, by their path.
pub fn discovered_skills(places: &Places) -> Vec<DiscoveredSkill> {
    let found = discover(&places.current, Some(&places.home));
    let described = found.into_iter().map(|found| {
        let read = std::fs::File::open(&found.path)
            .map_err(|error| error.to_string())
            .and_then(|directory| read_manifest(directory).map_err(|error| error.to_string()))
            .and_then(|(_, bytes)| load(&bytes, &found.name).map_err(|error| error.to_string()));
        let (description, problem) = match read {
            Ok(loaded) => (Some(loaded.manifest.description), None),
            Err(why) => (None, Some(why)),
        };
        DiscoveredSkill {
            name: found.name,
            description,
            path: found.path.display().to_string(),
            client: found.place.client,
            scope: found.scope,
            problem,
        }
    });
    described.collect()
}
