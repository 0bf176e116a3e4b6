//! How this command fails: one line with the reason, one with the next step, and 125.

use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use ringfence_service::{ErrorCode, ServiceError};

use crate::output::{self, printable};

/// The sandbox was refused or failed, or `ringfence` itself was used wrongly.
pub(crate) const REFUSED: i32 = 125;

#[derive(Debug)]
pub(crate) enum Failure {
    /// Said to the user on stderr; in JSON too, where that was asked for.
    Refused { error: ServiceError, json: bool },
    /// Help or the version: what was asked for, not a failure.
    Asked(clap::Error),
    /// No verb: the help is what helps, on stderr.
    Nothing(clap::Error),
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        ServiceError::new(ErrorCode::BadRequest, message, next).into()
    }

    /// A line that can't be parsed. `verb` is what to ask for help.
    pub(crate) fn usage(error: clap::Error, verb: &str) -> Self {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Self::Asked(error),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                Self::Nothing(error)
            }
            _ => Self::new(reason(&error), next_step(&error, verb)),
        }
    }

    /// What happened, for somebody who prints it.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Refused { error, .. } => error.message.clone(),
            Self::Asked(error) | Self::Nothing(error) => error.to_string(),
        }
    }

    pub(crate) fn with_json(self, json: bool) -> Self {
        match self {
            Self::Refused { error, .. } => Self::Refused { error, json },
            other => other,
        }
    }

    /// Print it; the exit status.
    pub(crate) fn report(self) -> i32 {
        match self {
            Self::Asked(error) => {
                let _ = error.print();
                0
            }
            Self::Nothing(error) => {
                let _ =
                    std::io::Write::write_all(&mut std::io::stderr(), error.render().to_string().as_bytes());
                REFUSED
            }
            Self::Refused { error, json } => {
                output::error(&error);
                if json {
                    output::json(&serde_json::json!({ "exit_code": REFUSED, "error": error }));
                }
                REFUSED
            }
        }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Refused { error, json: false }
    }
}

/// clap's own first paragraph, on one line.
fn reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut line = String::new();
    for part in text.lines().take_while(|line| !line.trim().is_empty()) {
        let _ = write!(line, "{}{}", if line.is_empty() { "" } else { " " }, part.trim());
    }
    printable(line.strip_prefix("error: ").unwrap_or(&line))
}

fn next_step(error: &clap::Error, verb: &str) -> String {
    let suggested =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
            .into_iter()
            .find_map(|kind| match error.get(kind)? {
                ContextValue::String(text) => Some(text.clone()),
                ContextValue::Strings(texts) => texts.first().cloned(),
                _ => None,
            });
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string().strip_prefix("Usage: ").map(str::to_owned),
        _ => None,
    };
    match (suggested, error.kind(), usage) {
        (Some(suggestion), ..) => format!("did you mean `{suggestion}`? `{verb} --help` lists what there is"),
        (None, ErrorKind::MissingRequiredArgument, Some(usage)) => usage,
        (None, ErrorKind::ValueValidation, _) => format!("correct the value; `{verb} --help` has examples"),
        _ => format!("`{verb} --help`"),
    }
}
