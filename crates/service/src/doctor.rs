//! What this host can enforce: by asking the kernel, and by making small sandboxes with the same code as `run`.
//!
//! A row that only reads a setting says what the setting is; whether a sandbox can be made is tried, not concluded.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ringfence_policy::{
    Bound, ByteSize, Clause, Cpus, HostFiles, Layer, Merged, Origin, ProfileName, Span, Workspace, merge,
};
use ringfence_sandbox::{
    Attached, Bwrap, Docker, Host, Native, Oci, Outcome, Presence, Provider, Refusal, Request, Status, Stream,
};
use serde::Serialize;

use crate::places::Places;
use crate::stored_secrets::{StoredSecrets, stored_secrets};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowStatus {
    Ok,
    /// Works, with something missing.
    Partial,
    Gap,
}

/// One clause or mechanism, and what this host makes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorRow {
    pub name: String,
    pub status: RowStatus,
    pub detail: String,
    /// What to change; empty where nothing has to.
    pub fix: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The restrictive profile can be enforced whole.
    pub restrictive: bool,
    pub rows: Vec<DoctorRow>,
}

/// Try this host.
pub fn doctor(places: &Places) -> DoctorReport {
    let trial = Trial { places };
    let mut rows = vec![kernel(), container()];
    rows.extend(namespace_settings());
    rows.push(sandbox(&trial));
    rows.push(landlock(&trial));
    rows.push(seccomp());
    rows.push(overlay(&trial));
    rows.push(workspace(&trial));
    rows.push(network(&trial));
    rows.push(secret_store(places));
    rows.extend([&Bwrap as &dyn Provider, &Oci, &Docker].map(provider));
    rows.extend(trial.limits());
    let whole = trial.run(ProfileName::Restrictive, Layer::default(), true);
    rows.push(match &whole {
        Ok(_) => ok("restrictive, whole", "every clause, every default limit"),
        Err(refusal) => refused("restrictive, whole", RowStatus::Gap, refusal),
    });
    DoctorReport { restrictive: whole.is_ok(), rows }
}

fn row(name: &str, status: RowStatus, detail: impl Into<String>, fix: impl Into<String>) -> DoctorRow {
    DoctorRow { name: name.into(), status, detail: detail.into(), fix: fix.into() }
}

fn ok(name: &str, detail: impl Into<String>) -> DoctorRow {
    row(name, RowStatus::Ok, detail, "")
}

fn refused(name: &str, status: RowStatus, refusal: &Refusal) -> DoctorRow {
    row(name, status, refusal.to_string(), refusal.fix())
}

/// A small sandbox, made as `run` makes it.
struct Trial<'a> {
    places: &'a Places,
}

impl Trial<'_> {
    fn request(&self, base: ProfileName, layer: Layer, strict: bool) -> Result<Request, Refusal> {
        let policy: Merged = merge(base, &[(Origin::flag("doctor"), layer)]).map_err(|error| {
            Refusal::BadRequest { what: error.to_string(), fix: "report this as a bug".into() }
        })?;
        Ok(Request {
            policy,
            argv: vec![OsString::from("/bin/true")],
            directory: Some("/".into()),
            attached: Attached::default(),
            image: None,
            workspace_layers: None,
            stream: Stream::Capture,
            trace: false,
            learn: false,
            strict,
            state: self.places.state.path().to_path_buf(),
            secrets: self.places.own().join("secrets"),
        })
    }

    fn run(&self, base: ProfileName, mut layer: Layer, strict: bool) -> Result<Outcome, Refusal> {
        // A host that hangs is found out too.
        layer.limits.wall_time.get_or_insert(Bound::At(Span(Duration::from_secs(10))));
        let request = self.request(base, layer, strict)?;
        let host = Host::look(&request)?;
        let plan = Native.plan(&request, &host)?;
        let outcome = Native.create(&request, plan)?;
        match outcome.exit_code() {
            0 => Ok(outcome),
            code => Err(Refusal::BadRequest {
                what: format!("/bin/true ended with {code} in a sandbox"),
                fix: "report this as a bug, with the output of `ringfence doctor --json`".into(),
            }),
        }
    }

    /// Each limit asked for by itself, as a caller would.
    fn limits(&self) -> Vec<DoctorRow> {
        let ask = |set: fn(&mut Layer)| {
            let mut layer = Layer::default();
            set(&mut layer);
            layer
        };
        let asked = [
            (Clause::LimitCpus, ask(|layer| layer.limits.cpus = Some(Bound::At(Cpus(1.0))))),
            (Clause::LimitMemory, ask(|layer| layer.limits.memory = Some(Bound::At(ByteSize::mib(512))))),
            (Clause::LimitProcesses, ask(|layer| layer.limits.processes = Some(Bound::At(64)))),
            (Clause::LimitDisk, ask(|layer| layer.limits.disk = Some(Bound::At(ByteSize::mib(64))))),
            (Clause::LimitOpenFiles, ask(|layer| layer.limits.open_files = Some(Bound::At(256)))),
        ];
        asked.into_iter().map(|(clause, layer)| self.limit(clause, layer)).collect()
    }

    fn limit(&self, clause: Clause, layer: Layer) -> DoctorRow {
        let planned = self.request(ProfileName::Restrictive, layer, false).and_then(|request| {
            let host = Host::look(&request)?;
            Native.plan(&request, &host)
        });
        let plan = match planned {
            Ok(plan) => plan,
            Err(refusal) => return refused(clause.as_str(), RowStatus::Gap, &refusal),
        };
        match plan.receipt.clauses.iter().find(|line| line.clause == clause) {
            Some(line) if line.status == Status::Enforced => ok(clause.as_str(), line.mechanism.clone()),
            Some(line) => row(clause.as_str(), RowStatus::Gap, line.mechanism.clone(), ""),
            None => row(clause.as_str(), RowStatus::Gap, "the plan does not say how", "report this as a bug"),
        }
    }
}

fn sandbox(trial: &Trial<'_>) -> DoctorRow {
    let name = "sandbox";
    match trial.run(ProfileName::Restrictive, Layer::default(), false) {
        Ok(outcome) => {
            let took = outcome.duration.as_micros() as f64 / 1000.0;
            let walls = "namespaces, pivot_root, own /proc, pidfd, clone3";
            ok(name, format!("made and ended in {took:.1} ms: {walls}"))
        }
        Err(refusal) => refused(name, RowStatus::Gap, &refusal),
    }
}

/// Not a gap where it is not: nothing else needs it.
fn provider(provider: &dyn Provider) -> DoctorRow {
    let name = format!("provider {}", provider.name());
    match provider.probe() {
        Presence::Here { version, program } => {
            let at = program.map(|program| format!(" at {}", program.display())).unwrap_or_default();
            ok(&name, format!("{version}{at}"))
        }
        Presence::Missing { why, fix, .. } => row(&name, RowStatus::Ok, format!("can't be used: {why}"), fix),
    }
}

/// The version from which everything here has been there: idmapped mounts came with 5.12.
const KERNEL: (u32, u32) = (5, 12);

fn kernel() -> DoctorRow {
    let release = setting("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= KERNEL {
        ok("kernel", release)
    } else {
        row("kernel", RowStatus::Gap, release, format!("use Linux {}.{} or later", KERNEL.0, KERNEL.1))
    }
}

fn container() -> DoctorRow {
    let found = if Path::new("/.dockerenv").exists() {
        Some("Docker".to_owned())
    } else if Path::new("/run/.containerenv").exists() {
        Some("Podman".to_owned())
    } else {
        std::env::var("container").ok().filter(|name| !name.is_empty())
    };
    match found {
        // Not a gap by itself: the sandbox above was tried in it.
        Some(name) => {
            ok("container", format!("this is a container ({name}); what it closes shows in the rows below"))
        }
        None => ok("container", "none seen"),
    }
}

/// A kernel setting, what it must not be, what that means and the fix.
type Closing = (&'static str, &'static str, &'static str, &'static str);

const CLOSING: &[Closing] = &[
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "closed for ordinary users",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor takes their rights away from programs without a profile",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or install an AppArmor profile for ringfence \
         with `userns,`",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "none may be made",
        "sysctl -w user.max_user_namespaces=15000",
    ),
];

fn namespace_settings() -> Vec<DoctorRow> {
    let root = rustix::process::geteuid().is_root();
    let rows = CLOSING.iter().filter_map(|(path, bad, means, fix)| {
        let value = setting(path)?;
        let name = path.trim_start_matches("/proc/sys/").replace('/', ".");
        if value != *bad {
            return Some(ok(&name, value));
        }
        // Root is asked by neither of the first two.
        let closes_root = *path == "/proc/sys/user/max_user_namespaces";
        let status = if root && !closes_root { RowStatus::Partial } else { RowStatus::Gap };
        Some(row(&name, status, format!("{value}: user namespaces: {means}"), *fix))
    });
    rows.collect()
}

fn landlock(trial: &Trial<'_>) -> DoctorRow {
    let name = "Landlock";
    let request = trial.request(ProfileName::Restrictive, Layer::default(), false);
    match request.and_then(|request| Host::look(&request)) {
        Ok(host) if host.landlock > 0 => ok(name, format!("ABI {}", host.landlock)),
        Ok(_) => row(
            name,
            RowStatus::Gap,
            "the kernel has none, or it is not switched on",
            "boot with `lsm=landlock,…`, or give this second wall up with --waive filesystem.landlock",
        ),
        Err(refusal) => refused(name, RowStatus::Gap, &refusal),
    }
}

fn seccomp() -> DoctorRow {
    let name = "seccomp notification";
    let actions = setting("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if actions.split_whitespace().any(|action| action == "user_notif") {
        ok(name, "closed calls are reported")
    } else {
        row(
            name,
            RowStatus::Gap,
            "not offered by this kernel",
            "use a kernel with CONFIG_SECCOMP_FILTER, 5.0 or later",
        )
    }
}

/// The permissive profile and toolchains need writes to go to a throwaway layer.
fn overlay(trial: &Trial<'_>) -> DoctorRow {
    let mut layer = Layer::default();
    layer.filesystem.host = Some(HostFiles::All);
    layer.filesystem.workspace = Some(Workspace::Private);
    match trial.run(ProfileName::Moderate, layer, false) {
        Ok(_) => ok("throwaway layers", "overlay in a user namespace, over the home directory"),
        Err(refusal) => refused("throwaway layers", RowStatus::Partial, &refusal),
    }
}

/// The current directory as a workspace. For root this needs idmapped mounts on its filesystem.
fn workspace(trial: &Trial<'_>) -> DoctorRow {
    let name = "workspace here";
    let here = &trial.places.current;
    let mut layer = Layer::default();
    layer.filesystem.workspace = Some(Workspace::Path(here.clone()));
    // Nothing is written: no placeholder has to be put there for the moment of this.
    layer.waive = vec![Clause::FilesystemProtected];
    let how = if rustix::process::geteuid().is_root() { "an idmapped bind" } else { "a bind" };
    match trial.run(ProfileName::Restrictive, layer, false) {
        Ok(_) => ok(name, format!("{} by {how}", here.display())),
        Err(refusal) => refused(name, RowStatus::Partial, &refusal),
    }
}

/// Egress is started, for a name that never exists, and nothing is sent.
fn network(trial: &Trial<'_>) -> DoctorRow {
    let name = "network by name";
    let mut layer = Layer::default();
    layer.network.allow = "ringfence.invalid:443".parse().into_iter().collect();
    match trial.run(ProfileName::Restrictive, layer, false) {
        Ok(outcome) => {
            let took = outcome.duration.as_micros() as f64 / 1000.0;
            ok(name, format!("egress for one granted name, in a sandbox of {took:.1} ms"))
        }
        Err(refusal) => refused(name, RowStatus::Partial, &refusal),
    }
}

fn secret_store(places: &Places) -> DoctorRow {
    let name = "secret store";
    match stored_secrets(places) {
        Ok(StoredSecrets { key: None, .. }) => ok(name, "nothing is stored"),
        Ok(StoredSecrets { names, key: Some(place) }) => {
            let count = names.len();
            ok(name, format!("{count} secret{}, the key is in {place}", if count == 1 { "" } else { "s" }))
        }
        Err(error) => row(name, RowStatus::Partial, error.message, error.hint),
    }
}

fn setting(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
