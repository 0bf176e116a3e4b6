//! Pages for people: a friendly one at `/`, and the API, browsable, at `/docs`. All of it is in the executable: nothing is
//! loaded from elsewhere, and the pages may load nothing else.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// No inline script or style, nothing of another site, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Path, kind, content.
const PAGES: [(&str, &str, &str); 5] = [
    ("/", HTML, include_str!("../pages/home.html")),
    ("/docs", HTML, include_str!("../pages/docs.html")),
    ("/docs/home.js", SCRIPT, include_str!("../pages/home.js")),
    ("/docs/docs.js", SCRIPT, include_str!("../pages/docs.js")),
    ("/docs/pages.css", STYLE, include_str!("../pages/pages.css")),
];

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    PAGES.into_iter().fold(Router::new(), |router, (path, kind, content)| {
        router.route(path, get(move || async move { page(kind, content) }))
    })
}

fn page(kind: &'static str, content: &'static str) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // The first address has a token in it.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_load_nothing_from_elsewhere_and_nothing_inline() {
        for (path, kind, content) in PAGES {
            for word in
                ["http://", "https://", "//cdn", "@import", "innerHTML", "eval(", "style=", "onclick=\""]
            {
                assert!(!content.contains(word), "{path} has {word}");
            }
            if kind == HTML {
                assert!(!content.contains("<style"), "{path}");
                assert_eq!(
                    content.matches("<script").count(),
                    content.matches("<script src=\"/docs/").count()
                );
            }
        }
    }
}
