//! What can be an action, and how dangerous one can be.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ordered: critical is more than high.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    #[default]
    Low,
    Medium,
    High,
    Critical,
}

impl Level {
    pub const ALL: [Level; 4] = [Level::Low, Level::Medium, Level::High, Level::Critical];

    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
            Level::Critical => "critical",
        }
    }

    /// One more; critical stays.
    pub(super) const fn raised(self) -> Self {
        match self {
            Level::Low => Level::Medium,
            Level::Medium => Level::High,
            Level::High | Level::Critical => Level::Critical,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $level:ident, $why:literal;)+) => {
        /// What is done. Each has the level that it has by itself, whatever it asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum ActionKind { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl ActionKind {
            pub const ALL: &[ActionKind] = &[$(ActionKind::$variant),+];

            /// The same word in rules, HTTP, the database and the audit.
            pub const fn as_str(self) -> &'static str {
                match self { $(ActionKind::$variant => $word),+ }
            }

            /// The least that such an action is, and why.
            pub(super) const fn base(self) -> (Level, &'static str) {
                match self { $(ActionKind::$variant => (Level::$level, $why)),+ }
            }
        }
    };
}

kinds! {
    Run = "run", Low, "a command in a sandbox of its own";
    /// What the sandbox may do was decided when it was made.
    Exec = "exec", Low, "a command in a sandbox that stays";
    SandboxCreate = "sandbox.create", Low, "a sandbox that stays";
    SandboxDelete = "sandbox.delete", Low, "a sandbox is ended, and what it alone holds is gone";
    SnapshotDelete = "snapshot.delete", Low, "a snapshot is removed";
    SkillRun = "skill.run", Low, "a script of a skill in a sandbox of its own";
    SkillUpload = "skill.upload", Medium, "others will run what is uploaded";
    SkillDelete = "skill.delete", Medium, "others may need what is deleted";
    Install = "install", Medium, "packages bring programs of others";
    Commit = "commit", Medium, "the workspace is changed for good";
    FileWrite = "file.write", Low, "a file in a sandbox is written";
    FileMove = "file.move", Low, "a file in a sandbox is moved";
    FileDelete = "file.delete", Low, "a file in a sandbox is removed";
    WorkspaceDelete = "workspace.delete", Medium, "a workspace is removed with all that is in it";
    EgressGrant = "egress.grant", Medium, "what is sent there can't be taken back";
    SecretSet = "secret.set", Medium, "commands will be able to use it";
    SecretDelete = "secret.delete", Medium, "commands may need what is deleted";
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
