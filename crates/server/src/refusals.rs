//! What is refused for want of a right is in the audit too: somebody tried. Routes that know a better name for what was tried
//! write it down themselves; what any other answers with 403 is written down here, once.

use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use crate::app::Shared;
use crate::auth::Caller;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError};
use crate::http::entry;

const KIND: &str = "refused";
/// As much of a path as is written down.
const LONGEST: usize = 256;

/// Written down under this name; the error says so from then on.
pub(crate) async fn record_refusal(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    kind: &str,
    mut error: ApiError,
) -> Answer<ApiError> {
    if error.status == StatusCode::FORBIDDEN && !error.recorded {
        let told = json!({ "code": error.code, "message": error.message });
        let mut entry = entry(caller, request_id, kind, None, told);
        entry.decision = Some("deny".into());
        app.record(entry).await?;
        error.recorded = true;
    }
    Ok(error)
}

/// Of who is known and was refused by any route.
pub(crate) async fn record_refusals(
    State(app): State<Shared>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let method = request.method().to_string();
    let path: String = request.uri().path().chars().take(LONGEST).collect();
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let request_id = request.extensions().get::<RequestId>().cloned();
    let mut response = next.run(request).await;
    let refused = response.extensions_mut().get_mut::<ApiError>();
    let refused = refused.filter(|error| error.status == StatusCode::FORBIDDEN && !error.recorded);
    if let (Some(error), Some(request_id)) = (refused, request_id) {
        error.recorded = true;
        let told = json!({ "code": error.code, "message": error.message, "method": method, "route": route });
        let mut entry = entry(&caller, &request_id, KIND, Some(path), told);
        entry.decision = Some("deny".into());
        app.record(entry).await?;
    }
    Ok(response)
}
