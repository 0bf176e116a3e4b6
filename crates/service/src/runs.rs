//! One command in one sandbox: from what a caller asks to what came of it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ringfence_policy::{Clause, Policy, Row, Workspace};
use ringfence_sandbox::overlay::prepare_layers;
use ringfence_sandbox::{
    Ahead, Attached, End, Host, Outcome, Plan, Ready, Remains, Request, Stream, WorkspaceLayers, create,
    plan_for,
};
use serde::Serialize;

use crate::config::{PolicySpec, load_policy};
use crate::denial_log::record_denials;
use crate::error::{ErrorCode, ServiceError};
use crate::images::used_image;
use crate::learn::{LearnedRules, learned_rules};
use crate::not_started::explain_not_started;
use crate::places::Places;

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct RunSpec {
    pub policy: PolicySpec,
    pub argv: Vec<OsString>,
    /// A directory inside.
    pub directory: Option<PathBuf>,
    /// What comes with the command beside its policy.
    pub attached: Attached,
    /// For a session whose workspace is copy-on-write.
    pub workspace_layers: Option<WorkspaceLayers>,
    pub stream: Stream,
    pub trace: bool,
    pub strict: bool,
}

/// A run that is decided and not yet begun.
#[derive(Debug)]
pub struct PreparedRun {
    places: Places,
    request: Request,
    plan: Plan,
    notes: Vec<String>,
    /// The lock of the image, until the run is over.
    held: Option<OwnedFd>,
}

/// What came of a run.
#[derive(Debug)]
pub struct RunReport {
    pub exit_code: i32,
    pub policy: Policy,
    pub outcome: Outcome,
    /// Why the command itself could not be started, if that is how it ended.
    pub not_started: Option<ServiceError>,
    /// What the command tried to reach, as rules, where that was to be learned.
    pub learned: Option<LearnedRules>,
}

/// A plan, and the network rules that it carries out.
#[derive(Debug, Serialize)]
pub struct Explanation {
    #[serde(flatten)]
    pub plan: Plan,
    pub network_rules: Vec<Row>,
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl PreparedRun {
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The image that it shows in place of the host's directories.
    pub fn image(&self) -> Option<&str> {
        self.request.image.as_ref().map(|image| image.name.as_str())
    }

    /// What this host can't enforce and the caller did not ask for: to be said before the run.
    pub fn warnings(&self) -> &[String] {
        &self.plan.receipt.warnings
    }

    /// What else a person should know before the run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Make the sandbox, run the command to its end, and write down what was denied.
    pub fn run(self) -> Result<RunReport, ServiceError> {
        self.run_in(None)
    }

    /// Make a sandbox for runs like this one, whatever their command, workspace, skills and environment. `None`: nothing can
    /// be made ahead of such a run.
    pub fn make_ahead(self, furthest: Ahead) -> Result<Option<Ready>, ServiceError> {
        Ok(Ready::make(&self.request, self.plan, furthest)?)
    }

    /// The same in a sandbox that was made ahead, where it fits and nothing has changed since.
    pub fn run_in(self, ready: Option<Ready>) -> Result<RunReport, ServiceError> {
        let (mut report, remains) = self.run_and_leave(ready)?;
        report.outcome.notes.extend(remains.clear());
        Ok(report)
    }

    /// The same for who has something to tell before all of the sandbox is gone.
    pub fn run_and_leave(self, ready: Option<Ready>) -> Result<(RunReport, Remains), ServiceError> {
        let Self { places, request, plan, held: _held, .. } = self;
        if plan.workspace.is_some() {
            places.state.ensure()?;
        }
        let directory = plan.directory.clone();
        let (mut outcome, remains) = create(&request, plan, ready)?;
        let exit_code = outcome.exit_code();
        if !outcome.denials.is_empty()
            && let Err(error) = record_denials(&places, &request.argv, exit_code, &outcome.denials)
        {
            outcome.notes.push(format!("the denials are not in `ringfence denials`: {error}"));
        }
        let not_started = match outcome.end {
            End::NotStarted { stage, errno } => {
                let image = request.image.as_ref().map(|image| image.name.as_str());
                Some(explain_not_started(&places, &request.argv, &directory, image, stage, errno))
            }
            _ => None,
        };
        let learned = request.learn.then(|| learned_rules(outcome.network.as_ref()));
        let policy = request.policy.policy;
        Ok((RunReport { exit_code, policy, outcome, not_started, learned }, remains))
    }
}

impl RunReport {
    pub fn timed_out(&self) -> bool {
        self.outcome.end == End::TimedOut
    }

    /// For the audit: which policy it was.
    pub fn policy_digest(&self) -> String {
        digest(&self.policy)
    }

    /// For the audit: what was enforced.
    pub fn receipt_digest(&self) -> String {
        digest(&self.outcome.receipt)
    }
}

fn digest(value: &impl Serialize) -> String {
    // Neither has a key that is no text: there is nothing that can't be written.
    blake3::hash(&serde_json::to_vec(value).unwrap_or_default()).to_hex().to_string()
}

/// Decide everything about a run and do nothing.
pub fn prepare(places: Places, spec: RunSpec) -> Result<PreparedRun, ServiceError> {
    if spec.argv.first().is_none_or(|command| command.is_empty()) {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "there is no command to run",
            "name it after `--`: ringfence run -- COMMAND",
        ));
    }
    let Decided { request, plan, notes, held } = decide(&places, spec)?;
    Ok(PreparedRun { places, request, plan, notes, held })
}

/// A sandbox that is decided.
pub(crate) struct Decided {
    pub(crate) request: Request,
    pub(crate) plan: Plan,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
    /// What keeps the image there; as long as the sandbox lives.
    pub(crate) held: Option<OwnedFd>,
}

/// What is asked of a sandbox, whoever makes it.
pub(crate) struct Requested {
    pub(crate) request: Request,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
    /// As of [`Decided`].
    pub(crate) held: Option<OwnedFd>,
}

/// Load the policy, look at the host, and plan. Nothing is done.
pub(crate) fn decide(places: &Places, spec: RunSpec) -> Result<Decided, ServiceError> {
    let Requested { request, notes, held } = requested(places, spec)?;
    let host = Host::look(&request)?;
    let plan = plan_for(&request, &host)?;
    Ok(Decided { request, plan, notes, held })
}

/// Load the policy, and nothing more.
pub(crate) fn requested(places: &Places, spec: RunSpec) -> Result<Requested, ServiceError> {
    let learn = spec.policy.learn;
    let loaded = load_policy(places, spec.policy)?;
    if learn && loaded.merged.policy.waived.contains(&Clause::Network) {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "there is nothing to learn from: the network was waived, so that nothing of it is seen",
            "leave --learn or --waive network out",
        ));
    }
    if let Some(layers) = &spec.workspace_layers {
        prepare_workspace(places, layers, &loaded.merged.policy.filesystem.workspace)?;
    }
    let (image, held) = used_image(places, loaded.merged.policy.image.as_deref())?.unzip();
    let mut attached = spec.attached;
    attached.files.extend(loaded.files);
    let request = Request {
        policy: loaded.merged,
        argv: spec.argv,
        directory: spec.directory,
        attached,
        image,
        workspace_layers: spec.workspace_layers,
        stream: spec.stream,
        trace: spec.trace,
        learn,
        strict: spec.strict,
        state: places.state.path().to_path_buf(),
        secrets: places.own().join("secrets"),
    };
    Ok(Requested { request, notes: loaded.notes, held })
}

fn prepare_workspace(
    places: &Places,
    layers: &WorkspaceLayers,
    workspace: &Workspace,
) -> Result<(), ServiceError> {
    let workspace = match workspace {
        Workspace::Current => places.current.clone(),
        Workspace::Path(path) => places.absolute(path, &places.current),
        Workspace::Private if layers.lower.is_some() => PathBuf::new(),
        Workspace::Private => {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                "a copy-on-write workspace needs a directory beneath it, and the workspace is private",
                "name the directory with --workspace DIR",
            ));
        }
    };
    Ok(prepare_layers(layers, &workspace)?)
}

/// Run a command in a fresh sandbox.
pub fn run(places: Places, spec: RunSpec) -> Result<RunReport, ServiceError> {
    prepare(places, spec)?.run()
}

/// The plan for a run, with nothing run.
pub fn explain(places: Places, spec: RunSpec) -> Result<Explanation, ServiceError> {
    let PreparedRun { request, plan, notes, .. } = prepare(places, spec)?;
    let is_network = |row: &Row| row.clause.starts_with("network.");
    let network_rules = request.policy.rows().into_iter().filter(is_network).collect();
    Ok(Explanation { plan, network_rules, notes })
}
