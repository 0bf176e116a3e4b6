//! One shape for every error: a stable code for programs, a sentence and a next step for people, and the request's id.

use std::io;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ringfence_sandbox::{FileError, SessionError};
use ringfence_service::{ErrorCode, ServiceError, TreeError};
use ringfence_store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) type Answer<T> = Result<T, ApiError>;

/// What went wrong. The body is written when the request's id is known.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: String,
    /// Seconds to wait, where waiting helps.
    pub(crate) retry_after: Option<u32>,
    /// Paths of the workspace that it is about.
    pub(crate) paths: Vec<String>,
    /// For callers inside of this process: nothing went wrong, and nothing was done. A person has to decide on this action.
    pub(crate) waits_for: Option<Box<serde_json::Value>>,
    /// The audit has it.
    pub(crate) recorded: bool,
}

/// The body of every error.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ErrorBody {
    pub(crate) error: ErrorDetail,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ErrorDetail {
    /// Stable: programs match on it.
    #[schema(example = "not_found")]
    pub(crate) code: String,
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: String,
    /// Quote it when you ask for help; the server's log has it too.
    pub(crate) request_id: String,
    /// Paths of the workspace that it is about, where there are any: what a commit conflicts with, say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) paths: Vec<String>,
}

impl ApiError {
    pub(crate) fn new(
        status: StatusCode,
        code: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            hint: hint.into(),
            retry_after: None,
            paths: Vec::new(),
            waits_for: None,
            recorded: false,
        }
    }

    pub(crate) fn bad(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message, hint)
    }

    /// Also for what is there and somebody else's: who may not see a thing is not told that it exists.
    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no {what} `{}`", name.escape_debug()),
            "list what there is; an id belongs to the user who made it",
        )
    }

    pub(crate) fn forbidden(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message, hint)
    }

    pub(crate) fn too_many(message: impl Into<String>, hint: impl Into<String>, wait: u64) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message, hint);
        error.retry_after = Some(u32::try_from(wait).unwrap_or(u32::MAX));
        error
    }

    /// Ours to mend. What exactly is for the log, not for whoever asked.
    pub(crate) fn internal(doing: &str, error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "cannot {doing}");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the server could not {doing}"),
            "try again; the server's log has the reason under this request's id",
        )
    }

    pub(crate) fn body(&self, request_id: &str) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                code: self.code.clone(),
                message: self.message.clone(),
                hint: self.hint.clone(),
                request_id: request_id.to_owned(),
                paths: self.paths.clone(),
            },
        }
    }

    /// The whole response, for whoever knows the request's id.
    pub(crate) fn respond(self, request_id: &str) -> Response {
        let mut response = (self.status, Json(self.body(request_id))).into_response();
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for ApiError {
    /// Without a body: `doors::finish` writes it.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        let status = match error.code {
            ErrorCode::NoSession => StatusCode::NOT_FOUND,
            ErrorCode::SessionEnded => StatusCode::GONE,
            ErrorCode::State | ErrorCode::SandboxFailed => {
                return Self { code: code_of(error.code), ..Self::internal("make the sandbox", &error) };
            }
            ErrorCode::NotEnforceable
            | ErrorCode::Missing
            | ErrorCode::Image
            | ErrorCode::BadSkill
            | ErrorCode::BuildFailed
            | ErrorCode::FetchFailed
            | ErrorCode::Findings
            | ErrorCode::Frozen => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorCode::SessionBusy | ErrorCode::SessionSilent => StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Commit | ErrorCode::Snapshot => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        let mut told = Self::new(status, &code_of(error.code), error.message, error.hint);
        told.paths = error.paths;
        told
    }
}

fn code_of(code: ErrorCode) -> String {
    serde_json::to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

const PAUSED: &str = "the session is paused";

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match &error {
            SessionError::Io { .. } => Self::internal("reach the sandbox", &error),
            // As its keeper says it.
            SessionError::Refused { why, .. } if why == PAUSED => Self::new(
                StatusCode::CONFLICT,
                "paused",
                "the sandbox is paused, and nothing is started in it",
                "let it go on with POST /v1/sandboxes/{id}/resume",
            ),
            _ => ServiceError::from(error).into(),
        }
    }
}

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        const ENOENT: i32 = 2;
        const EEXIST: i32 = 17;
        const EACCES: i32 = 13;
        const EPERM: i32 = 1;
        const EROFS: i32 = 30;
        let (status, code) = match error.errno() {
            Some(ENOENT) => (StatusCode::NOT_FOUND, "no_such_file"),
            Some(EEXIST) => (StatusCode::CONFLICT, "file_exists"),
            Some(EACCES | EPERM | EROFS) => (StatusCode::FORBIDDEN, "file_denied"),
            _ => (StatusCode::BAD_REQUEST, "bad_file"),
        };
        Self::new(status, code, error.to_string(), error.fix())
    }
}

impl From<TreeError> for ApiError {
    fn from(error: TreeError) -> Self {
        let text = error.to_string();
        match error {
            TreeError::File(error) => error.into(),
            TreeError::Refused(_) => Self::new(
                StatusCode::BAD_REQUEST,
                "bad_archive",
                format!("the archive is refused: {text}"),
                "send a tar of files and directories with relative paths",
            ),
            TreeError::TooMuch { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text, "send or ask for a part of it")
            }
            TreeError::Write { .. } => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "not_written",
                text,
                "see what is left of the sandbox's disk",
            ),
            TreeError::Stream(_) => Self::bad(text, "send it again, whole"),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::Taken { .. } | StoreError::Conflict { .. } => StatusCode::CONFLICT,
            StoreError::NotFound { .. } => StatusCode::NOT_FOUND,
            StoreError::OwnAction { .. } | StoreError::MadeBySubmitter { .. } => StatusCode::FORBIDDEN,
            StoreError::Quota { .. } => {
                let text = error.to_string();
                let (message, hint) = text.split_once("; ").unwrap_or((&text, "end one first"));
                let mut error = Self::too_many(message, hint, 5);
                error.code = "quota".into();
                return error;
            }
            _ => return Self::internal("use its database", &error),
        };
        let text = error.to_string();
        let (message, hint) = text.rsplit_once("; ").unwrap_or((&text, "list what there is"));
        Self::new(status, error.code(), message, hint)
    }
}

impl From<io::Error> for ApiError {
    fn from(error: io::Error) -> Self {
        Self::internal("reach a worker", error)
    }
}
