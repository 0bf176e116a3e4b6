//! Agent Skills: what a SKILL.md says, whether it is valid, what is suspicious in it, how it is packed, where it lives,
//! how it is found, and what its scripts need.
//!
//! Invariant: everything read here is hostile. Nothing of a skill is executed, no link is followed, nothing is sent to a
//! network. It knows no sandbox and no policy.

mod archive;
mod dependencies;
mod library;
mod lint;
mod manifest;
mod search;
mod tree;

pub use archive::{
    ArchiveError, Format, Packed, Reason, TarEntry, TarReader, UnpackLimits, Unpacked, pack, pack_file,
    unpack,
};
pub use dependencies::{
    Certainty, DeclaredIn, LockKind, NeededBinary, NeededHost, NeededVariable, Needs, NodeDependency,
    NodeDependencyKind, NodeDependencySource, NodeLock, NodeNeeds, NodeScript, Origin, Presence, PythonNeeds,
    Refused, Requirement, RequirementSource, VersionError, VersionRange, WantedLimits, Wants, needs,
    node_admits, satisfies, wants,
};
pub use library::{
    Action, Add, Added, Changes, Cleared, Create, DEFAULT_DOMAIN, Depth, Domain, Edits, Fingerprint, Found,
    Language, Library, LibraryError, Listing, LockFile, Mismatch, Outdated, PLACES, Pin, Place, Record,
    Reference, Replace, Scope, SkillName, SkillOrigin, Stamp, Status, Stray, TemplateFile, Trouble,
    Unreadable, Verified, Wanted, digest_of, discover, remove_tree, template,
};
pub use lint::{
    Finding, LintInput, Passage, Rule, Severity, Undeclared, is_script_name, lint, rules, said_to_a_model,
    sarif, visible,
};
pub use manifest::{
    FieldText, Level, Loaded, MANIFEST_BYTES, MANIFEST_NAMES, Manifest, ManifestError, Problem, PromptEntry,
    Unloadable, load, manifest_of, prompt_block, properties, read_manifest, validate,
};
pub use search::{Hit, Matched, SearchError, SearchIndex, Searched, SkillText, Snippet, Synced};
pub use tree::{Digest, Entry, Kind, Tree, TreeError, TreeLimits, left_out};
