//! A merged policy as rows and as JSON, each clause with its origin: `ringfence policy show`.

use std::fmt::Display;

use serde::Serialize;
use serde_json::{Value, json};

use crate::merge::Merged;
use crate::model::{HostFiles, NetworkMode, SyscallProfile};

/// One clause, or one element of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub clause: String,
    pub value: String,
    pub origin: String,
}

struct Rows<'a> {
    merged: &'a Merged,
    rows: Vec<Row>,
}

impl Merged {
    /// Every clause with its value and origin, in the order of the file format. An empty list is one row, `none`.
    pub fn rows(&self) -> Vec<Row> {
        let policy = &self.policy;
        let mut rows = Rows { merged: self, rows: Vec::with_capacity(64) };
        rows.one("profile", policy.profile);
        rows.one("provider", policy.provider);
        rows.limit("image", policy.image.as_deref());
        if let Some(runtime) = &policy.runtime {
            rows.one("runtime", runtime);
        }
        rows.list("waive", policy.waived.iter());

        let fs = &policy.filesystem;
        rows.one("filesystem.host", fs.host);
        rows.one("filesystem.toolchains", fs.toolchains);
        rows.one("filesystem.workspace", &fs.workspace);
        rows.list("filesystem.read", fs.read.iter().map(|path| path.display()));
        rows.list("filesystem.write", fs.write.iter().map(|path| path.display()));
        rows.list("filesystem.hide", fs.hide.iter().map(|path| path.display()));
        rows.one("filesystem.tmp", fs.tmp);
        rows.list("filesystem.unprotect", fs.unprotect.iter());
        rows.list("filesystem.protect", fs.protect.iter());

        rows.one("network.mode", policy.network.mode);
        rows.list("network.allow", policy.network.allow.iter());
        rows.list("network.deny", policy.network.deny.iter());
        rows.list("network.private", policy.network.private.iter());
        rows.list("network.local", policy.network.local.iter());
        rows.list("network.no_sni", policy.network.no_sni.iter());
        let groups = policy.network.groups.iter();
        let groups: Vec<String> = groups
            .flat_map(|(name, rules)| rules.iter().map(move |rule| format!("@{name} {rule}")))
            .collect();
        rows.list("network.groups", groups.iter());
        rows.list("network.http", policy.network.http.iter());
        rows.list("network.secrets", policy.network.secrets.iter());

        let limits = &policy.limits;
        rows.limit("limits.cpus", limits.cpus);
        rows.limit("limits.memory", limits.memory);
        rows.limit("limits.processes", limits.processes);
        rows.limit("limits.disk", limits.disk);
        rows.limit("limits.open_files", limits.open_files);
        rows.limit("limits.output", limits.output);
        rows.limit("limits.wall_time", limits.wall_time);
        rows.limit("limits.connections", limits.connections);
        rows.limit("limits.bandwidth", limits.bandwidth);

        rows.one("syscalls.profile", policy.syscalls.profile);
        rows.list("syscalls.allow", policy.syscalls.allow.iter());
        rows.list("syscalls.deny", policy.syscalls.deny.iter());
        rows.one("syscalls.compat", policy.syscalls.compat);

        rows.variables();
        rows.list("environment.pass", policy.environment.pass.iter());

        rows.one("identity.user", policy.identity.user.as_deref().unwrap_or("the caller"));
        rows.one("identity.hostname", &policy.identity.hostname);
        rows.rows
    }

    /// The policy and its rows, as `policy show --json` prints them.
    pub fn to_json(&self) -> Value {
        json!({ "policy": self.policy, "clauses": self.rows() })
    }
}

impl Rows<'_> {
    fn one(&mut self, clause: &str, value: impl Display) {
        let origin = self.merged.origins.of(clause).to_string();
        self.rows.push(Row { clause: clause.to_owned(), value: value.to_string(), origin });
    }

    fn limit(&mut self, clause: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.one(clause, value),
            None => self.one(clause, "none"),
        }
    }

    fn list(&mut self, clause: &str, items: impl ExactSizeIterator<Item = impl Display>) {
        if items.len() == 0 {
            return self.one(clause, "none");
        }
        for item in items {
            let value = item.to_string();
            let origin = self.merged.origins.of_item(clause, &value).to_string();
            self.rows.push(Row { clause: clause.to_owned(), value, origin });
        }
    }

    fn variables(&mut self) {
        let clause = "environment.set";
        let set = &self.merged.policy.environment.set;
        if set.is_empty() {
            return self.one(clause, "none");
        }
        for (name, value) in set {
            let origin = self.merged.origins.of_item(clause, name).to_string();
            self.rows.push(Row { clause: clause.to_owned(), value: format!("{name}={value}"), origin });
        }
    }
}

impl Display for HostFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            HostFiles::System => "system",
            HostFiles::All => "all",
        })
    }
}

impl Display for NetworkMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            NetworkMode::Off => "off",
            NetworkMode::Allow => "allow",
            NetworkMode::Open => "open",
        })
    }
}

impl Display for SyscallProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            SyscallProfile::Default => "default",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Layer, Merged, Origin, ProfileName, merge};

    fn table(merged: &Merged) -> String {
        let line = |row: &crate::Row| format!("{:<22} {:<22} {}", row.clause, row.value, row.origin);
        merged.rows().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn profiles() {
        for name in ProfileName::ALL {
            insta::assert_snapshot!(format!("profile_{name}"), table(&merge(name, &[]).unwrap()));
        }
    }

    #[test]
    fn each_element_has_its_own_origin() {
        let user = Layer::from_toml(
            "[filesystem]\nread = ['/srv/a', '/srv/b']\n[limits]\nmemory = '1G'\n[environment]\nset = { A = '1', B = '2' }",
        );
        let flags = Layer::from_toml(
            "[filesystem]\nread = ['/srv/b', '/srv/c']\n[limits]\nmemory = 'none'\n[environment]\nset = { B = '3' }",
        );
        let layers = [
            (Origin::file("/home/u/.config/ringfence/config.toml", "user"), user.unwrap()),
            (Origin::flag("flags"), flags.unwrap()),
        ];
        let merged = merge(ProfileName::Restrictive, &layers).unwrap();
        let interesting: Vec<String> = table(&merged)
            .lines()
            .filter(|line| !line.contains("profile restrictive"))
            .map(str::to_owned)
            .collect();
        insta::assert_snapshot!("origins", interesting.join("\n"));
    }

    #[test]
    fn json_has_policy_and_origins() {
        let json = merge(ProfileName::Moderate, &[]).unwrap().to_json();
        assert_eq!(json["policy"]["limits"]["memory"], "8G");
        assert_eq!(json["policy"]["filesystem"]["workspace"], "current");
        assert_eq!(json["clauses"][0]["origin"], "profile moderate");
    }
}
