//! The tools: what each takes and answers, and which function it is. One file a group.

mod approvals;
mod files;
mod processes;
mod run;
mod sessions;
mod skills;
mod snapshots;

use std::sync::{Arc, LazyLock};

use rmcp::model::{CallToolResult, JsonObject, MetaObject, ProgressToken, Tool, ToolAnnotations};
use rmcp::service::{Peer, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::AnswerLimit;
use super::connection::Connection;
use super::host::{FileDraft, Host, Restored, Taken};
use super::schema::{input, output};
use super::served::Served;
use crate::error::{Answer, ApiError};

pub(super) use skills::{file_of, skill_prompt};

/// What a tool has to work with.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) host: Host,
    pub(super) connection: Arc<Connection>,
    pub(super) limit: AnswerLimit,
    /// Where the client wants to hear how far it is.
    pub(super) progress: Option<(Peer<RoleServer>, ProgressToken)>,
    /// The user was asked, and allows what this call wants beyond their policy.
    pub(super) granted: bool,
}

/// What a tool does to its surroundings.
#[derive(Clone, Copy)]
enum Effect {
    Reads,
    /// Adds something; nothing is lost.
    Adds,
    /// May change or remove what is there.
    Changes,
}

/// What they run may have a network, where the policy or a person gives it one.
const MAY_REACH: [&str; 4] = ["sandbox_run", "sandbox_session_create", "sandbox_process_start", "skill_run"];

fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    effect: Effect,
    schemas: (Arc<JsonObject>, Arc<JsonObject>),
) -> Tool {
    let hints = ToolAnnotations::with_title(title)
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Changes))
        .idempotent(matches!(effect, Effect::Reads))
        .open_world(MAY_REACH.contains(&name));
    let mut meta = JsonObject::new();
    // Not behind a search for tools: a model that does not see these runs its commands outside.
    meta.insert("anthropic/alwaysLoad".into(), json!(true));
    Tool::new(name, description, schemas.0)
        .with_title(title)
        .with_raw_output_schema(schemas.1)
        .with_annotations(hints)
        .with_meta(MetaObject(meta))
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    use Effect::{Adds, Changes, Reads};
    vec![
        tool(
            "sandbox_run",
            "Run a command in the sandbox",
            "Run a command in a sandbox whose working directory is the workspace. A string runs in a shell, an array as it \
             is. What the sandbox blocks is listed in `denials`. Skills are at /skills.",
            Changes,
            (input::<run::RunInput>(), output::<run::RunOutput>()),
        ),
        tool(
            "sandbox_session_create",
            "Create a sandbox session",
            "Make a sandbox that stays, for commands that share processes and /tmp, or for another policy. Give its name \
             as `session` to other tools.",
            Adds,
            (input::<sessions::CreateInput>(), output::<sessions::CreateOutput>()),
        ),
        tool(
            "sandbox_session_list",
            "List sandbox sessions",
            "The sessions that you can use.",
            Reads,
            (input::<sessions::ListInput>(), output::<sessions::ListOutput>()),
        ),
        tool(
            "sandbox_session_close",
            "Close a sandbox session",
            "End a session and everything that runs in it. Files in the workspace stay.",
            Changes,
            (input::<sessions::CloseInput>(), output::<sessions::CloseOutput>()),
        ),
        tool(
            "sandbox_process_start",
            "Start a background process",
            "Start a command that goes on while you do other things, such as a server. Its output is kept.",
            Changes,
            (input::<processes::StartInput>(), output::<processes::StartOutput>()),
        ),
        tool(
            "sandbox_process_output",
            "Read a background process's output",
            "What a background process has written since `from`, and whether it still runs.",
            Reads,
            (input::<processes::OutputInput>(), output::<processes::OutputOutput>()),
        ),
        tool(
            "sandbox_process_stop",
            "Stop a background process",
            "Stop a background process and all that it started.",
            Changes,
            (input::<processes::StopInput>(), output::<processes::StopOutput>()),
        ),
        tool(
            "sandbox_file_read",
            "Read a file",
            "Read a text file of the sandbox, whole or some lines of it.",
            Reads,
            (input::<files::ReadInput>(), output::<files::ReadOutput>()),
        ),
        tool(
            "sandbox_file_write",
            "Write a file",
            "Write a file of the sandbox, and the directories above it. An old one is replaced.",
            Changes,
            (input::<files::WriteInput>(), output::<files::WriteOutput>()),
        ),
        tool(
            "sandbox_file_edit",
            "Edit a file",
            "Replace a text in a file. It must be there exactly once, unless `all` is true.",
            Changes,
            (input::<files::EditInput>(), output::<files::EditOutput>()),
        ),
        tool(
            "sandbox_file_list",
            "List a directory",
            "What is in a directory of the sandbox.",
            Reads,
            (input::<files::ListInput>(), output::<files::ListOutput>()),
        ),
        tool(
            "sandbox_diff",
            "Show what changed",
            "What changed in the workspace since a snapshot, or since the start of a session that was made with `overlay`.",
            Reads,
            (input::<snapshots::DiffInput>(), output::<snapshots::DiffOutput>()),
        ),
        tool(
            "sandbox_snapshot",
            "Take a snapshot",
            "Keep the workspace as it is now, to compare with it or go back to it later.",
            Adds,
            (input::<snapshots::SnapshotInput>(), output::<Taken>()),
        ),
        tool(
            "sandbox_restore",
            "Restore a snapshot",
            "Bring the workspace back to a snapshot of the same session. What was written since is lost.",
            Changes,
            (input::<snapshots::RestoreInput>(), output::<Restored>()),
        ),
        tool(
            "skill_search",
            "Search skills",
            "Find skills: tested instructions and scripts for a kind of task.",
            Reads,
            (input::<skills::SearchInput>(), output::<skills::SearchOutput>()),
        ),
        tool(
            "skill_read",
            "Read a skill",
            "A skill's instructions, or another file of it.",
            Reads,
            (input::<skills::ReadInput>(), output::<skills::ReadOutput>()),
        ),
        tool(
            "skill_run",
            "Run a skill's script",
            "Run a script of a skill in a sandbox of its own, with the workspace and what it needs installed.",
            Changes,
            (input::<skills::RunInput>(), output::<run::RunOutput>()),
        ),
        tool(
            "skill_create",
            "Draft a skill",
            "Write a new skill to skills/NAME in the workspace and check it. A person adds it to the library.",
            // A draft that is there is replaced.
            Changes,
            (input::<skills::CreateInput>(), output::<skills::CreateOutput>()),
        ),
        tool(
            "skill_validate",
            "Check a skill",
            "Whether a skill of the library, or one that lies in the workspace, is as the specification says.",
            Reads,
            (input::<skills::ValidateInput>(), output::<skills::ValidateOutput>()),
        ),
        tool(
            "approval_list",
            "List what waits for approval",
            "Your calls that wait until a person has approved them.",
            Reads,
            (input::<approvals::ListInput>(), output::<approvals::ListOutput>()),
        ),
        tool(
            "approval_status",
            "See whether a call was approved",
            "Whether a person has decided on a call that waits, and what became of it.",
            Reads,
            (input::<approvals::StatusInput>(), output::<approvals::StatusOutput>()),
        ),
    ]
});

/// Only a server lets calls wait.
const OF_SERVER: [&str; 2] = ["approval_list", "approval_status"];

/// Who answers calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Stdio,
    Server,
}

pub(super) fn list(behind: Behind) -> Vec<Tool> {
    let mut tools = TOOLS.clone();
    tools.retain(|tool| behind == Behind::Server || !OF_SERVER.contains(&&*tool.name));
    tools
}

/// None: there is no such tool.
pub(super) async fn call(call: &Call, name: &str, arguments: JsonObject) -> Option<Answer<CallToolResult>> {
    let arguments = Value::Object(arguments);
    let done = match name {
        "sandbox_run" => run::run(call, arguments).await,
        "sandbox_session_create" => sessions::create(call, arguments).await,
        "sandbox_session_list" => sessions::list(call, arguments).await,
        "sandbox_session_close" => sessions::close(call, arguments).await,
        "sandbox_process_start" => processes::start(call, arguments).await,
        "sandbox_process_output" => processes::output(call, arguments).await,
        "sandbox_process_stop" => processes::stop(call, arguments).await,
        "sandbox_file_read" => files::read(call, arguments).await,
        "sandbox_file_write" => files::write(call, arguments).await,
        "sandbox_file_edit" => files::edit(call, arguments).await,
        "sandbox_file_list" => files::list(call, arguments).await,
        "sandbox_diff" => snapshots::diff(call, arguments).await,
        "sandbox_snapshot" => snapshots::snapshot(call, arguments).await,
        "sandbox_restore" => snapshots::restore(call, arguments).await,
        "skill_search" => skills::search(call, arguments).await,
        "skill_read" => skills::read(call, arguments).await,
        "skill_run" => skills::run(call, arguments).await,
        "skill_create" => skills::create(call, arguments).await,
        "skill_validate" => skills::validate(call, arguments).await,
        "approval_list" => approvals::list(served(&call.host)?, arguments).await,
        "approval_status" => approvals::status(served(&call.host)?, arguments).await,
        _ => return None,
    };
    Some(done)
}

/// Can a call of this tool name the approval that it has?
pub(super) fn takes_action(name: &str) -> bool {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    tool.is_some_and(|tool| tool.input_schema["properties"].get("action").is_some())
}

fn served(host: &Host) -> Option<&Served> {
    match host {
        Host::Own(_) => None,
        Host::Served(served) => Some(served),
    }
}

/// What a model sent, as the tool's own words have it.
fn parsed<T: DeserializeOwned>(arguments: Value) -> Answer<T> {
    serde_json::from_value(arguments).map_err(|error| {
        ApiError::new(
            axum::http::StatusCode::BAD_REQUEST,
            "bad_arguments",
            format!("the arguments are wrong: {error}"),
            "correct them as the tool's input schema says, and call again",
        )
    })
}

/// A sandbox for a tool that asks it something itself.
impl Call {
    async fn sandbox(&self, session: Option<&str>) -> Answer<(String, ringfence_sandbox::Sandbox)> {
        let name = self.connection.living(&self.host, session).await?;
        let sandbox = self.host.sandbox(&name).await?;
        Ok((name, sandbox))
    }

    async fn write(&self, session: Option<&str>, mut draft: FileDraft) -> Answer<()> {
        let name = self.connection.living(&self.host, session).await?;
        draft.action = self.connection.claim(draft.action).await;
        self.host.write(&name, draft).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client may ask its person, or not, by these.
    #[test]
    fn what_each_tool_does_is_told() {
        // Reads only, destroys, may be repeated, reaches the world.
        const READS: [bool; 4] = [true, false, true, false];
        const ADDS: [bool; 4] = [false, false, false, false];
        const CHANGES: [bool; 4] = [false, true, false, false];
        const RUNS: [bool; 4] = [false, true, false, true];
        let table = [
            ("sandbox_run", RUNS),
            ("sandbox_session_create", [false, false, false, true]),
            ("sandbox_session_list", READS),
            ("sandbox_session_close", CHANGES),
            ("sandbox_process_start", RUNS),
            ("sandbox_process_output", READS),
            ("sandbox_process_stop", CHANGES),
            ("sandbox_file_read", READS),
            ("sandbox_file_write", CHANGES),
            ("sandbox_file_edit", CHANGES),
            ("sandbox_file_list", READS),
            ("sandbox_diff", READS),
            ("sandbox_snapshot", ADDS),
            ("sandbox_restore", CHANGES),
            ("skill_search", READS),
            ("skill_read", READS),
            ("skill_run", RUNS),
            ("skill_create", CHANGES),
            ("skill_validate", READS),
            ("approval_list", READS),
            ("approval_status", READS),
        ];
        let told: Vec<(String, [bool; 4])> = list(Behind::Server)
            .iter()
            .map(|tool| {
                let hints = tool.annotations.as_ref().unwrap();
                let all = [
                    hints.read_only_hint,
                    hints.destructive_hint,
                    hints.idempotent_hint,
                    hints.open_world_hint,
                ];
                (tool.name.to_string(), all.map(|hint| hint.expect("each hint is given")))
            })
            .collect();
        assert_eq!(told, table.map(|(name, hints)| (name.to_owned(), hints)));
    }

    /// What a model reads of every tool in each of its turns is paid for each time.
    #[test]
    fn tools_are_told_in_few_words() {
        assert_eq!(list(Behind::Stdio).len(), 19);
        let tools = list(Behind::Server);
        assert_eq!(tools.len(), 21);
        for tool in &tools {
            let description = tool.description.as_deref().unwrap_or_default();
            assert!((20..=240).contains(&description.len()), "{}: {}", tool.name, description.len());
            let input = serde_json::to_string(&tool.input_schema).unwrap();
            assert!(input.len() <= 1_400, "{}: {} bytes\n{input}", tool.name, input.len());
            assert!(!input.contains("null") && !input.contains("$ref"), "{input}");
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            let output = tool.output_schema.as_ref().unwrap();
            assert_eq!(output["type"], "object");
            assert!(output["properties"]["error"].is_object());
            // `true` is a schema, and clients refuse a whole list for it.
            for schema in [&tool.input_schema, output] {
                let properties = schema["properties"].as_object().unwrap();
                assert!(properties.values().all(Value::is_object), "{}: {properties:?}", tool.name);
            }
            assert!(tool.title.is_some() && tool.annotations.is_some() && tool.meta.is_some());
            let is_open = tool.annotations.as_ref().and_then(|hints| hints.open_world_hint);
            assert_eq!(is_open, Some(MAY_REACH.contains(&&*tool.name)), "{}", tool.name);
        }
        let inputs: usize = tools
            .iter()
            .map(|tool| {
                serde_json::to_string(&tool.input_schema).unwrap().len()
                    + tool.description.as_deref().unwrap_or_default().len()
            })
            .sum();
        assert!(inputs <= 10_000, "{inputs} bytes");
    }
}
