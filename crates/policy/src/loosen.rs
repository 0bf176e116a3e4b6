//! What a project's own file may not do before its user trusts it: loosen.
//!
//! A `ringfence.toml` comes with a clone. It may hide, deny and lower limits; whatever would give the sandbox more
//! than it had is named here. Where it is not clear which side a change is on, it is taken as a loosening.

use serde::Serialize;

use crate::bound::Bound;
use crate::environment::covers;
use crate::layer::{Layer, NetworkLayer};
use crate::merge::{MergeError, merge_part};
use crate::model::{Network, NetworkMode, Policy, ProfileName, Workspace};
use crate::origin::Origin;
use crate::provider::ProviderName;
use crate::runtime::RuntimeName;

/// One clause that would give the sandbox more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loosening {
    /// The key in the file: `limits.memory`.
    pub clause: &'static str,
    /// From what to what.
    pub detail: String,
    /// An element added to a list, rather than a value changed.
    #[serde(skip)]
    is_item: bool,
}

/// Which clauses of the layer at `project` would give more than all the other layers do without it.
///
/// The flags must be among `layers`. Compared with less than the whole, a file that spells out what the default
/// profile has anyway would pass, and then hold against `--profile restrictive`.
pub fn project_loosens(
    base: ProfileName,
    layers: &[(Origin, Layer)],
    project: usize,
) -> Result<Vec<Loosening>, MergeError> {
    let Some((origin, layer)) = layers.get(project) else { return Ok(Vec::new()) };
    let others: Vec<_> =
        layers.iter().enumerate().filter(|(i, _)| *i != project).map(|(_, layer)| layer.clone()).collect();
    let before = merge_part(base, &others)?;
    let mut found = loosens(&before.policy, layer);
    if !found.is_empty() {
        // A value that a later layer replaces anyway loosens nothing.
        let after = merge_part(base, layers)?;
        found.retain(|loosening| after.origins.of(loosening.clause) == origin || loosening.is_item);
    }
    Ok(found)
}

/// Which clauses of `layer` would loosen `before`, the policy of everything but this layer. Empty: merging it gives
/// nothing more.
pub fn loosens(before: &Policy, layer: &Layer) -> Vec<Loosening> {
    let mut found = Found(Vec::new());
    if let Some(profile) = layer.profile.filter(|profile| *profile > before.profile) {
        found.change("profile", before.profile, profile);
    }
    let weaker =
        |other: &ProviderName| *other != before.provider && other.strength() <= before.provider.strength();
    if let Some(provider) = layer.provider.filter(weaker) {
        found.change("provider", before.provider, provider);
    }
    // Other programs, and settings of theirs: what they are is not known here.
    if let Some(image) = layer.image.as_ref().filter(|image| before.image.as_ref() != Some(*image)) {
        found.change("image", before.image.as_deref().unwrap_or("none"), image);
    }
    if let Some(runtime) = &layer.runtime
        && before.runtime.as_ref() != Some(runtime)
    {
        let had = before.runtime.as_ref().map_or("the provider's own choice", RuntimeName::as_str);
        found.change("runtime", had, runtime);
    }
    for clause in layer.waive.iter().filter(|clause| !before.waived.contains(clause)) {
        found.add("waive", clause);
    }
    filesystem(before, layer, &mut found);
    limits(before, layer, &mut found);

    network(&before.network, &layer.network, &mut found);

    let (old, new) = (&before.syscalls, &layer.syscalls);
    for name in new.allow.iter().filter(|name| !old.allow.contains(*name)) {
        found.add("syscalls.allow", name);
    }
    if new.compat == Some(true) && !old.compat {
        found.change("syscalls.compat", false, true);
    }

    let (old, new) = (&before.environment, &layer.environment);
    for (name, _) in new.set.iter().filter(|(name, value)| old.set.get(*name) != Some(*value)) {
        // A variable is a lever: LD_PRELOAD, GIT_SSH_COMMAND, BASH_ENV.
        found.add("environment.set", name);
    }
    for name in new.pass.iter().filter(|name| !old.pass.iter().any(|pattern| covers(pattern, name))) {
        found.add("environment.pass", name);
    }
    // identity.user and identity.hostname are names inside, and open nothing.
    found.0
}

fn filesystem(before: &Policy, layer: &Layer, found: &mut Found) {
    let (old, new) = (&before.filesystem, &layer.filesystem);
    if let Some(host) = new.host.filter(|host| *host > old.host) {
        found.change("filesystem.host", old.host, host);
    }
    if new.toolchains == Some(true) && !old.toolchains {
        found.change("filesystem.toolchains", false, true);
    }
    if let Some(workspace) = &new.workspace
        && *workspace != old.workspace
        && *workspace != Workspace::Private
    {
        found.change("filesystem.workspace", &old.workspace, workspace);
    }
    let bytes = |path: &std::path::PathBuf| path.as_os_str().to_owned();
    for path in new.read.iter().filter(|path| !old.read.iter().any(|known| bytes(known) == bytes(path))) {
        found.add("filesystem.read", path.display());
    }
    for path in new.write.iter().filter(|path| !old.write.iter().any(|known| bytes(known) == bytes(path))) {
        found.add("filesystem.write", path.display());
    }
    if let Some(tmp) = new.tmp.filter(|tmp| *tmp > old.tmp) {
        found.change("filesystem.tmp", old.tmp, tmp);
    }
    for name in new.unprotect.iter().filter(|name| !old.unprotect.contains(*name)) {
        found.add("filesystem.unprotect", name);
    }
}

fn network(old: &Network, new: &NetworkLayer, found: &mut Found) {
    if let Some(mode) = new.mode.filter(|mode| *mode > old.mode) {
        found.change("network.mode", old.mode, mode);
    }
    let start = found.0.len();
    for rule in new.allow.iter().filter(|rule| !old.covers(rule)) {
        found.add("network.allow", rule);
    }
    for port in new.local.iter().filter(|port| !old.local.contains(port)) {
        found.add("network.local", port);
    }
    if new.lifts() && old.mode == NetworkMode::Off && found.0.len() == start {
        found.change("network.mode", old.mode, NetworkMode::Allow);
    }
    for range in new.private.iter().filter(|range| !old.private.iter().any(|known| known.covers(range))) {
        found.add("network.private", range);
    }
    for name in new.no_sni.iter().filter(|name| !old.no_sni.contains(*name)) {
        found.add("network.no_sni", name);
    }
    for (name, rules) in &new.groups {
        let known = old.groups.get(name).map_or(&[][..], Vec::as_slice);
        for rule in rules.iter().filter(|rule| !known.contains(rule)) {
            found.add("network.groups", format!("@{name} {rule}"));
        }
    }
    // The first rule of a host closes all that it does not name; another one opens what that one closed.
    for rule in &new.http {
        let mut known = old.http.iter().filter(|known| known.host == rule.host).peekable();
        if known.peek().is_some() && !known.any(|known| known.covers(rule)) {
            found.add("network.http", rule);
        }
    }
    for secret in new.secrets.iter().filter(|secret| !old.secrets.contains(secret)) {
        found.add("network.secrets", secret);
    }
}

fn limits(before: &Policy, layer: &Layer, found: &mut Found) {
    let (old, new) = (&before.limits, &layer.limits);
    found.limit("limits.cpus", old.cpus, new.cpus.map(|bound| bound.map(|cpus| cpus.0)));
    found.limit("limits.memory", old.memory, new.memory);
    found.limit("limits.processes", old.processes, new.processes);
    found.limit("limits.disk", old.disk, new.disk);
    found.limit("limits.open_files", old.open_files, new.open_files);
    found.limit("limits.output", old.output, new.output);
    found.limit("limits.wall_time", old.wall_time, new.wall_time);
    found.limit("limits.connections", old.connections, new.connections);
    found.limit("limits.bandwidth", old.bandwidth, new.bandwidth);
}

struct Found(Vec<Loosening>);

impl Found {
    fn change(&mut self, clause: &'static str, from: impl ToString, to: impl ToString) {
        self.0.push(Loosening {
            clause,
            detail: format!("from {} to {}", from.to_string(), to.to_string()),
            is_item: false,
        });
    }

    fn add(&mut self, clause: &'static str, item: impl ToString) {
        self.0.push(Loosening { clause, detail: format!("adds {}", item.to_string()), is_item: true });
    }

    fn limit<T: PartialOrd + ToString>(
        &mut self,
        clause: &'static str,
        old: Option<T>,
        new: Option<Bound<T>>,
    ) {
        let Some(old) = old else { return };
        match new {
            None => {}
            // Not `new > old`: a value that can't be compared counts as larger.
            Some(Bound::At(new)) if new <= old => {}
            Some(Bound::At(new)) => self.change(clause, old, new),
            Some(Bound::Unlimited) => self.change(clause, old, "none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    fn named(before: ProfileName, text: &str) -> Vec<String> {
        let layer = Layer::from_toml(text).unwrap();
        loosens(&profile(before), &layer).iter().map(|l| format!("{}: {}", l.clause, l.detail)).collect()
    }

    #[test]
    fn each_kind_of_loosening_is_named() {
        let text = r#"
            profile = "permissive"
            image = "theirs"
            waive = ["network", "limits.memory"]
            [filesystem]
            host = "all"
            toolchains = true
            workspace = "/home"
            read = ["/srv"]
            write = ["/srv/out"]
            hide = ["/usr/share/doc"]
            tmp = "1T"
            unprotect = [".git/hooks"]
            [network]
            mode = "open"
            allow = ["example.org"]
            deny = ["bad.example.org"]
            private = ["10.0.0.0/8"]
            local = [5432]
            no_sni = ["example.org"]
            groups = { work = ["example.org"] }
            http = [{ host = "example.org", methods = ["GET"] }]
            secrets = [{ name = "A", from = "cmd:id", hosts = ["example.org"] }]
            [limits]
            cpus = 64
            memory = "none"
            processes = 100000
            disk = "1T"
            open_files = "none"
            output = "1G"
            wall_time = "24h"
            [syscalls]
            allow = ["ptrace"]
            deny = ["socket"]
            compat = true
            [environment]
            set = { LD_PRELOAD = "./evil.so" }
            pass = ["AWS_*", "LC_ALL"]
            [identity]
            user = "dev"
            hostname = "box"
        "#;
        insta::assert_snapshot!("loosenings", named(ProfileName::Restrictive, text).join("\n"));
    }

    #[test]
    fn tightening_is_silent() {
        let text = r#"
            profile = "restrictive"
            [filesystem]
            host = "system"
            toolchains = false
            workspace = "private"
            hide = ["~/secret"]
            tmp = "1M"
            [network]
            mode = "off"
            deny = ["example.org"]
            http = [{ host = "example.org", methods = ["GET"] }, { host = "example.org", paths = ["/"] }]
            [limits]
            cpus = 0.5
            memory = "1M"
            wall_time = "1s"
            connections = 1
            bandwidth = "1K"
            [syscalls]
            deny = ["socket"]
            compat = false
            [environment]
            pass = ["PATH", "LC_ALL"]
        "#;
        for name in ProfileName::ALL {
            assert_eq!(named(name, text), Vec::<String>::new(), "{name}");
        }
    }

    fn after(user: &str, project: &str) -> Vec<String> {
        let layer = |origin: &str, text: &str| (Origin::flag(origin), Layer::from_toml(text).unwrap());
        let layers = [layer("user", user), layer("project", project)];
        let found = project_loosens(ProfileName::Moderate, &layers, 1).unwrap();
        found.iter().map(|l| format!("{}: {}", l.clause, l.detail)).collect()
    }

    #[test]
    fn a_rule_that_another_covers_is_no_loosening() {
        let user = "[network]\nallow = ['*.example.org', 'a.example:22', '@work']\ngroups = { work = ['b.example'] }\n\
                    private = ['10.0.0.0/8']\nhttp = [{ host = 'c.example', methods = ['GET', 'PUT'], paths = ['/a'] }]";
        for fine in [
            "allow = ['api.example.org', '*.x.example.org:443']",
            "allow = ['b.example:443', '@work']",
            "private = ['10.1.0.0/16', '10.0.0.5']",
            "http = [{ host = 'c.example', methods = ['GET'], paths = ['/a/b'] }]",
            "http = [{ host = 'd.example', methods = ['GET'] }]",
            "groups = { work = ['b.example'] }",
            "mode = 'allow'",
            "mode = 'off'",
        ] {
            assert_eq!(after(user, &format!("[network]\n{fine}")), Vec::<String>::new(), "{fine}");
        }
        for (more, named) in [
            ("allow = ['example.org']", "network.allow: adds example.org"),
            ("allow = ['a.example']", "network.allow: adds a.example"),
            ("allow = ['@work', '@home']", "network.allow: adds @home"),
            ("private = ['172.16.0.0/12']", "network.private: adds 172.16.0.0/12"),
            ("http = [{ host = 'c.example', paths = ['/a'] }]", "network.http: adds c.example * /a"),
            ("groups = { work = ['evil.example'] }", "network.groups: adds @work evil.example"),
            ("groups = { home = ['b.example'] }", "network.groups: adds @home b.example"),
            ("mode = 'open'", "network.mode: from allow to open"),
        ] {
            assert_eq!(after(user, &format!("[network]\n{more}")), [named]);
        }
    }

    #[test]
    fn a_rule_that_lifts_the_mode_is_a_loosening() {
        let off = "[network]\nmode = 'off'\nallow = ['example.org']\nlocal = [80]";
        for project in ["[network]\nallow = ['example.org']", "[network]\nlocal = [80]"] {
            assert_eq!(after(off, project), ["network.mode: from off to allow"]);
        }
        assert!(after(off, "[network]\nmode = 'off'\nallow = ['example.org']").is_empty());
    }

    #[test]
    fn open_has_every_name_and_public_address_already() {
        let open = "[network]\nmode = 'open'";
        assert!(after(open, "[network]\nallow = ['example.org:22', '192.0.2.1:22']").is_empty());
        assert!(after(open, "[network]\nmode = 'allow'\nallow = ['example.org']").is_empty());
        assert_eq!(after(open, "[network]\nallow = ['10.0.0.1:22']"), ["network.allow: adds 10.0.0.1:22"]);
    }

    #[test]
    fn a_file_is_held_to_the_flags_too() {
        let layer = |origin: &str, text: &str| (Origin::flag(origin), Layer::from_toml(text).unwrap());
        let clauses = |layers: &[(Origin, Layer)]| -> Vec<&str> {
            let found = project_loosens(ProfileName::Moderate, layers, 0).unwrap();
            found.iter().map(|loosening| loosening.clause).collect()
        };
        let project = layer("project", "[filesystem]\nworkspace = 'current'\n[limits]\nmemory = '4G'");
        assert!(clauses(std::slice::from_ref(&project)).is_empty());
        let restrictive = layer("--profile", "profile = 'restrictive'");
        assert_eq!(clauses(&[project.clone(), restrictive]), ["filesystem.workspace", "limits.memory"]);
        // The flag wins over the file, so the file does no harm.
        let memory = layer("--memory", "[limits]\nmemory = '2G'");
        assert!(clauses(&[project, memory]).is_empty());
    }
}
