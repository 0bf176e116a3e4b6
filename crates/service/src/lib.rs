//! Use cases: each function is one thing that a person, a program or an agent asks of Ringfence.
//!
//! Invariant: no argument parsing and no printing. A function takes data, returns data or a [`ServiceError`] with a
//! stable code, and never starts a thread or an async runtime: `run` is on the path of starting every command.

mod allow;
mod config;
mod denial_log;
mod doctor;
mod error;
mod files;
mod installed;
mod learn;
mod not_started;
mod places;
mod project;
mod registry;
mod run_facts;
mod runs;
mod sessions;
pub mod skills;
mod state;
mod stored_secrets;
mod trust;
pub mod workers;
mod workspaces;

pub use allow::{AllowFor, Allowed, allow_denial};
pub use config::{LoadedPolicy, PolicySpec, check_policy_file, load_policy};
pub use denial_log::{DeniedRun, denied_runs};
pub use doctor::{DoctorReport, DoctorRow, RowStatus, doctor};
pub use error::{ErrorCode, ServiceError};
pub use learn::LearnedRules;
pub use not_started::explain_not_started;
pub use places::Places;
pub use registry::Registry;
pub use run_facts::{RunFacts, UsageFacts};
pub use runs::{Explanation, PreparedRun, RunReport, RunSpec, explain, prepare, run};
pub use sessions::{
    Changes, Committed, SessionCreate, SessionCreated, SessionRow, Since, SnapshotRow, TakenSnapshot,
    commit_session, create_session, export_snapshot, finish_commit, fork_session, import_snapshot,
    list_sessions, list_snapshots, model_of, open_session, remove_session, remove_snapshot, rollback_session,
    session_changes, take_snapshot, undo_commit, verify_snapshots,
};
pub use state::StateDir;
pub use stored_secrets::{SecretValue, StoredSecrets, remove_secret, set_secret, stored_secrets};
pub use trust::{TrustedFile, revoke, trust, trusted_files};
pub use workspaces::{
    NamedWorkspace, WorkspaceRow, create_workspace, list_workspaces, remove_workspace, use_workspace,
};
