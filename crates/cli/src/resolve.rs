//! From flags as they were typed to what the services take, in this one place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_policy::{Layer, NetworkMode, Origin, SecretRule, Workspace};
use ringfence_sandbox::{Attached, Stream};
use ringfence_service::{PolicySpec, RunSpec};

use crate::args::{NetworkChoice, PolicyFlags, RunArgs, RunFlags};
use crate::failure::Failure;

/// How the result of a run is to be told.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) json: bool,
    pub(crate) explain: bool,
    pub(crate) stats: bool,
    pub(crate) receipt: Option<ReceiptTo>,
}

#[derive(Debug)]
pub(crate) enum ReceiptTo {
    Stderr,
    File(PathBuf),
}

pub(crate) fn run(args: RunArgs) -> Result<(RunSpec, Telling), Failure> {
    run_flags(args.flags, args.command)
}

/// What `run` and `skill run` have in common.
pub(crate) fn run_flags(args: RunFlags, argv: Vec<OsString>) -> Result<(RunSpec, Telling), Failure> {
    let stream = match (args.terminal, args.json) {
        (true, true) if !args.explain => {
            return Err(Failure::new(
                "-t and --json cannot be used together: a terminal's output is not captured",
                "leave one of them out",
            ));
        }
        (true, _) => Stream::Terminal,
        (false, true) => Stream::Capture,
        (false, false) => Stream::Inherit,
    };
    let receipt = args
        .receipt
        .map(|path| if path == Path::new("-") { ReceiptTo::Stderr } else { ReceiptTo::File(path) });
    let telling = Telling { json: args.json, explain: args.explain, stats: args.stats, receipt };
    let spec = RunSpec {
        policy: PolicySpec { learn: args.learn, ..policy(args.policy)? },
        argv,
        directory: args.cwd,
        attached: Attached::default(),
        workspace_layers: None,
        stream,
        trace: args.trace,
        strict: args.strict,
    };
    Ok((spec, telling))
}

/// One layer a flag, so that `policy show` can name the flag that set a clause.
pub(crate) fn policy(flags: PolicyFlags) -> Result<PolicySpec, Failure> {
    let mut layers = Layers(Vec::new());
    // Below the other flags: what is asked for by name holds.
    layers.given(flags.compat, "--compat", |layer, value| *layer = value.layer());
    layers.given(flags.profile, "--profile", |layer, value| layer.profile = Some(value));
    layers.given(flags.provider, "--provider", |layer, value| layer.provider = Some(value));
    layers.given(flags.image, "--image", |layer, value| layer.image = Some(value));
    layers.given(flags.runtime, "--runtime", |layer, value| layer.runtime = Some(value));
    layers.each(flags.waive, "--waive", |layer, values| layer.waive = values);
    layers.given(flags.workspace.map(workspace), "--workspace", |layer, value| {
        layer.filesystem.workspace = Some(value);
    });
    layers.each(flags.read, "--read", |layer, values| layer.filesystem.read = values);
    layers.each(flags.write, "--write", |layer, values| layer.filesystem.write = values);
    layers.each(flags.hide, "--hide", |layer, values| layer.filesystem.hide = values);
    layers.each(flags.protect, "--protect", |layer, values| layer.filesystem.protect = values);
    layers.each(flags.unprotect, "--unprotect", |layer, values| layer.filesystem.unprotect = values);
    layers.each(flags.allow_host, "--allow-host", |layer, values| layer.network.allow = values);
    layers.each(flags.deny_host, "--deny-host", |layer, values| layer.network.deny = values);
    layers.each(flags.allow_local, "--allow-local", |layer, values| layer.network.local = values);
    layers.each(flags.allow_private, "--allow-private", |layer, values| layer.network.private = values);
    layers.each(flags.allow_no_sni, "--allow-no-sni", |layer, values| layer.network.no_sni = values);
    let secrets = flags.secret.iter().map(|text| secret(text)).collect::<Result<Vec<_>, _>>()?;
    layers.each(secrets, "--secret", |layer, values| layer.network.secrets = values);
    // After what lifts a network that is off: a mode that is asked for is meant.
    layers.given(flags.network, "--network", |layer, value| {
        layer.network.mode = Some(match value {
            NetworkChoice::Off => NetworkMode::Off,
            NetworkChoice::Allow => NetworkMode::Allow,
            NetworkChoice::Open => NetworkMode::Open,
        });
    });
    layers.given(flags.cpus, "--cpus", |layer, value| layer.limits.cpus = Some(value));
    layers.given(flags.memory, "--memory", |layer, value| layer.limits.memory = Some(value));
    layers.given(flags.pids, "--pids", |layer, value| layer.limits.processes = Some(value));
    layers.given(flags.disk, "--disk", |layer, value| layer.limits.disk = Some(value));
    layers.given(flags.open_files, "--open-files", |layer, value| layer.limits.open_files = Some(value));
    layers.given(flags.output_limit, "--output-limit", |layer, value| layer.limits.output = Some(value));
    layers.given(flags.connections, "--connections", |layer, value| layer.limits.connections = Some(value));
    layers.given(flags.bandwidth, "--bandwidth", |layer, value| layer.limits.bandwidth = Some(value));
    layers.given(flags.timeout, "--timeout", |layer, value| layer.limits.wall_time = Some(value));
    layers.each(flags.allow_syscall, "--allow-syscall", |layer, values| layer.syscalls.allow = values);
    layers.each(flags.deny_syscall, "--deny-syscall", |layer, values| layer.syscalls.deny = values);
    let variables = flags.env.iter().map(|text| variable(text)).collect::<Result<Vec<_>, _>>()?;
    layers.each(variables, "--env", |layer, values| layer.environment.set = values.into_iter().collect());
    layers.each(flags.pass_env, "--pass-env", |layer, values| layer.environment.pass = values);
    Ok(PolicySpec {
        file: flags.policy_file,
        flags: layers.0,
        registries: flags.allow_registry,
        ..PolicySpec::default()
    })
}

struct Layers(Vec<(Origin, Layer)>);

impl Layers {
    fn given<T>(&mut self, value: Option<T>, flag: &str, set: impl FnOnce(&mut Layer, T)) {
        if let Some(value) = value {
            let mut layer = Layer::default();
            set(&mut layer, value);
            self.0.push((Origin::flag(flag), layer));
        }
    }

    fn each<T>(&mut self, values: Vec<T>, flag: &str, set: impl FnOnce(&mut Layer, Vec<T>)) {
        self.given((!values.is_empty()).then_some(values), flag, set);
    }
}

/// The words of a policy file, or a directory: one of that name is `./private`.
fn workspace(path: PathBuf) -> Workspace {
    match path.to_str() {
        Some("private") => Workspace::Private,
        Some("current") => Workspace::Current,
        _ => Workspace::Path(path),
    }
}

/// What was typed is not repeated: somebody may have put the value itself there.
fn secret(text: &str) -> Result<SecretRule, Failure> {
    SecretRule::parse(text).map_err(|error| {
        Failure::new(
            format!("--secret: {error}"),
            "--secret NAME=env:VARIABLE@HOST; `ringfence secret set NAME` keeps a value for store:NAME",
        )
    })
}

pub(crate) fn variable(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(
            format!("`--env {text}` has no value"),
            format!(
                "--env NAME=VALUE, or --pass-env {} to pass your own",
                if text.is_empty() { "NAME" } else { text }
            ),
        )),
    }
}
