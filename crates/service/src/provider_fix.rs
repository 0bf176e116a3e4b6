//! What would put a provider on this host: commands, shown before any of them runs. Which they are is decided from facts about
//! the host alone; a provider that is here already needs none.

use std::path::Path;
use std::process::{Command, Stdio};

use ringfence_policy::ProviderName;
use ringfence_sandbox::{ProviderRow, provider_rows};
use serde::Serialize;

use crate::error::{ErrorCode, ServiceError};

/// One command, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FixStep {
    pub command: Vec<String>,
    pub why: String,
}

/// What has to be done for a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderFix {
    pub provider: ProviderName,
    /// None, where it is here already.
    pub steps: Vec<FixStep>,
}

/// Who installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packages {
    Apt,
    Dnf,
    Pacman,
    Apk,
}

/// What decides on the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    packages: Option<Packages>,
    is_root: bool,
    sudo: bool,
    /// An init that starts services.
    systemd: bool,
}

/// Only places that root alone writes: what a project puts on PATH is not run with root's rights.
const PLACES: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];

/// What to do so that `provider` can be used here.
pub fn provider_fix(provider: ProviderName) -> Result<ProviderFix, ServiceError> {
    let found = found(provider)?;
    if found.available {
        return Ok(ProviderFix { provider, steps: Vec::new() });
    }
    steps(provider, Facts::look(), &found.why, &found.fix).map(|steps| ProviderFix { provider, steps })
}

/// Run the commands, each with this process's own terminal, and look again. The first one that fails ends it.
pub fn carry_out_fix(fix: &ProviderFix) -> Result<ProviderRow, ServiceError> {
    for FixStep { command, .. } in &fix.steps {
        let Some((program, words)) = command.split_first() else { continue };
        let program = absolute(program).unwrap_or_else(|| program.clone());
        let status = Command::new(&program)
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .status()
            .map_err(|error| failed(command, &error.to_string()))?;
        if !status.success() {
            return Err(failed(command, &status.to_string()));
        }
    }
    let row = found(fix.provider)?;
    if row.available {
        return Ok(row);
    }
    Err(ServiceError::new(
        ErrorCode::Missing,
        format!("the commands ran, and `{}` still can't be used: {}", fix.provider, row.why),
        row.fix,
    ))
}

fn found(provider: ProviderName) -> Result<ProviderRow, ServiceError> {
    let row = provider_rows().into_iter().find(|row| row.name == provider);
    row.ok_or_else(|| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("`{provider}` is a choice, not a provider that could be installed"),
            "name one: see `ringfence provider ls`",
        )
    })
}

fn failed(command: &[String], why: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::Missing,
        format!("`{}` failed: {why}", command.join(" ")),
        "run it yourself to see more; what the commands before it installed is still there",
    )
}

fn absolute(program: &str) -> Option<String> {
    let found = PLACES.iter().map(|place| Path::new(place).join(program)).find(|path| path.is_file());
    found.map(|path| path.display().to_string())
}

impl Facts {
    fn look() -> Self {
        let managers = [
            ("apt-get", Packages::Apt),
            ("dnf", Packages::Dnf),
            ("pacman", Packages::Pacman),
            ("apk", Packages::Apk),
        ];
        let packages = managers.into_iter().find(|(program, _)| absolute(program).is_some());
        Self {
            packages: packages.map(|(_, packages)| packages),
            is_root: rustix::process::geteuid().is_root(),
            sudo: absolute("sudo").is_some(),
            systemd: Path::new("/run/systemd/system").is_dir(),
        }
    }
}

/// The packages of a provider, by who installs them. Empty: there are none.
fn packages(provider: ProviderName, by: Packages) -> &'static [&'static str] {
    use Packages::{Apk, Apt, Dnf, Pacman};
    match (provider, by) {
        (ProviderName::Bwrap, _) => &["bubblewrap"],
        (ProviderName::Oci, _) => &["crun"],
        (ProviderName::Gvisor, Apt) => &["runsc"],
        (ProviderName::Docker, Apt) => &["docker.io"],
        (ProviderName::Docker, Dnf) => &["moby-engine"],
        (ProviderName::Docker, Pacman | Apk) => &["docker"],
        (ProviderName::Microvm, Apt) if cfg!(target_arch = "aarch64") => &["qemu-system-arm"],
        (ProviderName::Microvm, Apt) => &["qemu-system-x86"],
        (ProviderName::Microvm, Dnf) => &["qemu-kvm", "virtiofsd"],
        (ProviderName::Microvm, Pacman) => &["qemu-base", "virtiofsd"],
        (ProviderName::Microvm, Apk) if cfg!(target_arch = "aarch64") => {
            &["qemu-system-aarch64", "virtiofsd"]
        }
        (ProviderName::Microvm, Apk) => &["qemu-system-x86_64", "virtiofsd"],
        _ => &[],
    }
}

fn steps(
    provider: ProviderName,
    facts: Facts,
    why_not: &str,
    by_hand: &str,
) -> Result<Vec<FixStep>, ServiceError> {
    let nothing = |what: String| ServiceError::new(ErrorCode::Missing, what, by_hand);
    let Some(manager) = facts.packages else {
        return Err(nothing(format!(
            "`{provider}` can't be used ({why_not}), and none of apt-get, dnf, pacman and apk is here to install it"
        )));
    };
    let packages = packages(provider, manager);
    if packages.is_empty() {
        return Err(nothing(format!(
            "`{provider}` can't be used ({why_not}), and no package of this system is known to change that"
        )));
    }
    let mut steps = Vec::new();
    let mut add = |words: &[&str], why: &str| {
        let sudo = (!facts.is_root).then_some("sudo");
        let command = sudo.iter().chain(words).map(|word| (*word).to_owned()).collect();
        steps.push(FixStep { command, why: why.to_owned() });
    };
    let install: &[&str] = match manager {
        Packages::Apt => {
            add(&["apt-get", "update"], "know what packages there are");
            &["apt-get", "install", "-y", "--no-install-recommends"]
        }
        Packages::Dnf => &["dnf", "install", "-y"],
        Packages::Pacman => &["pacman", "-S", "--noconfirm", "--needed"],
        Packages::Apk => &["apk", "add"],
    };
    add(&[install, packages].concat(), "install what makes the sandboxes");
    if provider == ProviderName::Docker && facts.systemd {
        add(&["systemctl", "enable", "--now", "docker"], "start its daemon, now and at every start");
    }
    if !facts.is_root && !facts.sudo {
        let lines: Vec<String> = steps.iter().map(|step| step.command[1..].join(" ")).collect();
        return Err(ServiceError::new(
            ErrorCode::Missing,
            format!("installing `{provider}` takes root's rights, and there is no sudo here"),
            format!("as root: {}", lines.join(" && ")),
        ));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Facts = Facts { packages: Some(Packages::Apt), is_root: true, sudo: false, systemd: true };

    fn lines(provider: ProviderName, facts: Facts) -> Result<Vec<String>, ServiceError> {
        let steps = steps(provider, facts, "it is not installed", "install it")?;
        Ok(steps.into_iter().map(|step| step.command.join(" ")).collect())
    }

    #[test]
    fn each_package_manager_has_its_words() {
        let told = lines(ProviderName::Bwrap, ROOT).unwrap();
        assert_eq!(told, ["apt-get update", "apt-get install -y --no-install-recommends bubblewrap"]);
        let told = lines(ProviderName::Docker, Facts { packages: Some(Packages::Dnf), ..ROOT }).unwrap();
        assert_eq!(told, ["dnf install -y moby-engine", "systemctl enable --now docker"]);
        let plain = Facts { packages: Some(Packages::Apk), systemd: false, ..ROOT };
        assert_eq!(lines(ProviderName::Docker, plain).unwrap(), ["apk add docker"]);
    }

    #[test]
    fn an_ordinary_user_needs_sudo_and_is_told_what_to_do_without() {
        let with = Facts { is_root: false, sudo: true, ..ROOT };
        assert!(lines(ProviderName::Oci, with).unwrap().iter().all(|line| line.starts_with("sudo ")));
        let refused = lines(ProviderName::Oci, Facts { sudo: false, ..with }).unwrap_err();
        assert_eq!(
            refused.hint,
            "as root: apt-get update && apt-get install -y --no-install-recommends crun"
        );
    }

    #[test]
    fn what_no_package_brings_is_said() {
        let pacman = Facts { packages: Some(Packages::Pacman), ..ROOT };
        assert!(
            lines(ProviderName::Gvisor, pacman).unwrap_err().message.contains("no package of this system")
        );
        let nobody = Facts { packages: None, ..ROOT };
        assert!(lines(ProviderName::Bwrap, nobody).unwrap_err().message.contains("none of apt-get"));
        assert!(provider_fix(ProviderName::Auto).is_err());
        assert_eq!(provider_fix(ProviderName::Native).unwrap().steps, []);
    }

    /// A command that fails is the end of it, and says which it was.
    #[test]
    fn a_command_that_fails_is_named() {
        let step = FixStep { command: vec!["false".into(), "it".into()], why: String::new() };
        let after =
            FixStep { command: vec!["touch".into(), "/ringfence-fix-test".into()], why: String::new() };
        let fix = ProviderFix { provider: ProviderName::Native, steps: vec![step, after] };
        let failed = carry_out_fix(&fix).unwrap_err();
        assert!(failed.message.contains("`false it` failed"), "{}", failed.message);
        assert!(!Path::new("/ringfence-fix-test").exists());
        let fix = ProviderFix { steps: Vec::new(), ..fix };
        assert!(carry_out_fix(&fix).unwrap().available);
    }
}
