//! What a skill asks for beyond the profile, and what its user has granted it. Asking grants nothing. A grant is bound to
//! the place of the skill and to its content: whoever changes a byte of it, or puts another in its place, gets nothing
//! until its user has granted it again, and is told what is asked for beyond the old grant.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

use ringfence_policy::{Bound, ByteSize, Cpus, HostRule, Layer, LimitsLayer, Origin, Span};
use ringfence_skills::{Digest, Manifest, WantedLimits, Wants, wants};
use serde::{Deserialize, Serialize};

use super::source::FoundSkill;
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;

const FILE: &str = "grants.json";
const LOCK: &str = "grants.lock";

/// A set of permissions, as text that the policy understands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permissions {
    pub hosts: Vec<String>,
    pub env: Vec<String>,
    pub time: Option<String>,
    pub memory: Option<String>,
    pub cpus: Option<String>,
    pub processes: Option<String>,
    pub disk: Option<String>,
}

/// What a user granted to one skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub granted: Permissions,
    /// What the skill asked for then.
    pub asked: Permissions,
    /// What it was then.
    pub digest: Digest,
}

/// What a user says: exactly these, or everything that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantWhat {
    These(Permissions),
    Everything,
}

/// A grant and the skill that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedGrant {
    /// The place of the skill: `LIBRARY#domain/name`, or a directory.
    pub skill: String,
    #[serde(flatten)]
    pub grant: Grant,
}

impl Permissions {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// One line each, in words.
    pub fn lines(&self) -> Vec<[String; 2]> {
        let each = |what: &'static str, values: &[String]| -> Vec<[String; 2]> {
            values.iter().map(|value| [what.to_owned(), value.clone()]).collect()
        };
        let mut lines = each("host", &self.hosts);
        lines.extend(each("variable", &self.env));
        for (what, limit) in self.limits() {
            lines.extend(limit.iter().map(|value| [what.to_owned(), value.clone()]));
        }
        lines
    }

    /// Each limit by its name.
    fn limits(&self) -> [(&'static str, &Option<String>); 5] {
        let Self { time, memory, cpus, processes, disk, .. } = self;
        [("time", time), ("memory", memory), ("cpus", cpus), ("processes", processes), ("disk", disk)]
    }

    /// What is in here and not in `other`.
    pub fn beyond(&self, other: &Self) -> Self {
        let rest =
            |own: &[String], had: &[String]| own.iter().filter(|one| !had.contains(one)).cloned().collect();
        let differs = |own: &Option<String>, had: &Option<String>| {
            own.clone().filter(|value| had.as_ref() != Some(value))
        };
        Self {
            hosts: rest(&self.hosts, &other.hosts),
            env: rest(&self.env, &other.env),
            time: differs(&self.time, &other.time),
            memory: differs(&self.memory, &other.memory),
            cpus: differs(&self.cpus, &other.cpus),
            processes: differs(&self.processes, &other.processes),
            disk: differs(&self.disk, &other.disk),
        }
    }

    /// As a layer of a policy, or what in it is none.
    fn layer(&self) -> Result<Layer, String> {
        let mut layer = Layer::default();
        for host in &self.hosts {
            layer
                .network
                .allow
                .push(HostRule::parse(host).map_err(|error| format!("the host `{host}`: {error}"))?);
        }
        for name in &self.env {
            let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(letters) || name.starts_with(|c: char| c.is_ascii_digit())
            {
                return Err(format!("`{name}` can't be the name of a variable"));
            }
        }
        layer.environment.pass = self.env.clone();
        layer.limits = LimitsLayer {
            wall_time: limit::<Span>("time", self.time.as_deref())?,
            memory: limit::<ByteSize>("memory", self.memory.as_deref())?,
            cpus: self.cpus.as_deref().map(cpus).transpose()?,
            processes: limit::<u32>("number of processes", self.processes.as_deref())?,
            disk: limit::<ByteSize>("disk", self.disk.as_deref())?,
            ..LimitsLayer::default()
        };
        Ok(layer)
    }
}

fn limit<T>(what: &str, text: Option<&str>) -> Result<Option<Bound<T>>, String>
where
    T: FromStr<Err: Display>,
{
    let read =
        |text: &str| text.parse().map(Bound::At).map_err(|error| format!("the {what} `{text}`: {error}"));
    text.map(read).transpose()
}

fn cpus(text: &str) -> Result<Bound<Cpus>, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.map(|number| Bound::At(Cpus(number))).ok_or_else(|| format!("`{text}` is no number of processors"))
}

/// What the skill's metadata asks for.
pub fn asked(skill: &FoundSkill) -> Result<Permissions, ServiceError> {
    asked_by(&skill.name, &skill.manifest)
}

/// The same of a skill that is not in its place yet.
pub(crate) fn asked_by(name: &str, manifest: &Manifest) -> Result<Permissions, ServiceError> {
    let Wants { hosts, env, limits } = wants(manifest).map_err(|problems| {
        let list: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
        bad_wants(name, &list.join("; "))
    })?;
    let WantedLimits { time, memory, cpus, processes, disk } = limits;
    let asked = Permissions { hosts, env, time, memory, cpus, processes, disk };
    asked.layer().map_err(|why| bad_wants(name, &why))?;
    Ok(asked)
}

/// Grant, in place of what was granted before. Returns what holds now.
pub fn grant(places: &Places, skill: &FoundSkill, what: GrantWhat) -> Result<Grant, ServiceError> {
    let identity = identity(skill)?;
    let asked = asked(skill)?;
    let granted = match what {
        GrantWhat::These(these) => these,
        GrantWhat::Everything => asked.clone(),
    };
    granted.layer().map_err(|why| {
        ServiceError::new(
            ErrorCode::BadRequest,
            why,
            "correct it; `ringfence skill grant --help` has examples",
        )
    })?;
    if granted.is_empty() {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            format!("there is nothing to grant: {} asks for nothing", skill.name),
            "name it: --host RULE, --env NAME, --timeout TIME, --memory SIZE, --cpus N, --pids N, --disk SIZE",
        ));
    }
    let digest = skill.digest().map_err(|error| {
        ServiceError::new(
            ErrorCode::BadSkill,
            format!("{}: {error}", skill.name),
            "correct the skill: a grant is for one exact content",
        )
    })?;
    let grant = Grant { granted, asked, digest };
    change(places, |book| {
        book.insert(identity, grant.clone());
    })?;
    Ok(grant)
}

/// Take everything back that was granted to the skill.
pub fn revoke_grant(places: &Places, skill: &FoundSkill) -> Result<Grant, ServiceError> {
    let identity = identity(skill)?;
    let mut had = None;
    change(places, |book| had = book.remove(&identity))?;
    had.ok_or_else(|| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("nothing is granted to {}", skill.name),
            "see `ringfence skill grants`",
        )
    })
}

/// The same by the name that [`grants`] has, also where that skill is gone. Nothing if there is no such grant.
pub fn revoke_named(places: &Places, name: &str) -> Result<Option<Grant>, ServiceError> {
    let mut had = None;
    change(places, |book| had = book.remove(name))?;
    Ok(had)
}

/// Everything that is granted, in the order of the skills' places.
pub fn grants(places: &Places) -> Result<Vec<NamedGrant>, ServiceError> {
    Ok(read_book(places)?.into_iter().map(|(skill, grant)| NamedGrant { skill, grant }).collect())
}

/// The stored grant of a skill.
pub fn granted(places: &Places, skill: &FoundSkill) -> Result<Option<Grant>, ServiceError> {
    // What the server's owner granted is for the owner's own runs.
    if places.tenant.is_some() {
        return Ok(None);
    }
    let Some(identity) = skill.identity() else { return Ok(None) };
    Ok(read_book(places)?.remove(&identity))
}

/// What is granted, as a layer for below the flags, and what a person should know.
#[derive(Debug)]
pub(crate) struct Permitted {
    pub(crate) layer: Option<(Origin, Layer)>,
    pub(crate) notes: Vec<String>,
}

/// What a run of the skill may have beside what its flags say.
pub(crate) fn permitted(
    places: &Places,
    skill: &FoundSkill,
    flags: &[(Origin, Layer)],
) -> Result<Permitted, ServiceError> {
    let mut notes = Vec::new();
    // What can't be read asks for nothing.
    let asked = asked(skill).unwrap_or_else(|error| {
        notes.push(error.message);
        Permissions::default()
    });
    let grant = granted(places, skill)?;
    let mut layer = None;
    let mut open = asked.clone();
    let changed = grant.as_ref().is_some_and(|grant| skill.digest().ok().as_ref() != Some(&grant.digest));
    if changed {
        notes.push(format!(
            "{} has changed since it was granted something, so nothing is granted: look at it, then grant again",
            skill.name
        ));
    }
    if let Some(grant) = grant.as_ref().filter(|_| !changed) {
        let granted = grant.granted.layer().map_err(|why| broken(places, &why))?;
        layer = Some((Origin::file(places.state.path().join(FILE), "skill grant"), granted));
        open = open.beyond(&grant.granted);
    }
    open = open.beyond(&by_flags(flags, &asked));
    if !open.is_empty() {
        let list: Vec<String> =
            open.lines().into_iter().map(|[what, value]| format!("{what} {value}")).collect();
        let more = match &grant {
            Some(grant) if !asked.beyond(&grant.asked).is_empty() => {
                " more than when it was granted something"
            }
            _ => "",
        };
        notes.push(format!(
            "{} asks for{more}: {}; it is not granted: see `ringfence skill grant --help`",
            skill.name,
            list.join(", ")
        ));
    }
    Ok(Permitted { layer, notes })
}

/// What the flags of this run say already. A limit that is named is what the caller wants, whatever is asked for.
fn by_flags(flags: &[(Origin, Layer)], asked: &Permissions) -> Permissions {
    let mut given = Permissions::default();
    for (_, layer) in flags {
        given.hosts.extend(layer.network.allow.iter().map(ToString::to_string));
        given.env.extend(layer.environment.pass.iter().cloned());
        given.env.extend(layer.environment.set.keys().cloned());
        given.env.extend(layer.network.secrets.iter().map(|secret| secret.name.clone()));
        let limits = &layer.limits;
        given.time = limits.wall_time.as_ref().and(asked.time.clone()).or(given.time);
        given.memory = limits.memory.as_ref().and(asked.memory.clone()).or(given.memory);
        given.cpus = limits.cpus.as_ref().and(asked.cpus.clone()).or(given.cpus);
        given.processes = limits.processes.as_ref().and(asked.processes.clone()).or(given.processes);
        given.disk = limits.disk.as_ref().and(asked.disk.clone()).or(given.disk);
    }
    given
}

fn identity(skill: &FoundSkill) -> Result<String, ServiceError> {
    skill.identity().ok_or_else(|| {
        ServiceError::new(
            ErrorCode::BadRequest,
            "an archive can't be granted anything: it has no place of its own",
            "add it to the library first, or pass the flags at each run",
        )
    })
}

fn change(places: &Places, edit: impl FnOnce(&mut BTreeMap<String, Grant>)) -> Result<(), ServiceError> {
    let _lock = places.state.lock(LOCK)?;
    let mut book = read_book(places)?;
    edit(&mut book);
    let text = serde_json::to_vec_pretty(&book).map_err(|error| {
        ServiceError::state("write", &places.state.path().join(FILE), &std::io::Error::other(error))
    })?;
    places.state.replace(FILE, &text)
}

fn read_book(places: &Places) -> Result<BTreeMap<String, Grant>, ServiceError> {
    let path = places.state.path().join(FILE);
    let text = read_if_there(&path).map_err(|error| ServiceError::state("read", &path, &error))?;
    let Some(text) = text else { return Ok(BTreeMap::new()) };
    // Whoever can write this file can grant anything.
    let facts = fs::metadata(&path).map_err(|error| ServiceError::state("read", &path, &error))?;
    let own = [0, rustix::process::geteuid().as_raw()].contains(&facts.uid());
    if !own || facts.mode() & 0o022 != 0 {
        return Err(broken(places, "it can be written by others, so that it says nothing"));
    }
    serde_json::from_str(&text).map_err(|error| broken(places, &error.to_string()))
}

fn broken(places: &Places, why: &str) -> ServiceError {
    let path = places.state.path().join(FILE);
    ServiceError::new(ErrorCode::State, format!("{}: {why}", path.display()), "remove it and grant again")
}

fn bad_wants(name: &str, why: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!("{name} asks for something in a way that can't be read: {why}"),
        "correct `ringfence` in the metadata of its SKILL.md",
    )
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
