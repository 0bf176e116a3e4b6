//! What settings come to, clause by clause, in the one form that all four tools share: files that may be read, files that
//! may be written, exceptions of both, and hosts. `finish` turns it into a layer.
//!
//! Exceptions are laid on last, and each may only take away. Where one can't be said as it is written, the nearest grant
//! that it lies in goes as a whole.

use std::path::{Path, PathBuf};

use super::place::Place;
use super::{Became, ImportError, ImportPlaces, ImportRow};
use crate::layer::Layer;
use crate::model::{HostFiles, NetworkMode, ProfileName, Workspace};
use crate::network::HostRule;

/// Shown in every sandbox, since no program starts without them.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu"];
/// Every sandbox has its own.
const PRIVATE: &[&str] = &["/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run", "/private/tmp"];

#[derive(Debug)]
pub(super) struct Draft<'a> {
    places: &'a ImportPlaces,
    pub(super) layer: Layer,
    rows: Vec<ImportRow>,
    /// Exceptions, by their setting.
    hidden: Vec<(String, Place)>,
    reopened: Vec<(String, Place)>,
    unwritable: Vec<(String, Place)>,
    /// Why nothing may be reached, whatever is allowed.
    closed: Option<String>,
    denied_everywhere: bool,
    denied_ports: Vec<u16>,
}

impl<'a> Draft<'a> {
    /// Nothing of the user's but what is granted later.
    pub(super) fn new(places: &'a ImportPlaces) -> Self {
        let mut layer = Layer { profile: Some(ProfileName::Moderate), ..Layer::default() };
        layer.filesystem.host = Some(HostFiles::System);
        layer.filesystem.workspace = Some(Workspace::Private);
        layer.network.mode = Some(NetworkMode::Off);
        Self {
            places,
            layer,
            rows: Vec::new(),
            hidden: Vec::new(),
            reopened: Vec::new(),
            unwritable: Vec::new(),
            closed: None,
            denied_everywhere: false,
            denied_ports: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, setting: &str, became: Became, policy: impl Into<String>, why: &str) {
        let row =
            ImportRow { setting: setting.to_owned(), became, policy: policy.into(), why: why.to_owned() };
        self.rows.push(row);
    }

    pub(super) fn carried(&mut self, setting: &str, policy: impl Into<String>, why: &str) {
        self.row(setting, Became::CarriedOver, policy, why);
    }

    pub(super) fn tightened(&mut self, setting: &str, policy: impl Into<String>, why: &str) {
        self.row(setting, Became::Tightened, policy, why);
    }

    pub(super) fn not_expressible(&mut self, setting: &str, why: &str) {
        self.row(setting, Became::NotExpressible, "", why);
    }

    /// Everything may be read.
    pub(super) fn reads_all(&mut self, setting: &str) {
        self.layer.filesystem.host = Some(HostFiles::All);
        let why = "a reviewed list of secrets stays hidden; /tmp, /run and /proc are the sandbox's own";
        self.tightened(setting, "filesystem.host = \"all\"", why);
        self.see_current();
    }

    /// The current directory can be read.
    pub(super) fn see_current(&mut self) {
        let current = self.places.current.clone();
        if !self.layer.filesystem.read.contains(&current) {
            self.layer.filesystem.read.push(current);
        }
    }

    pub(super) fn read(&mut self, setting: &str, place: Option<Place>) {
        let Some(Place::Path { path, .. }) = place else {
            return self.not_expressible(setting, "a pattern grants nothing, name the directory");
        };
        match self.unfit(&path) {
            Some(why) => self.tightened(setting, "", why),
            None => {
                self.carried(setting, format!("filesystem.read = [\"{}\"]", path.display()), "");
                self.layer.filesystem.read.push(path);
            }
        }
    }

    pub(super) fn write(&mut self, setting: &str, place: Option<Place>) {
        let Some(Place::Path { path, .. }) = place else {
            return self.not_expressible(setting, "a pattern grants nothing, name the directory");
        };
        let current = &self.places.current;
        if *current == path {
            self.layer.filesystem.workspace = Some(Workspace::Current);
            let policy = "filesystem.workspace = \"current\"";
            return self.carried(setting, policy, "names that host programs act on stay read-only");
        }
        if current.starts_with(&path) {
            self.layer.filesystem.workspace = Some(Workspace::Current);
            let why = "of a directory above the current one, only the current one can be written";
            return self.tightened(setting, "filesystem.workspace = \"current\"", why);
        }
        match self.unfit(&path) {
            Some(why) => self.tightened(setting, "", why),
            None => {
                self.carried(setting, format!("filesystem.write = [\"{}\"]", path.display()), "");
                self.layer.filesystem.write.push(path);
            }
        }
    }

    /// Why a place can't be granted as a whole.
    fn unfit(&self, path: &Path) -> Option<&'static str> {
        if PRIVATE.iter().any(|own| path.starts_with(own)) {
            return Some("the sandbox has one of its own");
        }
        if self.places.home.starts_with(path) {
            return Some("a directory that holds your whole home is not granted");
        }
        if SYSTEM.iter().any(|system| path.starts_with(system)) {
            return Some("system directories are there, and read-only");
        }
        path.to_str().is_none().then_some("its path is not UTF-8")
    }

    pub(super) fn hide(&mut self, setting: &str, place: Option<Place>) -> Result<(), ImportError> {
        self.hidden.push((setting.to_owned(), self.exception(setting, place)?));
        Ok(())
    }

    pub(super) fn unwritable(&mut self, setting: &str, place: Option<Place>) -> Result<(), ImportError> {
        self.unwritable.push((setting.to_owned(), self.exception(setting, place)?));
        Ok(())
    }

    /// An exception that can't be understood can't be left out.
    fn exception(&self, setting: &str, place: Option<Place>) -> Result<Place, ImportError> {
        place.ok_or_else(|| super::json::wrong(setting, "write the path out, without another user's `~`"))
    }

    /// Readable again in what is hidden.
    pub(super) fn reopen(&mut self, setting: &str, place: Option<Place>) {
        match place {
            Some(place @ Place::Path { .. }) => self.reopened.push((setting.to_owned(), place)),
            _ => self.not_expressible(setting, "a pattern grants nothing, name the directory"),
        }
    }

    pub(super) fn open_network(&mut self, setting: &str) {
        self.layer.network.mode = Some(NetworkMode::Open);
        let why = "private, link-local, loopback and metadata addresses stay closed";
        self.tightened(setting, "network.mode = \"open\"", why);
    }

    /// A host that may be reached: `name`, `*.name`, an address, with or without a port.
    pub(super) fn allow_host(&mut self, setting: &str, text: &str) {
        if let Some((name, port)) = text.rsplit_once(':')
            && matches!(name, "localhost" | "127.0.0.1" | "[::1]")
        {
            match port.parse::<u16>().ok().filter(|port| *port != 0) {
                Some(port) => {
                    self.layer.network.local.push(port);
                    return self.carried(setting, format!("network.local = [{port}]"), "");
                }
                None => return self.not_expressible(setting, "it is no port"),
            }
        }
        if matches!(text, "localhost" | "127.0.0.1" | "[::1]") {
            return self.not_expressible(setting, "name the port: network.local = [PORT]");
        }
        match HostRule::parse(text) {
            Ok(rule) if rule.grantable().is_ok() && !text.starts_with('@') => {
                let policy = format!("network.allow = [\"{rule}\"]");
                let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
                let private = "a name that leads to a private address is refused";
                let both = "ports 80 and 443 only; a name that leads to a private address is refused";
                self.tightened(setting, policy, if has_port { private } else { both });
                self.layer.network.allow.push(rule);
            }
            _ => self.not_expressible(setting, "it is not a host, `*.` and a name, or an address"),
        }
    }

    pub(super) fn deny_host(&mut self, setting: &str, text: &str) {
        if text == "*" {
            self.denied_everywhere = true;
            return self.carried(setting, "network.mode = \"off\"", "");
        }
        if let Some(port) = text.strip_prefix("*:").and_then(|port| port.parse().ok()) {
            self.denied_ports.push(port);
            return self.carried(setting, "", "no rule for that port is granted");
        }
        if let Some((name, port)) = text.rsplit_once(':')
            && matches!(name, "localhost" | "127.0.0.1" | "[::1]")
            && let Ok(port) = port.parse()
        {
            self.denied_ports.push(port);
            return self.carried(setting, "", "no rule for that port is granted");
        }
        if matches!(text, "localhost" | "127.0.0.1" | "[::1]") {
            self.layer.network.local.clear();
            self.denied_ports.extend(0..=u16::MAX);
            return self.tightened(setting, "network.mode = \"off\"", "no port of this machine is granted");
        }
        match HostRule::parse(text) {
            Ok(rule) if !text.starts_with('@') => {
                self.carried(setting, format!("network.deny = [\"{rule}\"]"), "");
                self.layer.network.deny.push(rule);
            }
            _ => self.close_network(setting, "it can't be denied by itself"),
        }
    }

    /// Nothing may be reached: a setting limits it in a way that a policy can't.
    pub(super) fn close_network(&mut self, setting: &str, why: &str) {
        self.closed.get_or_insert_with(|| setting.to_owned());
        self.tightened(setting, "network.mode = \"off\"", why);
    }

    /// The layer, and a row for each setting.
    pub(super) fn finish(mut self) -> Result<(Layer, Vec<ImportRow>), ImportError> {
        self.finish_network();
        self.correct_rows();
        for (setting, place) in std::mem::take(&mut self.unwritable) {
            self.take_write(&setting, &place);
        }
        let reopened = std::mem::take(&mut self.reopened);
        for (setting, place) in std::mem::take(&mut self.hidden) {
            self.take_read(&setting, &place, &reopened)?;
        }
        for (setting, place) in reopened {
            self.finish_reopened(&setting, place.outer());
        }
        self.tidy();
        Ok((self.layer, self.rows))
    }

    fn finish_network(&mut self) {
        let network = &mut self.layer.network;
        if self.closed.is_some() || self.denied_everywhere {
            *network = crate::layer::NetworkLayer { mode: Some(NetworkMode::Off), ..Default::default() };
            return;
        }
        let denied = &self.denied_ports;
        network.local.retain(|port| !denied.contains(port));
        network.local.sort_unstable();
        network.local.dedup();
        if !denied.is_empty() {
            // A rule without a port is for 80 and 443, and one of them may be denied.
            let is_denied = |rule: &HostRule| match rule.port {
                Some(port) => denied.contains(&port),
                None => denied.contains(&80) || denied.contains(&443),
            };
            network.allow.retain(|rule| !is_denied(rule));
            if network.mode == Some(NetworkMode::Open) {
                network.mode = Some(NetworkMode::Off);
            }
        }
        if network.mode == Some(NetworkMode::Off) && !(network.allow.is_empty() && network.local.is_empty()) {
            network.mode = Some(NetworkMode::Allow);
        }
    }

    /// A grant that another setting took back is not told as one.
    fn correct_rows(&mut self) {
        let network = &self.layer.network;
        let allowed = network.allow.iter().map(|rule| format!("network.allow = [\"{rule}\"]"));
        let local = network.local.iter().map(|port| format!("network.local = [{port}]"));
        let open = (network.mode == Some(NetworkMode::Open)).then(|| "network.mode = \"open\"".to_owned());
        let kept: Vec<String> = allowed.chain(local).chain(open).collect();
        let is_off = network.mode == Some(NetworkMode::Off);
        let grants = ["network.allow = ", "network.local = ", "network.mode = \"open\""];
        for row in &mut self.rows {
            if grants.iter().any(|grant| row.policy.starts_with(grant)) && !kept.contains(&row.policy) {
                row.became = Became::Tightened;
                row.policy = if is_off { "network.mode = \"off\"".into() } else { String::new() };
                row.why = "another setting closes it".into();
            }
        }
    }

    /// `place` may not be written.
    fn take_write(&mut self, setting: &str, place: &Place) {
        let current = self.places.current.clone();
        let outer = place.outer().to_path_buf();
        let is_workspace = self.layer.filesystem.workspace == Some(Workspace::Current);
        // Outside the workspace there is no exception within a grant: the grant becomes one to read.
        let mut lost = Vec::new();
        self.layer.filesystem.write.retain(|granted| {
            let meets = granted.starts_with(&outer) || outer.starts_with(granted);
            if meets {
                lost.push(granted.clone());
            }
            !meets
        });
        let exact =
            lost.iter().all(|granted| granted.starts_with(&outer)) && matches!(place, Place::Path { .. });
        let mut policy: Vec<String> =
            lost.iter().map(|path| format!("filesystem.read = [\"{}\"]", path.display())).collect();
        self.layer.filesystem.read.extend(lost);
        if is_workspace && current.starts_with(&outer) {
            self.layer.filesystem.workspace = Some(Workspace::Private);
            self.see_current();
            policy.push("filesystem.workspace = \"private\"".into());
            let policy = policy.join(", ");
            return match place {
                Place::Path { .. } => self.carried(setting, policy, "the directory can be read"),
                Place::Pattern { .. } => self.tightened(
                    setting,
                    policy,
                    "a pattern can't be protected, so nothing of the directory can be written; \
                     name the files in `protect` and set the workspace to \"current\" instead",
                ),
            };
        }
        let below = outer.strip_prefix(&current).ok().filter(|_| is_workspace);
        match (below.map(Path::to_str), place) {
            (Some(Some(name)), Place::Path { as_directory, .. }) => {
                let name = format!("{name}{}", if *as_directory { "/" } else { "" });
                policy.push(format!("filesystem.protect = [\"{name}\"]"));
                self.layer.filesystem.protect.push(name);
                self.carried(setting, policy.join(", "), "");
            }
            (Some(Some(name)), Place::Pattern { .. }) => {
                policy.push(format!("filesystem.protect = [\"{name}/\"]"));
                self.layer.filesystem.protect.push(format!("{name}/"));
                let why = "a pattern can't be protected, so the whole directory is";
                self.tightened(setting, policy.join(", "), why);
            }
            (Some(None), _) => {
                self.layer.filesystem.workspace = Some(Workspace::Private);
                self.see_current();
                self.tightened(setting, "filesystem.workspace = \"private\"", "its path is not UTF-8");
            }
            (None, _) if exact => self.carried(setting, policy.join(", "), "nothing there can be written"),
            (None, _) => {
                let why = "an exception in a directory outside the workspace can't be kept, so all of it is read-only";
                self.tightened(setting, policy.join(", "), why);
            }
        }
    }

    /// `place` may not be read, but for what is reopened in it.
    fn take_read(
        &mut self,
        setting: &str,
        place: &Place,
        reopened: &[(String, Place)],
    ) -> Result<(), ImportError> {
        let outer = place.outer().to_path_buf();
        let covers_system = |path: &Path| SYSTEM.iter().any(|system| Path::new(system).starts_with(path));
        if covers_system(&outer) {
            if let (Place::Pattern { .. }, true) = (place, outer == Path::new("/")) {
                let why = "a pattern that begins at / is skipped on Linux, also by the tool itself";
                self.not_expressible(setting, why);
                return Ok(());
            }
            let path = outer.display().to_string();
            return Err(ImportError::HidesSystem { setting: setting.to_owned(), path });
        }
        let in_system = SYSTEM.iter().any(|system| outer.starts_with(system));
        let is_reopened = |path: &Path| {
            reopened
                .iter()
                .any(|(_, place)| path.starts_with(place.outer()) && place.outer().starts_with(&outer))
        };
        let filesystem = &mut self.layer.filesystem;
        let grants: Vec<&PathBuf> = filesystem.read.iter().chain(&filesystem.write).collect();
        let current = &self.places.current;
        let shown_below = |path: &Path| path.starts_with(&outer) && is_reopened(path);
        let is_workspace = filesystem.workspace == Some(Workspace::Current);
        let reopens_something = grants.iter().any(|path| shown_below(path))
            || (is_workspace && shown_below(current))
            || reopened.iter().any(|(_, place)| place.outer().starts_with(&outer));
        // What is not granted in it goes.
        filesystem.read.retain(|path| !path.starts_with(&outer) || is_reopened(path));
        filesystem.write.retain(|path| !path.starts_with(&outer) || is_reopened(path));
        let mut policy = Vec::new();
        if is_workspace && current.starts_with(&outer) && !is_reopened(current) {
            filesystem.workspace = Some(Workspace::Private);
            policy.push("filesystem.workspace = \"private\"".to_owned());
        }
        if reopens_something && !in_system && !outer.starts_with(current) {
            // Not hidden, which would win over what is reopened, but not there at all.
            filesystem.host = Some(HostFiles::System);
            filesystem.toolchains = Some(false);
            policy.push("filesystem.host = \"system\", filesystem.toolchains = false".to_owned());
            let why = "nothing outside of system directories is there but what is named";
            self.tightened(setting, policy.join(", "), why);
            return Ok(());
        }
        policy.push(format!("filesystem.hide = [\"{}\"]", outer.display()));
        // A path that is granted and hidden is refused; what holds it is enough.
        filesystem.read.retain(|path| !path.starts_with(&outer));
        filesystem.write.retain(|path| !path.starts_with(&outer));
        filesystem.hide.push(outer.clone());
        match place {
            Place::Path { .. } => self.carried(setting, policy.join(", "), ""),
            Place::Pattern { .. } => {
                let why =
                    "a pattern can't be hidden, so the whole directory is; name the files in `hide` instead";
                self.tightened(setting, policy.join(", "), why);
            }
        }
        Ok(())
    }

    fn finish_reopened(&mut self, setting: &str, path: &Path) {
        let filesystem = &self.layer.filesystem;
        let hidden = filesystem.hide.iter().any(|hidden| path.starts_with(hidden));
        let is_workspace = filesystem.workspace == Some(Workspace::Current);
        if hidden {
            self.tightened(setting, "", "what is hidden stays hidden, `hide` wins over everything");
        } else if is_workspace && path.starts_with(&self.places.current) {
            self.carried(setting, "filesystem.workspace = \"current\"", "");
        } else if let Some(why) = self.unfit(path) {
            self.tightened(setting, "", why);
        } else {
            self.layer.filesystem.read.push(path.to_path_buf());
            self.carried(setting, format!("filesystem.read = [\"{}\"]", path.display()), "");
        }
    }

    /// Each path once, and none to read that can be written.
    fn tidy(&mut self) {
        let current = &self.places.current;
        let filesystem = &mut self.layer.filesystem;
        let is_workspace = filesystem.workspace == Some(Workspace::Current);
        let all = filesystem.host == Some(HostFiles::All);
        for list in [&mut filesystem.write, &mut filesystem.hide] {
            list.sort();
            list.dedup();
        }
        let write = filesystem.write.clone();
        filesystem.read.sort();
        filesystem.read.dedup();
        filesystem.read.retain(|path| {
            let is_written = write.contains(path) || (is_workspace && path.starts_with(current));
            // Where all is shown, the directory is there anyway; a grant by name would also show a secret in it.
            !is_written && (!all || (path == current && is_below_private(path)))
        });
        filesystem.protect.sort();
        filesystem.protect.dedup();
    }
}

/// In a directory that every sandbox has its own of, so that only a grant shows it.
fn is_below_private(path: &Path) -> bool {
    PRIVATE.iter().any(|own| path.starts_with(own))
}
