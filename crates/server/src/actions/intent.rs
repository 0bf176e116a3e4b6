//! What a request would do, in the three forms that are needed: facts to be judged by, what a person is shown, and a digest of
//! all of it.

use ringfence_policy::{
    ActionKind, Asker, Asks, Layer, Origin, Policy, ProfileName, Suspicion, masked_text, masked_variable,
    masked_words, merge, secret_values,
};
use ringfence_service::suspicions;
use ringfence_service::workers::{FileOrder, SandboxOrder};
use serde::Serialize;
use serde_json::{Value, json};

use super::gate::Claim;
use crate::app::App;
use crate::auth::{Caller, LOCAL};
use crate::error::{Answer, ApiError};

/// Something that somebody wants to do. A route makes one, and passes it through the gate before it does anything.
#[derive(Debug)]
pub(crate) struct Intent {
    pub(crate) kind: ActionKind,
    pub(crate) asks: Asks,
    /// Empty where nothing is run.
    pub(crate) command: Vec<String>,
    /// The skill, path, workspace, secret or sandbox that it is about.
    pub(crate) target: Option<String>,
    /// Paths that rules look at as well, where it is about many.
    pub(crate) members: Vec<String>,
    /// Commands that rules look at as well: lines that are typed into one.
    pub(crate) typed: Vec<Vec<String>>,
    /// Where it happens; an approval for a session is for this one.
    pub(crate) sandbox: Option<String>,
    /// Values that are written down nowhere but in what is shown.
    pub(crate) secrets: Vec<String>,
    /// Exactly what would be done, as a person can read it.
    pub(crate) shown: Value,
    /// Of the whole resolved order: see `order_digest`.
    pub(crate) digest: String,
    pub(crate) claim: Claim,
}

/// How much of a file or of stdin a person is shown; the digest is of all of it.
const START: usize = 4096;
/// More could not be read by whoever decides.
const MOST_SHOWN: usize = 1 << 20;
const SUMMARY: usize = 120;

impl Intent {
    /// In one line, for lists.
    pub(crate) fn summary(&self) -> String {
        let words = match self.command.is_empty() {
            true => self.target.clone().unwrap_or_default(),
            false => {
                let known: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
                masked_words(&self.command, &known).join(" ")
            }
        };
        let line = format!("{} {words}", self.kind);
        let mut short: String = line.chars().take(SUMMARY).collect();
        if short.len() < line.len() {
            short.push('…');
        }
        short
    }

    /// What can't be shown whole can't be approved.
    pub(crate) fn check_size(&self) -> Answer<()> {
        if self.shown.to_string().len() <= MOST_SHOWN {
            return Ok(());
        }
        Err(ApiError::new(
            axum::http::StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "this takes a person's approval, and is more than can be shown to one",
            "put what is long into `files` or stdin, which are shown by their digest",
        ))
    }

    /// Whose it is, where that is not the caller.
    pub(crate) fn asked_by(mut self, app: &App, caller: &Caller, owner: &str) -> Self {
        self.asks.asker = if owner != caller.user {
            Asker::For(owner.to_owned())
        } else if app.without_authentication && caller.user == LOCAL {
            Asker::Anybody
        } else {
            Asker::Owner
        };
        self
    }

    /// A command in a sandbox, or a sandbox, that is yet to be made.
    pub(crate) fn of_order(
        kind: ActionKind,
        order: &SandboxOrder,
        stdin: &[u8],
        more: Value,
        claim: Claim,
    ) -> Answer<Self> {
        let policy = policy(&order.layers)?;
        let mut asks = Asks::of(&policy);
        let command = order.argv.join(" ");
        let mut texts = vec![("the command".to_owned(), command.as_bytes()), ("stdin".to_owned(), stdin)];
        texts.extend(order.files.iter().map(|file| (format!("the file {}", file.path), &file.content[..])));
        asks.suspicions = suspicious(&texts);
        let secrets = secret_values(&policy.environment.set);
        let variables = policy.environment.set.iter();
        let variables: serde_json::Map<String, Value> =
            variables.map(|(name, value)| (name.clone(), masked_variable(name, value).into())).collect();
        let mut policy =
            serde_json::to_value(&policy).map_err(|error| ApiError::internal("show a policy", error))?;
        policy["environment"]["set"] = variables.into();
        let files: Vec<Value> = order.files.iter().map(shown_file).collect();
        let workspace = order.workspace.as_deref().and_then(|name| name.rsplit('/').next());
        let known: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let shown = json!({
            "command": masked_words(&order.argv, &known),
            "cwd": order.directory,
            "stdin": handed_in(stdin),
            "files": files,
            "workspace": workspace.unwrap_or("private"),
            "skills": order.skills,
            "trace": order.trace,
            "strict": order.strict,
            "policy": policy,
            "more": masked(&more, &known),
        });
        let digest = order_digest(kind, &(order, &more, blake3::hash(stdin).to_hex().as_str()))?;
        Ok(Self {
            kind,
            asks,
            command: order.argv.clone(),
            target: workspace.map(str::to_owned),
            members: Vec::new(),
            typed: Vec::new(),
            sandbox: None,
            secrets,
            shown,
            digest,
            claim,
        })
    }

    /// Something that makes no sandbox and is in none. `exact` is all that is done.
    pub(crate) fn about(
        kind: ActionKind,
        target: &str,
        exact: &impl Serialize,
        shown: Value,
        claim: Claim,
    ) -> Answer<Self> {
        Ok(Self {
            kind,
            asks: Asks::default(),
            command: Vec::new(),
            target: Some(target.to_owned()),
            members: Vec::new(),
            typed: Vec::new(),
            sandbox: None,
            secrets: Vec::new(),
            shown,
            digest: order_digest(kind, &(target, exact))?,
            claim,
        })
    }

    /// Something in a sandbox that is there. What that sandbox may do was decided when it was made.
    pub(crate) fn in_sandbox(
        kind: ActionKind,
        sandbox: &str,
        exact: &impl Serialize,
        claim: Claim,
    ) -> Answer<Self> {
        Ok(Self {
            kind,
            asks: Asks::default(),
            command: Vec::new(),
            target: None,
            members: Vec::new(),
            typed: Vec::new(),
            sandbox: Some(sandbox.to_owned()),
            secrets: Vec::new(),
            shown: Value::Null,
            digest: order_digest(kind, &(sandbox, exact))?,
            claim,
        })
    }
}

/// What is shown of what was given: the digest is of all of it.
fn masked(value: &Value, known: &[&str]) -> Value {
    match value {
        Value::String(text) => masked_text(text, known).into(),
        Value::Array(items) => match items.iter().map(Value::as_str).collect::<Option<Vec<&str>>>() {
            Some(words) => masked_words(&words, known).into(),
            None => items.iter().map(|item| masked(item, known)).collect(),
        },
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), masked(field, known))).collect()
        }
        other => other.clone(),
    }
}

/// What would run, whole: every word, layer, file and byte of stdin is in it.
fn order_digest(kind: ActionKind, order: &impl Serialize) -> Answer<String> {
    let bytes = serde_json::to_vec(order).map_err(|error| ApiError::internal("write an order", error))?;
    let mut hasher = blake3::Hasher::new_derive_key("ringfence action v1");
    hasher.update(kind.as_str().as_bytes()).update(&[0]).update(&bytes);
    Ok(hasher.finalize().to_hex().to_string())
}

/// Bytes that are handed in: how many, which, and how they begin.
pub(crate) fn handed_in(bytes: &[u8]) -> Value {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(START)]);
    json!({
        "bytes": bytes.len(),
        "digest": blake3::hash(bytes).to_hex().as_str(),
        "start": masked_text(&start, &[]),
    })
}

/// The lines of what is typed, as rules on commands read them: words between blanks, without the quotes of a shell around them.
/// Like such rules they are a convenience: a shell has many ways to say the same.
pub(crate) fn typed_commands(bytes: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_TYPED)]);
    let word = |word: &str| word.trim_matches(['"', '\'']).to_owned();
    let words = |line: &str| line.split_whitespace().map(word).collect();
    let parts = text.split(['\n', '\r', ';', '&', '|']);
    parts.map(words).filter(|words: &Vec<String>| !words.is_empty()).collect()
}

/// As much of it as is looked at for other things.
const MOST_TYPED: usize = 1 << 20;

/// From here on, looking is not for a thread that serves others.
const LONG: usize = 64 << 10;

/// What in these texts, each with what people call it, looks like an attempt to steer a model.
pub(crate) fn suspicious(texts: &[(String, &[u8])]) -> Vec<Suspicion> {
    let look = || texts.iter().flat_map(|(place, text)| suspicions(place, text)).collect();
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    if bytes > LONG { tokio::task::block_in_place(look) } else { look() }
}

fn shown_file(file: &FileOrder) -> Value {
    let mut shown = handed_in(&file.content);
    shown["path"] = file.path.clone().into();
    shown["mode"] = format!("{:o}", file.mode).into();
    shown
}

/// What the layers come to. The server's own, which is last, hides its paths too: those are nobody's to read of.
fn policy(layers: &[Layer]) -> Answer<Policy> {
    let mut layers: Vec<(Origin, Layer)> =
        layers.iter().map(|layer| (Origin::flag("request"), layer.clone())).collect();
    if let Some((_, ours)) = layers.last_mut() {
        ours.filesystem.hide.clear();
    }
    merge(ProfileName::default(), &layers)
        .map(|merged| merged.policy)
        .map_err(|error| ApiError::bad(error.to_string(), "correct `policy`"))
}

#[cfg(test)]
mod tests {
    use super::typed_commands;

    #[test]
    fn each_line_that_is_typed_is_a_command() {
        let typed = typed_commands(b"ls -l\n\n  git 'push'  origin; date\r\nx && git push|cat\n");
        let lines: Vec<String> = typed.iter().map(|words| words.join(" ")).collect();
        assert_eq!(lines, ["ls -l", "git push origin", "date", "x", "git push", "cat"]);
    }
}
