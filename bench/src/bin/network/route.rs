//! The ways to the server that are compared.

use std::process::Command;

use crate::job::{Job, Task, Trust, Via};
use crate::place::{NAME, SECRET_NAME, SERVER};
use crate::server::{CLEAR_PORT, TLS_PORT};
use crate::stage::{Stage, TOKEN};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Direct,
    Transparent,
    Tunnel,
    Proxy,
    SrtTunnel,
    SrtProxy,
    DirectTls,
    RelayedTls,
    TerminatedTls,
    SrtTls,
}

impl Route {
    pub(crate) const ALL: [Self; 10] = [
        Self::Direct,
        Self::Transparent,
        Self::Tunnel,
        Self::Proxy,
        Self::SrtTunnel,
        Self::SrtProxy,
        Self::DirectTls,
        Self::RelayedTls,
        Self::TerminatedTls,
        Self::SrtTls,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Transparent => "transparent",
            Self::Tunnel => "proxy, CONNECT",
            Self::Proxy => "proxy, plain",
            Self::SrtTunnel => "srt, CONNECT",
            Self::SrtProxy => "srt, plain",
            Self::DirectTls => "TLS, direct",
            Self::RelayedTls => "TLS, transparent",
            Self::TerminatedTls => "TLS, terminated",
            Self::SrtTls => "TLS, srt, CONNECT",
        }
    }

    pub(crate) fn needs_srt(self) -> bool {
        matches!(self, Self::SrtTunnel | Self::SrtProxy | Self::SrtTls)
    }

    pub(crate) fn is_tls(self) -> bool {
        matches!(self, Self::DirectTls | Self::RelayedTls | Self::TerminatedTls | Self::SrtTls)
    }

    /// A client that does this, where the route has it.
    pub(crate) fn command(self, stage: &Stage, task: Task) -> Command {
        let job = serde_json::to_string(&self.job(stage, task)).unwrap_or_default();
        let client = stage.client();
        match self {
            Self::Direct | Self::DirectTls => {
                let mut command = stage.command(&client);
                command.args(["client", &job]);
                command
            }
            Self::SrtTunnel | Self::SrtProxy | Self::SrtTls => {
                let mut command = stage.command("srt".as_ref());
                command.arg("--settings").arg(stage.srt_settings()).arg(&client).args(["client", &job]);
                command
            }
            Self::Transparent | Self::Tunnel | Self::Proxy | Self::RelayedTls | Self::TerminatedTls => {
                let mut command = stage.command(&stage.ringfence());
                // What is measured is the network: no limit of the profile may stand in for it.
                command.args(["run", "--profile", "restrictive", "--cpus", "none", "--open-files", "4096"]);
                command.args(["--connections", "4096"]);
                command.arg("--read").arg(stage.path("shown"));
                command.args(self.grants()).arg("--").arg(&client).args(["client", &job]);
                command
            }
        }
    }

    fn grants(self) -> Vec<String> {
        let (name, port) = (self.name(), self.port());
        let mut grants = vec!["--allow-host".into(), format!("{name}:{port}")];
        if self == Self::TerminatedTls {
            grants.extend(["--secret".into(), format!("{TOKEN}=env:{TOKEN}@{name}")]);
        }
        grants
    }

    fn job(self, stage: &Stage, task: Task) -> Job {
        let direct = matches!(self, Self::Direct | Self::DirectTls);
        let via = match self {
            Self::Tunnel | Self::SrtTunnel | Self::SrtTls => Via::Tunnel,
            Self::Proxy | Self::SrtProxy => Via::Proxy,
            _ => Via::Nothing,
        };
        let trust = match self {
            Self::TerminatedTls => Trust::Variable,
            _ => Trust::File(stage.authority()),
        };
        Job {
            task,
            name: self.name().into(),
            port: self.port(),
            address: direct.then_some((SERVER, self.port()).into()),
            via,
            tls: self.is_tls().then_some(trust),
            token: (self == Self::TerminatedTls).then(|| TOKEN.into()),
        }
    }

    fn name(self) -> &'static str {
        if self == Self::TerminatedTls { SECRET_NAME } else { NAME }
    }

    fn port(self) -> u16 {
        if self.is_tls() { TLS_PORT } else { CLEAR_PORT }
    }
}
