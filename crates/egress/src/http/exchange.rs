//! One request and its answer: checked, written anew, sent, and the answer carried back.
//!
//! Every request of a connection is decided by itself, whatever came before it.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use hyper::http::{request, response};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use ringfence_policy::{Host, HostName, NetworkReason};

use super::answer::Answer;
use super::authority::{Form, Named, authority, named, set_target};
use super::body::{Body, Timely, boxed, empty, rewrite};
use super::handover::{Awaiting, Handover, Takeover};
use super::headers::{self, METHOD_OVERRIDES, PATH_OVERRIDES};
use super::recall::Recalled;
use super::sender::{SendError, Sender, chain};
use super::upgrade;
use super::watched::Finding;
use crate::admission::Admission;
use crate::swap::{Swap, Writing};

/// An HTTP/1 client that stops in the middle of a body is waited for so long. HTTP/2 streams may rest: they cost little.
const BODY: Duration = Duration::from_secs(120);
/// An answer of this length is worth the connection that it costs to splice it.
pub(super) const LARGE: u64 = 1 << 20;

/// What the requests of one client's connection to one host have in common.
pub(crate) struct Exchange {
    admission: Admission,
    /// The host that requests must be for.
    host: Host,
    sender: Result<Sender, Answer>,
    /// Masks what the host may know, and fills in only where the sender speaks TLS.
    swap: Option<Arc<Swap>>,
    finding: Option<Finding>,
}

/// How the host of a request is called.
struct Authority {
    /// As the client did.
    said: String,
    /// As it was admitted.
    admitted: String,
}

/// The connection is to be broken off without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the host closed the connection")]
pub(crate) struct Abort;

impl Exchange {
    pub(crate) fn new(admission: Admission, sender: Sender) -> Self {
        let (host, gate) = (admission.host().clone(), admission.gate());
        let swap = host.name().zip(gate.terminator());
        let swap = swap.and_then(|(name, terminator)| terminator.mask(gate.rules(), name));
        Self { admission, host, sender: Ok(sender), swap, finding: None }
    }

    /// Through TLS to a verified host: secrets may be filled in.
    pub(crate) fn with_swap(self, swap: Option<Arc<Swap>>) -> Self {
        Self { swap, ..self }
    }

    /// Every request gets this answer.
    pub(crate) fn hopeless(admission: Admission, answer: Answer) -> Self {
        let host = admission.host().clone();
        Self { admission, host, sender: Err(answer), swap: None, finding: None }
    }

    /// The client calls the host so, though it was admitted as another: `localhost` is the caller's own loopback.
    pub(crate) fn asked_as(self, host: Host) -> Self {
        Self { host, ..self }
    }

    pub(crate) fn is_for(&self, host: &Host, port: u16) -> bool {
        self.host == *host && self.admission.port() == port
    }

    /// What is found in the client's stream counts for every request.
    pub(crate) fn with_finding(self, finding: Finding) -> Self {
        Self { finding: Some(finding), ..self }
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    pub(crate) async fn answer(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Abort> {
        let version = request.version();
        let on_upgrade = hyper::upgrade::on(&mut request);
        match self.exchange(request, on_upgrade).await {
            Ok(response) => Ok(response),
            Err(SendError::Answer(answer)) => Ok(answer.response(version)),
            Err(SendError::Closed) => Err(Abort),
        }
    }

    async fn exchange(
        &self,
        request: Request<Incoming>,
        on_upgrade: OnUpgrade,
    ) -> Result<Response<Body>, SendError> {
        let (mut parts, body) = request.into_parts();
        let version = parts.version;
        // While a request is still being sent, its connection is needed. And hyper tells HTTP/1.0 that it stays open.
        let keeps = || headers::tokens(&parts.headers, CONNECTION).iter().any(|token| token == "keep-alive");
        let is_free = body.is_end_stream() && (version == Version::HTTP_11 || !keeps());
        let handover = parts.extensions.remove::<Handover>().filter(|_| is_free);
        let sender = self.sender.as_ref().map_err(|answer| SendError::Answer(answer.clone()))?;
        let authority = self.check(&parts, sender).map_err(SendError::Answer)?;
        // Until the host has answered.
        let held = self.admission.gate().heads().take(headers::size(&parts));
        let _held = held.ok_or_else(|| SendError::Answer(Answer::too_many(&self.admission)))?;
        let asked = upgrade::wanted(&parts.method, version, &parts.headers, self.is_strict());
        let method = parts.method.clone();
        let body = self.prepare(&mut parts, body).await.map_err(SendError::Answer)?;
        if let Some(protocol) = &asked {
            upgrade::set(&mut parts.headers, protocol);
        }
        let request = Request::from_parts(parts, body);
        let scheme = sender.scheme();
        let write = |request: &mut Request<Body>, form: Form, authorization: Option<&str>| {
            let http2 = form == Form::Pseudo;
            *request.version_mut() = if http2 { Version::HTTP_2 } else { Version::HTTP_11 };
            let (mut uri, mut headers) = (request.uri().clone(), std::mem::take(request.headers_mut()));
            // A proxy of the user's goes where the target says: that is never another host than the admitted one.
            let authority = if form == Form::Absolute { &authority.admitted } else { &authority.said };
            set_target(&mut uri, &mut headers, authority, scheme, form)?;
            if let Some(authorization) = authorization {
                headers.insert(PROXY_AUTHORIZATION, HeaderValue::from_str(authorization)?);
            }
            if !http2 && !request.body().is_end_stream() && request.body().size_hint().exact().is_none() {
                // hyper would leave the body of a GET out otherwise.
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            *request.uri_mut() = uri;
            *request.headers_mut() = headers;
            Ok(())
        };
        let sent = sender.send(request, write).await;
        let mut response = sent.map_err(|error| match self.found() {
            // It broke off because of what the client sent.
            Some(why) => SendError::Answer(Answer::malformed(&self.admission, why)),
            None => error,
        })?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let on_host_upgrade = hyper::upgrade::on(&mut response);
            return self.switch(asked, response, on_upgrade, on_host_upgrade).map_err(SendError::Answer);
        }
        let handover = handover.filter(|_| asked.is_none() && self.is_spliceable(&response, &method));
        if let Some(handover) = handover
            && let Some(recalled) = sender.recall().await
        {
            return Ok(self.hand_over(response, recalled, handover).await);
        }
        self.pass_back(response, &method).await.map_err(SendError::Answer)
    }

    /// May this request be? The authority to send on.
    fn check(&self, request: &request::Parts, sender: &Sender) -> Result<Authority, Answer> {
        if let Some(why) = self.found() {
            return Err(Answer::malformed(&self.admission, why));
        }
        if request.method == Method::CONNECT {
            // Somebody takes the host for a proxy: where to is worth knowing.
            let found = request.uri.authority().map_or("", |authority| authority.as_str()).to_owned();
            return Err(Answer::refuse(&self.admission, NetworkReason::HostHeader { found }));
        }
        let gate = self.admission.gate();
        let meant = |host| gate.named(host);
        let authority = match named(request, sender.scheme(), &self.host, self.admission.port(), meant) {
            Named::This(authority) => Authority { admitted: authority.clone(), said: authority },
            Named::Alias(name, said) => {
                self.check_alias(&name).map_err(|reason| Answer::refuse(&self.admission, reason))?;
                let port = (self.admission.port() != sender.scheme().port()).then_some(self.admission.port());
                Authority { admitted: authority(&self.host, port), said }
            }
            Named::Other(found) => {
                return Err(Answer::refuse(&self.admission, NetworkReason::HostHeader { found }));
            }
            Named::Malformed(why) => return Err(Answer::malformed(&self.admission, why)),
        };
        if let Some(name) = self.admission.host().name() {
            let checked = self.check_rules(request, name);
            let checked = checked.and_then(|()| match self.is_strict() {
                true => headers::other_host(&request.headers, |found| gate.named(found) == self.host),
                false => Ok(()),
            });
            checked.map_err(|reason| Answer::refuse(&self.admission, reason))?;
        }
        Ok(authority)
    }

    /// A name that an address is called by: nobody can say whose it is, but what is denied stays so, and a host whose
    /// requests are looked at is reached by its own name.
    fn check_alias(&self, name: &HostName) -> Result<(), NetworkReason> {
        let rules = self.admission.gate().rules();
        if name.is_localhost() || rules.terminates(name) {
            return Err(NetworkReason::HostHeader { found: name.to_string() });
        }
        match rules.decide(&Host::Name(name.clone()), self.admission.port()) {
            Err(reason @ NetworkReason::Denied { .. }) => Err(reason),
            _ => Ok(()),
        }
    }

    /// HTTP rules hold for what the server will make of the request, which some headers change.
    fn check_rules(&self, request: &request::Parts, name: &HostName) -> Result<(), NetworkReason> {
        let rules = self.admission.gate().rules();
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let method = request.method.as_str();
        let allows = |method: &str, path: &str| {
            let short = |text: &str| text.chars().take(300).collect::<String>();
            rules.http_allows(name, method, path).map_err(|reason| match reason {
                NetworkReason::Http { method, path } => {
                    NetworkReason::Http { method: short(&method), path: short(&path) }
                }
                other => other,
            })
        };
        allows(method, path)?;
        let said = |header| request.headers.get_all(header).into_iter().map(HeaderValue::as_bytes);
        for other in METHOD_OVERRIDES.into_iter().flat_map(said) {
            allows(&String::from_utf8_lossy(other).trim().to_ascii_uppercase(), path)?;
        }
        for other in PATH_OVERRIDES.into_iter().flat_map(said) {
            allows(method, &String::from_utf8_lossy(other))?;
        }
        Ok(())
    }

    fn found(&self) -> Option<&'static str> {
        self.finding.as_ref().and_then(Finding::why)
    }

    /// Has the host secrets or HTTP rules?
    fn is_strict(&self) -> bool {
        let rules = self.admission.gate().rules();
        self.admission.host().name().is_some_and(|name| rules.terminates(name))
    }

    /// The request as it goes on: without what was for this connection only, and with the secrets.
    async fn prepare(&self, parts: &mut request::Parts, body: Incoming) -> Result<Body, Answer> {
        headers::strip_connection(&mut parts.headers);
        headers::strip_expectation(&mut parts.headers);
        let mut body = match parts.version {
            Version::HTTP_2 => boxed(body),
            _ => boxed(Timely::new(body, BODY)),
        };
        if let Some(swap) = &self.swap {
            headers::ask_for_plain(&mut parts.headers);
            swap.fill_headers(&mut parts.headers);
            let kind =
                parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            if let Some(stream) = swap.fill_body(Writing::of(kind)) {
                let broken = |_| self.found().unwrap_or("its body breaks off");
                let rewritten = rewrite(body, stream, None).await.map_err(broken);
                body = rewritten.map_err(|why| Answer::malformed(&self.admission, why))?;
            }
        }
        headers::set_length(&mut parts.headers, &body.size_hint(), body.is_end_stream());
        Ok(body)
    }

    async fn pass_back(
        &self,
        response: Response<Incoming>,
        method: &Method,
    ) -> Result<Response<Body>, Answer> {
        let (mut parts, body) = response.into_parts();
        let is_plain = headers::is_plain(&parts.headers);
        headers::strip_connection(&mut parts.headers);
        clean(&mut parts);
        let mut body = boxed(body);
        let no_body = *method == Method::HEAD || body.is_end_stream();
        if let Some(swap) = &self.swap {
            swap.mask_headers(&mut parts.headers);
            if !no_body && !is_plain {
                return Err(self.broken("it sent a compressed answer though it was asked not to, and a secret in it could not be masked"));
            }
            let masked = rewrite(body, swap.mask_body(), Some(swap.clone())).await;
            body =
                masked.map_err(|error| self.broken(&format!("its answer broke off ({})", chain(&*error))))?;
        }
        // The answer to HEAD, and a 304, have the length of a body that is not sent.
        if *method != Method::HEAD && parts.status != StatusCode::NOT_MODIFIED {
            headers::set_length(&mut parts.headers, &body.size_hint(), body.is_end_stream());
        }
        Ok(Response::from_parts(parts, body))
    }

    /// Is it an answer whose body only has to be moved, and that is worth it?
    fn is_spliceable(&self, response: &Response<Incoming>, method: &Method) -> bool {
        *method != Method::HEAD
            && matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT)
            // Only known where nothing but the length says where the body ends.
            && response.body().size_hint().exact().is_some_and(|length| length >= LARGE)
            && self.swap.is_none()
            && !self.is_strict()
            && !self.admission.gate().bandwidth().inward().is_limited()
    }

    /// hyper writes the head; the body goes from socket to socket, and both connections end with it.
    async fn hand_over(
        &self,
        response: Response<Incoming>,
        recalled: Recalled,
        handover: Handover,
    ) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        headers::strip_connection(&mut parts.headers);
        clean(&mut parts);
        headers::set_length(&mut parts.headers, &body.size_hint(), false);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let takeover = Takeover::new(self.admission.clone(), body, recalled).await;
        Response::from_parts(parts, Awaiting::new(takeover, handover).boxed_unsync())
    }

    /// Both agreed: what follows is no HTTP any more.
    fn switch(
        &self,
        asked: Option<String>,
        response: Response<Incoming>,
        client: OnUpgrade,
        host: OnUpgrade,
    ) -> Result<Response<Body>, Answer> {
        let (mut parts, _) = response.into_parts();
        let Some(protocol) = asked.filter(|protocol| upgrade::agreed(&parts.headers, protocol)) else {
            return Err(self.broken("it switched to a protocol that was not asked for"));
        };
        headers::strip_connection(&mut parts.headers);
        clean(&mut parts);
        if let Some(swap) = &self.swap {
            swap.mask_headers(&mut parts.headers);
        }
        upgrade::set(&mut parts.headers, &protocol);
        tokio::spawn(upgrade::carry(client, host, self.swap.clone(), self.admission.clone()));
        Ok(Response::from_parts(parts, empty()))
    }

    fn broken(&self, why: &str) -> Answer {
        self.admission.fail(why);
        Answer::failed(&self.admission, why)
    }
}

/// What hyper remembers of the host's answer and would write to the client.
fn clean(parts: &mut response::Parts) {
    parts.version = Version::HTTP_11;
    parts.extensions.remove::<ReasonPhrase>();
}
