//! What would put a provider on this host: commands, shown before any of them runs. Which they are is decided from facts about
//! the host alone; a provider that is here already needs none.

use std::path::Path;
use std::process::{Command, Stdio};

use ringfence_policy::ProviderName;
use ringfence_sandbox::{Cause, Presence, probe};
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
    /// Docker's own service is what is looked for: no other socket, of the caller's or of Podman's.
    docker_service: bool,
}

/// Only places that root alone writes: what a project puts on PATH is not run with root's rights.
const PLACES: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];

/// A provider that can be used now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsableProvider {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    pub version: String,
}

/// What to do so that `provider` can be used here.
pub fn provider_fix(provider: ProviderName) -> Result<ProviderFix, ServiceError> {
    match presence(provider)? {
        Presence::Here { .. } => Ok(ProviderFix { provider, steps: Vec::new() }),
        Presence::Missing { cause, why, fix } => {
            let steps = steps(provider, Facts::look(), cause, &why, &fix)?;
            Ok(ProviderFix { provider, steps })
        }
    }
}

/// Run the commands, what they say to stderr, and look again. The first one that fails ends it.
pub fn carry_out_fix(fix: &ProviderFix) -> Result<UsableProvider, ServiceError> {
    for FixStep { command, .. } in &fix.steps {
        let Some((program, words)) = command.split_first() else { continue };
        let program = absolute(program)
            .ok_or_else(|| failed(command, &format!("{} does not have it", PLACES.join(", "))))?;
        let status = Command::new(&program)
            .args(words)
            // What it starts itself is found there too, and nowhere else.
            .env("PATH", PLACES.join(":"))
            .stdin(Stdio::null())
            // Our own stdout is for the answer alone.
            .stdout(std::io::stderr())
            .status()
            .map_err(|error| failed(command, &error.to_string()))?;
        if !status.success() {
            return Err(failed(command, &status.to_string()));
        }
    }
    match presence(fix.provider)? {
        Presence::Here { program, version } => {
            let program = program.map(|program| program.display().to_string());
            Ok(UsableProvider { program, version })
        }
        Presence::Missing { why, fix: hint, .. } => Err(ServiceError::new(
            ErrorCode::Missing,
            format!("the commands ran, and `{}` still can't be used: {why}", fix.provider),
            hint,
        )),
    }
}

fn presence(provider: ProviderName) -> Result<Presence, ServiceError> {
    probe(provider).ok_or_else(|| {
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
            docker_service: std::env::var_os("DOCKER_HOST").is_none_or(|host| host.is_empty())
                && absolute("dockerd").is_some(),
        }
    }
}

/// The packages of a provider, by who installs them. Empty: there are none.
fn packages(provider: ProviderName, by: Packages) -> &'static [&'static str] {
    use Packages::{Apk, Apt, Dnf, Pacman};
    match (provider, by) {
        (ProviderName::Bwrap, _) => &["bubblewrap"],
        (ProviderName::Oci, _) => &["crun"],
        (ProviderName::Docker, Apt) => &["docker.io"],
        (ProviderName::Docker, Dnf) => &["moby-engine"],
        (ProviderName::Docker, Pacman | Apk) => &["docker"],
        _ => &[],
    }
}

/// From why it can't be used: what is not installed or too old is installed, a daemon that is down is started, and what only its
/// owner can decide on is said.
fn steps(
    provider: ProviderName,
    facts: Facts,
    cause: Cause,
    why_not: &str,
    by_hand: &str,
) -> Result<Vec<FixStep>, ServiceError> {
    let commands = match cause {
        Cause::NotBuilt => return Err(ServiceError::new(ErrorCode::BadRequest, why_not, by_hand)),
        Cause::Absent | Cause::TooOld => installing(provider, facts, cause).map_err(|what| {
            let what = format!("`{provider}` can't be used ({why_not}), and {what}");
            ServiceError::new(ErrorCode::Missing, what, by_hand)
        })?,
        Cause::Down if facts.systemd && facts.docker_service => {
            vec![(words(&["systemctl", "start", "docker"]), "start its daemon: it is installed".to_owned())]
        }
        Cause::Down => {
            let hint = if facts.docker_service {
                "as root, with the init of this system: service docker start, rc-service docker start or dockerd"
            } else {
                by_hand
            };
            return Err(ServiceError::new(
                ErrorCode::Missing,
                format!("`{provider}` can't be used ({why_not}): it is there, so that nothing is installed"),
                hint,
            ));
        }
        Cause::Setuid | Cause::Untrusted | Cause::NotPermitted | Cause::Unusable => {
            return Err(ServiceError::new(
                ErrorCode::Missing,
                format!("`{provider}` can't be used ({why_not}), and no package would change that"),
                by_hand,
            ));
        }
    };
    if !facts.is_root && !facts.sudo {
        let lines: Vec<String> = commands.iter().map(|(command, _)| command.join(" ")).collect();
        return Err(ServiceError::new(
            ErrorCode::Missing,
            format!("what `{provider}` needs takes root's rights, and there is no sudo here"),
            format!("as root: {}", lines.join(" && ")),
        ));
    }
    let sudo = (!facts.is_root).then(|| "sudo".to_owned());
    let step = |(command, why): (Vec<String>, String)| FixStep {
        command: sudo.iter().cloned().chain(command).collect(),
        why,
    };
    Ok(commands.into_iter().map(step).collect())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// As root runs them. An error: what this system lacks.
fn installing(
    provider: ProviderName,
    facts: Facts,
    cause: Cause,
) -> Result<Vec<(Vec<String>, String)>, &'static str> {
    let manager = facts.packages.ok_or("none of apt-get, dnf, pacman and apk is here to install it")?;
    let packages = packages(provider, manager);
    if packages.is_empty() {
        return Err("no package of this system is known to change that");
    }
    let mut commands = Vec::new();
    // sudo passes no variable on: what is not to ask is told so by `env`.
    let install: &[&str] = match manager {
        Packages::Apt => {
            commands.push((words(&["apt-get", "update"]), "know what packages there are".to_owned()));
            &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends"]
        }
        Packages::Dnf => &["dnf", "install", "-y"],
        Packages::Pacman => &["pacman", "-S", "--noconfirm", "--needed"],
        Packages::Apk => &["apk", "add"],
    };
    let why = match cause {
        Cause::TooOld => "install the newest that this system has",
        _ => "install what makes the sandboxes",
    };
    commands.push((words(&[install, packages].concat()), why.to_owned()));
    if provider == ProviderName::Docker && facts.systemd {
        let start = words(&["systemctl", "enable", "--now", "docker"]);
        commands.push((start, "start its daemon, now and at every start".to_owned()));
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Facts = Facts {
        packages: Some(Packages::Apt),
        is_root: true,
        sudo: false,
        systemd: true,
        docker_service: true,
    };

    fn lines(provider: ProviderName, facts: Facts) -> Result<Vec<String>, ServiceError> {
        lines_for(provider, facts, Cause::Absent)
    }

    fn lines_for(provider: ProviderName, facts: Facts, cause: Cause) -> Result<Vec<String>, ServiceError> {
        let steps = steps(provider, facts, cause, "it is so", "do it by hand")?;
        Ok(steps.into_iter().map(|step| step.command.join(" ")).collect())
    }

    #[test]
    fn each_package_manager_has_its_words() {
        let told = lines(ProviderName::Bwrap, ROOT).unwrap();
        assert_eq!(
            told,
            [
                "apt-get update",
                "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends bubblewrap",
            ]
        );
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
            "as root: apt-get update && env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends crun"
        );
    }

    #[test]
    fn what_no_package_brings_is_said() {
        assert!(lines(ProviderName::Native, ROOT).unwrap_err().message.contains("no package of this system"));
        let nobody = Facts { packages: None, ..ROOT };
        assert!(lines(ProviderName::Bwrap, nobody).unwrap_err().message.contains("none of apt-get"));
        assert!(provider_fix(ProviderName::Auto).is_err());
        assert_eq!(provider_fix(ProviderName::Native).unwrap().steps, []);
    }

    #[test]
    fn the_cause_decides() {
        let docker = |facts, cause| lines_for(ProviderName::Docker, facts, cause);
        assert_eq!(docker(ROOT, Cause::Down).unwrap(), ["systemctl start docker"]);
        let plain = docker(Facts { systemd: false, ..ROOT }, Cause::Down).unwrap_err();
        assert!(plain.message.contains("nothing is installed"), "{}", plain.message);
        assert!(plain.hint.contains("service docker start"), "{}", plain.hint);
        let elsewhere = docker(Facts { docker_service: false, ..ROOT }, Cause::Down).unwrap_err();
        assert_eq!(elsewhere.hint, "do it by hand");
        for cause in [Cause::NotPermitted, Cause::Setuid, Cause::Untrusted, Cause::Unusable] {
            let refused = docker(ROOT, cause).unwrap_err();
            assert!(refused.message.contains("no package would change that"), "{}", refused.message);
            assert_eq!(refused.hint, "do it by hand");
        }
        let refused = docker(ROOT, Cause::NotBuilt).unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (ErrorCode::BadRequest, "it is so"));
        assert_eq!(docker(ROOT, Cause::TooOld).unwrap().len(), 3);
        for provider in [ProviderName::Gvisor, ProviderName::Microvm] {
            let refused = provider_fix(provider).unwrap_err();
            assert!(refused.message.contains("is not built into this version"), "{}", refused.message);
        }
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
        assert!(!carry_out_fix(&fix).unwrap().version.is_empty());
    }
}
