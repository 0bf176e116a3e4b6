//! Sandboxes: from a request to a plan, and from a plan to a run with its receipt and denials.
//!
//! Invariant: a plan is pure data made before anything is done; a provider carries it out whole or refuses, never
//! falls back to something weaker, and leaves nothing behind on any path out.

mod attachment;
mod bundle;
mod clauses;
mod denial;
mod environment;
mod files;
mod host;
mod image;
mod infer;
mod launcher;
mod layers;
mod limits;
mod network;
mod network_record;
mod outcome;
pub mod overlay;
mod plan;
mod protect;
mod providers;
mod receipt;
mod refusal;
mod request;
mod session;
pub mod snapshots;
mod view;
mod write_bound;

pub use attachment::{Alias, AttachAs, Attached, AttachedFile, Attachment, FileId};
pub use bundle::{FILES, OciBundle, bundle, write_bundle};
pub use denial::{Denial, DenialKind};
pub use files::{
    Copied, CopyLimits, CopyProgress, Draft, FileError, FileProblem, FileTimeouts, Files, ListLimit,
    SessionTree, Watch,
};
pub use host::{GitUser, Host, HostPath, OuterIds, RootEntry, WorkspaceDir};
pub use image::{ImageFacts, ImageTree};
pub use launcher::{Job, Launcher, own_stdio, receive_order, send_order, share_stdio};
pub use layers::{LayersDir, WorkspaceLayers};
pub use limits::limits_processors;
pub use network::{NetworkFacts, PlannedEgress};
pub use network_record::{ConnectionRecord, HostTraffic, NetworkRecord};
pub use outcome::{Captured, End, Outcome, Usage};
pub use plan::{Access, Ids, MappedIds, Mount, Plan, PlannedLimits, PlannedWorkspace, WORKSPACE, plan};
pub use providers::{
    Ahead, Bwrap, Capabilities, Cause, Docker, Driven, GUARD_ANEW, GUARD_IN_CONTAINER, GUARD_INSIDE, Native,
    Oci, Presence, Provider, ProviderRow, Ready, RefusedClause, Remains, create, plan_for, probe,
    provider_rows, serve_anew, serve_in_container, serve_inside,
};
pub use receipt::{Receipt, ReceiptLine, Status};
pub use refusal::Refusal;
pub use request::{Request, Stream};
pub use ringfence_guard::{
    Durability, ExecStage, Existing, FileChange, FileEntry, FileEvent, FileKind, FileStat, Links, Parents,
    Reach, Timestamp,
};
pub use ringfence_linux::{
    Exited, SignalFd, change_environment, replace_environment, system_program, unshare_mounts as own_mounts,
};
pub use session::{
    Asked, AsyncFiles, AsyncProcess, AsyncSandbox, Attending, BootId, Claim, EndReason, Exec, ExecStdio,
    Exposed, ForkError, HOME_ROOT, Held, LOG_BYTES, LogReader, LogStream, OverTimeError, Pillars, Place,
    Process, ProcessEnd, ProcessId, ProcessInfo, ProcessResult, Sandbox, SessionEnd, SessionError,
    SessionFacts, SessionSpec, SessionStats, SessionStatus, SessionTrees, Stage, Text, WORKSPACE_ROOT,
    WorkspaceKind, attend, call_again, forward, into_background, places,
};
pub use write_bound::{BEYOND_QUOTA, BeyondBound, Holes, WriteBound};
