//! What the server tells of itself as it goes: lines on stderr, and spans to a collector where the standard variables
//! (`OTEL_EXPORTER_OTLP_ENDPOINT` and its kin) name one.

use std::io::IsTerminal;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use ringfence_service::{ErrorCode, ServiceError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::fetch::{Bounds, Plain, fetch};

const SENDING: Duration = Duration::from_secs(10);
const MOST_ANSWER: usize = 4 << 20;
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"];

/// Spans that were not sent yet are sent when this is closed.
#[derive(Debug)]
pub(crate) struct Telemetry(Option<SdkTracerProvider>);

impl Telemetry {
    /// Must be called where the server's runtime can be found.
    pub(crate) fn start(json: bool) -> Result<Self, ServiceError> {
        let provider = provider()?;
        let filter = EnvFilter::try_from_env("RINGFENCE_LOG")
            .unwrap_or_else(|_| EnvFilter::new("warn,ringfence_server=info,rmcp=error"));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        let lines = if json { lines.json().boxed() } else { lines.boxed() };
        let ours = EnvFilter::new("off,ringfence_server=info");
        let spans = provider.as_ref().map(|provider| {
            tracing_opentelemetry::layer().with_tracer(provider.tracer("ringfence")).with_filter(ours)
        });
        // A second server in one process, in a test say, keeps the first one's.
        let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).try_init();
        Ok(Self(provider))
    }

    /// Send what is left. Waits for the collector, so not on a thread that serves.
    pub(crate) fn close(self) {
        if let Some(provider) = self.0
            && let Err(error) = provider.shutdown_with_timeout(SENDING)
        {
            tracing::warn!(%error, "some spans were not sent");
        }
    }
}

/// For a program whose stderr its client shows: nothing but errors, and no spans.
pub(crate) fn log_errors() {
    let filter = EnvFilter::try_from_env("RINGFENCE_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// None: nothing asks for spans.
fn provider() -> Result<Option<SdkTracerProvider>, ServiceError> {
    let disabled = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let none = set("OTEL_TRACES_EXPORTER").is_some_and(|value| value != "otlp");
    if disabled || none || ENDPOINTS.iter().all(|name| set(name).is_none()) {
        return Ok(None);
    }
    if let Some((name, value)) = PROTOCOLS
        .iter()
        .find_map(|name| set(name).filter(|value| value != "http/protobuf").map(|value| (name, value)))
    {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            format!("{name} is `{}`, and spans are sent by http/protobuf only", value.escape_debug()),
            "set it to http/protobuf, or leave it out; collectors take that on port 4318",
        ));
    }
    let runtime = tokio::runtime::Handle::current();
    let exporter = SpanExporter::builder().with_http().with_http_client(Client { runtime }).build();
    let exporter = exporter.map_err(|error| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("cannot send spans: {error}"),
            "correct the variables that begin with OTEL_EXPORTER_OTLP_",
        )
    })?;
    let mut resource = Resource::builder();
    if set("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("ringfence");
    }
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    Ok(Some(provider))
}

/// Our own client. The exporter has a thread with no runtime, so what is sent is sent by the server's.
#[derive(Debug)]
struct Client {
    runtime: tokio::runtime::Handle,
}

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        // Whoever set the variable chose where spans go, and whether by TLS.
        let bounds = Bounds { plain: Plain::Anywhere, body: MOST_ANSWER, time: SENDING };
        let sent = self.runtime.spawn(fetch(request, bounds));
        Box::pin(async move { Ok(sent.await??) })
    }
}
