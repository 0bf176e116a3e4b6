//! Asking the person at the client (elicitation) where their answer may count: on stdio the user whose sandboxes these are,
//! over HTTP a caller who could approve the same action through the API. Where nobody can be asked, a call waits or is
//! refused as it would be without.

use ringfence_policy::{ActionKind, Asks, HostRule, judge};
use ringfence_store::{Level, Role};
use rmcp::model::{
    BooleanSchema, CallToolResponse, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    JsonObject, PrimitiveSchemaDefinition, ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RoleServer};
use serde_json::{Value, json};

use super::answer::stopped;
use super::host::{Host, NetworkWish};
use super::served::Served;
use super::tools::{self, Call};
use crate::actions::suspicious;
use crate::error::{Answer, ApiError};

/// What can't be shown whole is not asked about.
const MOST_SHOWN: usize = 4_000;
/// A call that waits for more than this is left waiting.
const MOST_ASKED: usize = 8;
/// The only question of a round.
const APPROVAL: &str = "approval";
/// What a request has beside a command that decides what it does.
const REST: [&str; 4] = ["cwd", "env", "stdin", "files"];
/// What a person ticks.
const ALLOW: &str = "allow";

/// Whoever sits at the client.
#[derive(Debug)]
pub(super) struct Person {
    peer: Peer<RoleServer>,
    reached: Reached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The client has no way to ask anybody.
    Not,
    /// By a request of ours while the call waits.
    Meanwhile,
    /// Revision 2026-07-28 and later: the call is answered with the question, and made again with what was said.
    NextRound,
}

/// What a client says when it makes a call again, of the question that it was answered with.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Yes,
    No,
    /// The question was put away.
    Nothing,
    /// Somebody else has decided meanwhile.
    Decided,
}

/// What a person decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum About {
    /// An action that waits on the server.
    Action(String),
    /// A network beyond the user's own policy, for this one call; a digest of it.
    Network(String),
}

#[derive(Debug)]
struct Question {
    about: About,
    message: String,
}

impl Person {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let asks = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A client that names no form of it has the first one that there was.
        let form = asks.is_some_and(|asks| asks.form.is_some() || asks.url.is_none());
        let rounds =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let reached = match (form, rounds) {
            (false, _) => Reached::Not,
            (true, false) => Reached::Meanwhile,
            (true, true) => Reached::NextRound,
        };
        Self { peer: context.peer.clone(), reached }
    }

    /// Put the question, and wait for an answer or for somebody else to decide.
    async fn ask(&self, host: &Host, question: &Question) -> Said {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(question.params()));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let Ok(mut asked) = sent else { return Said::Nothing };
        let decided = async {
            match (&question.about, host) {
                (About::Action(id), Host::Served(served)) => served.decided(id).await,
                _ => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            answer = &mut asked.rx => answer,
            () = decided => {
                let _ = asked.cancel(Some("it was decided elsewhere".into())).await;
                return Said::Decided;
            }
        };
        match answer {
            Ok(Ok(ClientResult::ElicitResult(result))) => Said::from(&result),
            _ => Said::Nothing,
        }
    }
}

impl From<&ElicitResult> for Said {
    /// Accepting is not enough: some clients accept by themselves what has nothing to fill in, when their user wants no
    /// questions. Nobody ticks a box by themselves.
    fn from(result: &ElicitResult) -> Self {
        let ticked = result.content.as_ref().and_then(|content| content[ALLOW].as_bool());
        match (&result.action, ticked) {
            (ElicitationAction::Accept, Some(true)) => Self::Yes,
            (ElicitationAction::Accept, Some(false)) | (ElicitationAction::Decline, _) => Self::No,
            // Put away, or a word that nobody knows yet.
            _ => Self::Nothing,
        }
    }
}

/// A call, with what a person is asked on its way. None: there is no such tool.
pub(super) async fn call(
    call: &mut Call,
    person: &Person,
    name: &str,
    mut arguments: JsonObject,
    round: Round,
) -> Option<CallToolResponse> {
    let mut asked = Vec::new();
    if let Some((about, said)) = round.said(call, name, &arguments) {
        asked.push(about.clone());
        if let Err(error) = settle(call, name, &mut arguments, &about, said).await {
            return Some(stopped(call.host.told(error)).into());
        }
    }
    loop {
        let error = match tools::call(call, name, arguments.clone()).await? {
            Ok(result) => return Some(result.into()),
            Err(error) => error,
        };
        let question = Question::on(&call.host, name, &arguments, &error)
            .filter(|question| asked.len() < MOST_ASKED && !asked.contains(&question.about));
        let (Some(question), true) = (question, person.reached != Reached::Not) else {
            return Some(stopped(call.host.told(error)).into());
        };
        if person.reached == Reached::NextRound {
            return Some(question.round().into());
        }
        let said = person.ask(&call.host, &question).await;
        if said == Said::Nothing {
            return Some(stopped(call.host.told(error)).into());
        }
        if let Err(error) = settle(call, name, &mut arguments, &question.about, said).await {
            return Some(stopped(call.host.told(error)).into());
        }
        asked.push(question.about);
    }
}

/// Let what was said hold, for this call and no other.
async fn settle(
    call: &mut Call,
    name: &str,
    arguments: &mut JsonObject,
    about: &About,
    said: Said,
) -> Answer<()> {
    match (about, &call.host, said) {
        (_, _, Said::Nothing) => Ok(()),
        (About::Action(id), Host::Served(served), said) => {
            match said {
                Said::Yes => served.decide(id, "approve").await?,
                Said::No => {
                    served.decide(id, "deny").await?;
                    return Err(declined());
                }
                Said::Decided | Said::Nothing => {}
            }
            if tools::takes_action(name) {
                arguments.insert("action".into(), json!(id));
            }
            Ok(())
        }
        (About::Network(_), Host::Own(_), Said::Yes) => {
            call.granted = true;
            Ok(())
        }
        _ => Err(declined()),
    }
}

fn declined() -> ApiError {
    ApiError::new(
        axum::http::StatusCode::FORBIDDEN,
        "denied",
        "the user was asked, and declined",
        "do without it, or ask the user what they would allow; the same call would be asked about again",
    )
}

impl Round {
    /// What was said to a question that this call could have been answered with.
    fn said(&self, call: &Call, name: &str, arguments: &JsonObject) -> Option<(About, Said)> {
        let response = self.responses.as_ref()?.get(APPROVAL)?;
        let result: ElicitResult = serde_json::from_value(response.clone()).ok()?;
        let state = self.state.clone()?;
        let about = match &call.host {
            // Whether it is theirs to decide is looked at when it is decided on.
            Host::Served(_) => About::Action(state),
            Host::Own(_) if state == digest(name, arguments) => About::Network(state),
            Host::Own(_) => return None,
        };
        Some((about, Said::from(&result)))
    }
}

impl Question {
    /// None: nobody at this client may decide it, or it can't be shown.
    fn on(host: &Host, name: &str, arguments: &JsonObject, error: &ApiError) -> Option<Self> {
        let question = match host {
            Host::Served(served) => Self::on_action(served, error.waits_for.as_deref()?),
            Host::Own(_) if error.code == "beyond_ceiling" => Self::on_network(name, arguments, error),
            Host::Own(_) => None,
        };
        question.filter(|question| question.message.len() <= MOST_SHOWN)
    }

    /// The rule of the API: only roles that decide, and nobody on their own high or critical action. The API looks again.
    fn on_action(served: &Served, action: &Value) -> Option<Self> {
        let level: Level = action["level"].as_str()?.parse().ok()?;
        let own = action["user"] == served.caller.user.as_str();
        if !own || level.needs_another_person() || !served.caller.role.covers(Role::Approver) {
            return None;
        }
        let request = &action["request"];
        if !is_shown_whole(request) {
            return None;
        }
        let what = match &request["command"] {
            Value::Array(words) => with_rest(plain_words(words), request.as_object()?),
            _ => request.to_string().escape_debug().to_string(),
        };
        let reasons = action["reasons"].as_array()?.iter().filter_map(Value::as_str);
        let message = told(
            &format!("{} on the server", action["kind"].as_str()?),
            &level.to_string(),
            reasons,
            &what,
            "This once.",
        );
        Some(Self { about: About::Action(action["id"].as_str()?.to_owned()), message })
    }

    /// A profile or another client's defaults are too much for one question, and so is a session that others can use.
    fn on_network(name: &str, arguments: &JsonObject, error: &ApiError) -> Option<Self> {
        if ["profile", "compat", "image", "name"].iter().any(|word| arguments.contains_key(*word)) {
            return None;
        }
        let network: NetworkWish = serde_json::from_value(arguments.get("network")?.clone()).ok()?;
        let (kind, what, how_long) = match name {
            "sandbox_run" => {
                let command = shown_command(arguments.get("command")?);
                (ActionKind::Run, with_rest(command, arguments), "For this command only.")
            }
            "sandbox_session_create" => (
                ActionKind::SandboxCreate,
                with_rest("a sandbox that stays".to_owned(), arguments),
                "For every command in this sandbox, until this connection ends.",
            ),
            _ => return None,
        };
        let hosts = network.allowed_domains.iter().map(|host| HostRule::parse(host));
        let asks = Asks {
            any_host: network.allowed_domains.is_empty(),
            hosts: hosts.collect::<Result<_, _>>().ok()?,
            suspicions: suspicious(&[("the command".to_owned(), what.as_bytes())]),
            ..Asks::default()
        };
        let judged = judge(kind, &asks);
        let reasons =
            std::iter::once(error.message.as_str()).chain(judged.reasons.iter().map(String::as_str));
        let message = told("a network for the sandbox", judged.level.as_str(), reasons, &what, how_long);
        Some(Self { about: About::Network(digest(name, arguments)), message })
    }

    fn params(&self) -> ElicitRequestParams {
        ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.message.clone(),
            requested_schema: self::schema(),
        }
    }

    fn round(&self) -> InputRequiredResult {
        let request = InputRequest::Elicitation(ElicitRequest::new(self.params()));
        let state = match &self.about {
            About::Action(id) => id,
            About::Network(digest) => digest,
        };
        InputRequiredResult::new(
            Some(InputRequests::from([(APPROVAL.to_owned(), request)])),
            Some(state.clone()),
        )
    }
}

/// One box, which nobody has ticked.
fn schema() -> ElicitationSchema {
    let field = BooleanSchema::new().title("Allow this").description("Without it nothing is allowed.");
    let properties = [(ALLOW.to_owned(), PrimitiveSchemaDefinition::Boolean(field))];
    let mut schema = ElicitationSchema::new(properties.into());
    schema.required = Some(vec![ALLOW.to_owned()]);
    schema
}

/// Ours first: what a model wrote comes last, on one line, and can't look like a line of ours.
fn told<'a>(
    what: &str,
    level: &str,
    reasons: impl Iterator<Item = &'a str>,
    command: &str,
    how_long: &str,
) -> String {
    let reasons: String = reasons.map(|reason| format!("\n- {}", reason.escape_debug())).collect();
    format!("Ringfence asks: allow {what}? {how_long}\nLevel: {level}{reasons}\nWould run: {command}")
}

/// What a command is given beside its words: a script on stdin or a variable can be all that matters.
fn with_rest(command: String, request: &JsonObject) -> String {
    let is_there = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty() && fields.get("bytes") != Some(&json!(0)),
        _ => true,
    };
    let rest: JsonObject = REST
        .iter()
        .filter_map(|name| {
            Some(((*name).to_owned(), request.get(*name).filter(|value| is_there(value))?.clone()))
        })
        .collect();
    match rest.is_empty() {
        true => command,
        false => format!("{command} with {}", Value::Object(rest).to_string().escape_debug()),
    }
}

/// The beginning alone of what is handed in says nothing of the rest.
fn is_shown_whole(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let short =
                fields.get("bytes").and_then(Value::as_u64).is_none_or(|bytes| bytes < MOST_SHOWN as u64);
            short && fields.values().all(is_shown_whole)
        }
        Value::Array(list) => list.iter().all(is_shown_whole),
        _ => true,
    }
}

fn shown_command(command: &Value) -> String {
    match command {
        Value::Array(words) => plain_words(words),
        Value::String(text) => text.escape_debug().to_string(),
        _ => String::new(),
    }
}

fn plain_words(words: &[Value]) -> String {
    let words: Vec<String> =
        words.iter().filter_map(Value::as_str).map(|word| word.escape_debug().to_string()).collect();
    words.join(" ")
}

/// Of a call: an answer is for the question that was asked.
fn digest(name: &str, arguments: &JsonObject) -> String {
    let exact = json!([name, arguments]).to_string();
    blake3::hash(exact.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_network(name: &str, arguments: Value) -> Option<Question> {
        let error = ApiError::bad("network.allow: example.org", "leave it out");
        Question::on_network(name, arguments.as_object().unwrap(), &error)
    }

    #[test]
    fn a_command_can_not_speak_in_our_name() {
        let command = "true\nLevel: low\u{202e}\r\x1b[2K";
        let network = json!({ "enabled": true, "allowed_domains": ["example.org"] });
        let asked = on_network("sandbox_run", json!({ "command": command, "network": network })).unwrap();
        assert_eq!(asked.message.matches('\n').count(), asked.message.lines().count() - 1);
        assert_eq!(asked.message.lines().filter(|line| line.starts_with("Level:")).count(), 1);
        let last = asked.message.lines().last().unwrap();
        assert!(last.starts_with("Would run: true\\nLevel: low\\u{202e}\\r\\u{1b}[2K"), "{last}");
        assert!(asked.message.contains("example.org"), "{}", asked.message);
    }

    #[test]
    fn what_is_handed_in_is_shown_or_not_asked_about() {
        let network = json!({ "enabled": true });
        let arguments =
            json!({ "command": ["sh"], "stdin": "curl x | sh\n", "env": { "A": "b" }, "network": network });
        let asked = on_network("sandbox_run", arguments).unwrap().message;
        assert!(asked.contains("Would run: sh with ") && asked.contains("curl x | sh"), "{asked}");
        let handed = |bytes: u64| json!({ "command": ["sh"], "stdin": { "bytes": bytes, "start": "true" } });
        assert!(is_shown_whole(&handed(4)) && !is_shown_whole(&handed(5_000)));
        let none = handed(0);
        assert_eq!(with_rest("sh".into(), none.as_object().unwrap()), "sh");
        assert!(!is_shown_whole(&json!({ "files": [{ "path": "a", "bytes": 5_000 }] })));
    }

    #[test]
    fn only_a_network_for_one_call_or_connection_is_asked_about() {
        let network = json!({ "enabled": true });
        assert!(on_network("sandbox_session_create", json!({ "network": network })).is_some());
        for arguments in [
            json!({ "command": "true", "network": network, "profile": "permissive" }),
            json!({ "command": "true", "network": network, "compat": "codex" }),
            json!({ "command": "true", "network": network, "name": "stays" }),
            json!({ "command": "true" }),
        ] {
            assert!(on_network("sandbox_run", arguments.clone()).is_none(), "{arguments}");
        }
        assert!(on_network("skill_run", json!({ "command": "true", "network": network })).is_none());
    }

    #[test]
    fn who_accepts_without_a_word_has_said_nothing() {
        let said = |value: Value| Said::from(&serde_json::from_value::<ElicitResult>(value).unwrap());
        assert_eq!(said(json!({ "action": "accept", "content": { "allow": true } })), Said::Yes);
        assert_eq!(said(json!({ "action": "accept", "content": { "allow": false } })), Said::No);
        assert_eq!(said(json!({ "action": "decline" })), Said::No);
        for nothing in [
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": {} }),
            json!({ "action": "accept", "content": { "allow": "true" } }),
            json!({ "action": "accept", "content": [true] }),
            json!({ "action": "cancel", "content": { "allow": true } }),
        ] {
            assert_eq!(said(nothing.clone()), Said::Nothing, "{nothing}");
        }
    }

    #[test]
    fn an_answer_is_for_one_call() {
        let one = json!({ "command": "true" });
        let other = json!({ "command": "false" });
        let of = |value: &Value| digest("sandbox_run", value.as_object().unwrap());
        assert_ne!(of(&one), of(&other));
        assert_ne!(of(&one), digest("sandbox_session_create", one.as_object().unwrap()));
    }
}
