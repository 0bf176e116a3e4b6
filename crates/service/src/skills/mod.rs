//! Skills as use cases: find one, install what it needs in a sandbox of its own, run it in another, and keep what its
//! user granted it.
//!
//! Nothing of a skill is executed outside of a sandbox, interpreters that are asked their version included.

mod changes;
mod check;
mod command;
mod contained;
mod create;
mod deps;
mod grants;
mod inside;
mod intake;
mod interpreter;
mod layers;
mod library;
mod lint;
mod mounts;
mod nodes;
mod pack;
mod programs;
mod pythons;
mod run;
mod scratch;
mod script;
mod settings;
mod shared;
mod source;
mod subject;
mod validate;

pub use changes::{ChangeKind, WorkspaceChange, WorkspaceChanges};
pub use command::{Dependencies, MakeLayer};
pub use create::{CreatedSkill, NewSkill, new_skill};
pub use deps::{DependencyReport, PlannedLayer, dependency_report};
pub use grants::{
    Grant, GrantWhat, NamedGrant, Permissions, asked, grant, granted, grants, revoke_grant, revoke_named,
};
pub use intake::{AddReport, AddSpec, AddedSkill, SourceSpec, add_skills};
pub use layers::{
    LayerInUse, LayerKind, LayerPlan, LayerRecord, Package, build_layer, layers, remove_layers,
};
pub use library::{
    Catalogue, CatalogueEntry, DiscoveredSkill, EditsOf, ListedSkill, Locked, OutdatedReport, OutdatedSkill,
    Prompt, PublishedSkill, RemovedSkill, RolledBack, SearchSpec, ShownFile, ShownSkill, SkillHistory,
    SkillState, Unreachable, UpdateReport, UpdateSpec, catalogue, discovered_skills, library_skill,
    list_skills, lock_skills, outdated_skills, page_of_skills, publish_skill, read_skill_file, remove_skill,
    roll_back, search_skills, show_skill, skill_history, time_of, update_skills, verify_library,
};
pub use lint::{LintReport, lint_rules, lint_sarif, lint_skill};
pub(crate) use mounts::domains_attached;
pub use mounts::{LibraryView, library_attached};
pub use pack::{PackSpec, PackedSkill, PackedWithImage, pack_skill, pack_skill_with_image};
pub use pythons::InterpreterFacts;
pub use run::{
    PreparedSkill, RanSkill, RanWith, SkillReport, SkillRunSpec, SkillSetup, Tell, attach_skills,
    set_up_skill,
};
pub use script::Wanted;
pub use settings::library_root;
pub use shared::{
    SkillUpload, add_upload, has_shared_skill, lint_shared, lint_upload, name_upload, pack_shared,
    read_shared_file, shared_domains, shared_history, show_shared, validate_shared, validate_upload,
};
pub use source::{FoundSkill, SkillReference, find_skill};
pub use validate::{Strictness, Validation, validate_manifest, validate_skill};

// The words of the skill crate that interfaces print and take.
pub use ringfence_skills::{
    Action, Finding, Format, Hit, Kind, Language, Level, Matched, Problem, Record as SkillRecord, Scope,
    Searched, Severity, SkillOrigin, Snippet, Trouble, Unreadable, Verified,
};
