//! Skills as use cases: find one, install what it needs in a sandbox of its own, run it in another, and keep what its
//! user granted it.
//!
//! Nothing of a skill is executed outside of a sandbox, interpreters that are asked their version included.

mod changes;
mod check;
mod command;
mod contained;
mod deps;
mod grants;
mod inside;
mod interpreter;
mod layers;
mod mounts;
mod programs;
mod pythons;
mod run;
mod scratch;
mod script;
mod settings;
mod source;

pub use changes::{ChangeKind, WorkspaceChange, WorkspaceChanges};
pub use command::{Dependencies, MakeLayer};
pub use deps::{DependencyReport, PlannedLayer, dependency_report};
pub use grants::{Grant, GrantWhat, NamedGrant, Permissions, asked, grant, granted, grants, revoke_grant};
pub use layers::{
    LayerInUse, LayerKind, LayerPlan, LayerRecord, Package, build_layer, layers, remove_layers,
};
pub use mounts::library_attached;
pub use pythons::InterpreterFacts;
pub use run::{PreparedSkill, RanSkill, RanWith, SkillReport, SkillRunSpec, SkillSetup, Tell, set_up_skill};
pub use script::Wanted;
pub use settings::library_root;
pub use source::{FoundSkill, SkillReference, find_skill};
