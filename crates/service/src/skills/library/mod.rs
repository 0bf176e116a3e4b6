//! The library as use cases: what is in it, what became of a skill, and what is newer elsewhere. `intake` brings skills in.

mod catalogue;
mod discovered;
mod file;
mod lock;
mod open;
mod revise;
mod search;
mod show;
mod update;

pub use catalogue::{
    Catalogue, CatalogueEntry, ListedSkill, Prompt, SkillState, catalogue, list_skills, page_of_skills,
};
pub use discovered::{DiscoveredSkill, discovered_skills};
pub use file::read_skill_file;
pub use lock::{Locked, lock_skills};
pub use open::library_skill;
pub use revise::{
    EditsOf, PublishedSkill, RemovedSkill, RolledBack, SkillHistory, publish_skill, remove_skill, roll_back,
    skill_history, time_of, verify_library,
};
pub use search::{SearchSpec, search_skills};
pub use show::{ShownFile, ShownSkill, show_skill};
pub use update::{
    OutdatedReport, OutdatedSkill, Unreachable, UpdateReport, UpdateSpec, outdated_skills, update_skills,
};

pub(super) use lock::read_lock_file;
pub(super) use open::{existing_library, find_reference, open_library};
