//! Use cases: each function is one thing that a person, a program or an agent asks of Ringfence.
//!
//! Invariant: no argument parsing and no printing. A function takes data, returns data or a [`ServiceError`] with a
//! stable code, and never starts a thread or an async runtime: `run` is on the path of starting every command.

mod actions;
mod allow;
mod client_rules;
mod config;
mod denial_log;
mod doctor;
mod error;
mod files;
mod images;
mod import;
mod installed;
mod learn;
mod not_started;
mod oci;
mod places;
mod project;
mod provider_fix;
mod providers;
mod registry;
mod run_facts;
mod runs;
mod sessions;
mod setup;
pub mod skills;
mod state;
mod stored_secrets;
mod trees;
mod trust;
pub mod workers;
mod workspaces;

pub use actions::{suspicions, weighed};
pub use allow::{AllowFor, Allowed, allow_denial};
pub use client_rules::{ClientRules, FileRules, RuleRefusal};
pub use config::{LoadedPolicy, PolicySpec, check_policy_file, load_policy};
pub use denial_log::{DeniedRun, denied_runs};
pub use doctor::{DoctorReport, DoctorRow, RowStatus, doctor};
pub use error::{ErrorCode, ServiceError};
pub use images::{ImageBuild, build_image, list_images, remove_image, show_image, verify_image};
pub use import::import_policy;
pub use learn::LearnedRules;
pub use not_started::explain_not_started;
pub use oci::{oci_bundle, oci_spec};
pub use places::Places;
pub use provider_fix::{FixStep, ProviderFix, UsableProvider, carry_out_fix, provider_fix};
pub use providers::providers;
pub use registry::Registry;
pub use ringfence_images::{Built as BuiltImage, ImageRecord, PackedImage};
pub use run_facts::{RunFacts, UsageFacts};
pub use runs::{Explanation, PreparedRun, RunReport, RunSpec, explain, prepare, run};
pub use sessions::{
    Changes, Committed, SessionCreate, SessionCreated, SessionRow, Since, SnapshotRow, TakenSnapshot,
    commit_reviewed, commit_session, create_session, export_snapshot, finish_commit, fork_session,
    import_snapshot, list_sessions, list_snapshots, look_at_snapshot, model_of, open_session, read_snapshot,
    remove_session, remove_session_by_force, remove_snapshot, review_changes, rollback_session,
    session_changes, take_snapshot, undo_commit, unreadable_sessions, verify_snapshots, write_snapshot,
};
pub use setup::{
    Client, FileChange, LINK_BEGINS, SetupMode, SetupPlan, SetupScope, SetupSpec, WrappedRun, apply_setup,
    check_environment, how_to_check, is_gate, is_own_server, plan_removal, plan_setup, verify_setup,
    wrapped_run,
};
pub use state::StateDir;
pub use stored_secrets::{SecretValue, StoredSecrets, remove_secret, set_secret, stored_secrets};
pub use trees::{TreeError, TreeLook, look_at_tree, read_tree, write_tree};
pub use trust::{TrustedFile, revoke, trust, trusted_files};
pub use workspaces::{
    NamedWorkspace, WorkspaceRow, create_workspace, list_workspaces, remove_workspace, tenant_usage,
    use_workspace, workspace_bytes, workspaces_named,
};
