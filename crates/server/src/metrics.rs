//! Counts for Prometheus.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use ringfence_sandbox::HostTraffic;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Traffic {
    direction: &'static str,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Host {
    host: String,
}

/// The kind of a denial that is a limit reached.
const LIMIT: &str = "limit";
/// How many names of hosts are told apart.
const MOST_HOSTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    latency: Family<Kind, Histogram>,
    starts: Family<Kind, Counter>,
    start_time: Family<Kind, Histogram>,
    queue: Family<Kind, Gauge>,
    limits: Family<Kind, Counter>,
    limited: Family<Kind, Counter>,
    commands: Family<Kind, Counter>,
    command_time: Histogram,
    denials: Family<Kind, Counter>,
    network_bytes: Family<Traffic, Counter<u64, AtomicU64>>,
    connections: Family<Host, Counter>,
    network_errors: Family<Host, Counter>,
    hosts: Mutex<BTreeSet<String>>,
    pool: Family<Kind, Counter>,
    pub(crate) pool_ready: Gauge,
    pub(crate) running: Gauge,
    pub(crate) sandboxes: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) open: Gauge,
}

/// Where a sandbox came from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// Made for the request.
    Fresh,
    /// It waited in the stock.
    Ahead,
    /// Made for the request, and stays.
    Session,
}

impl Start {
    fn word(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Ahead => "ahead",
            Self::Session => "session",
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("ringfence");
        let times = || Histogram::new(exponential_buckets(0.000_5, 2.0, 18));
        let requests = Family::<RequestLabels, Counter>::default();
        let latency = Family::<Kind, Histogram>::new_with_constructor(times);
        let starts = Family::<Kind, Counter>::default();
        let start_time = Family::<Kind, Histogram>::new_with_constructor(times);
        let (queue, limits) = (Family::<Kind, Gauge>::default(), Family::<Kind, Counter>::default());
        let limited = Family::<Kind, Counter>::default();
        let commands = Family::<Kind, Counter>::default();
        let command_time = times();
        let denials = Family::<Kind, Counter>::default();
        let network_bytes = Family::<Traffic, Counter<u64, AtomicU64>>::default();
        let connections = Family::<Host, Counter>::default();
        let network_errors = Family::<Host, Counter>::default();
        let (pool, pool_ready) = (Family::<Kind, Counter>::default(), Gauge::default());
        registry.register("pool", "Runs in a sandbox of the stock (hit), and others (miss)", pool.clone());
        registry.register("pool_ready", "Sandboxes that wait for a run", pool_ready.clone());
        let (running, sandboxes, streams) = (Gauge::default(), Gauge::default(), Gauge::default());
        let open = Gauge::default();
        registry.register("requests", "Requests, by route, method and status", requests.clone());
        registry.register_with_unit("request_time", "From request to answer", Unit::Seconds, latency.clone());
        registry.register("starts", "Sandboxes that were ordered, by where they came from", starts.clone());
        registry.register_with_unit(
            "start_time",
            "Until a sandbox's walls were up; of a session, until it was alive",
            Unit::Seconds,
            start_time.clone(),
        );
        registry.register("queue", "What waits, by for whom", queue.clone());
        registry.register("limits", "Limits that commands reached, by which", limits.clone());
        registry.register("limited", "Requests beyond a quota, by its code", limited.clone());
        registry.register("connections_open", "Connections of clients", open.clone());
        registry.register("commands", "Commands that ended, by how", commands.clone());
        registry.register_with_unit("command_time", "From order to end", Unit::Seconds, command_time.clone());
        registry.register("denials", "What sandboxes blocked, by kind", denials.clone());
        registry.register_with_unit(
            "network",
            "What went through egress",
            Unit::Bytes,
            network_bytes.clone(),
        );
        registry.register("connections", "Connections through egress, by host", connections.clone());
        registry.register("network_errors", "Connections that failed, by host", network_errors.clone());
        registry.register("commands_running", "Commands that run now", running.clone());
        registry.register("sandboxes", "Sandboxes alive", sandboxes.clone());
        registry.register("streams", "Event streams that can be taken up", streams.clone());
        Self {
            registry,
            requests,
            latency,
            starts,
            start_time,
            queue,
            limits,
            limited,
            commands,
            command_time,
            denials,
            network_bytes,
            connections,
            network_errors,
            hosts: Mutex::default(),
            pool,
            pool_ready,
            running,
            sandboxes,
            streams,
            open,
        }
    }
}

impl Metrics {
    pub(crate) fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        let labels = RequestLabels { route: route.to_owned(), method: method.to_owned(), status };
        self.requests.get_or_create(&labels).inc();
        self.latency.get_or_create(&Kind { kind: route.to_owned() }).observe(took.as_secs_f64());
    }

    /// A sandbox has started, after so long if that is known.
    pub(crate) fn started(&self, start: Start, took: Option<Duration>) {
        let kind = Kind { kind: start.word().into() };
        self.starts.get_or_create(&kind).inc();
        if let Some(took) = took {
            self.start_time.get_or_create(&kind).observe(took.as_secs_f64());
        }
    }

    /// So many wait now.
    pub(crate) fn waiting(&self, actions: u64) {
        self.queue.get_or_create(&Kind { kind: "approval".into() }).set(actions as i64);
    }

    /// A quota held somebody back.
    pub(crate) fn limited(&self, code: &str) {
        self.limited.get_or_create(&Kind { kind: code.to_owned() }).inc();
    }

    /// Whether a run had a sandbox that was made ahead.
    pub(crate) fn pooled(&self, hit: bool, took: Option<Duration>) {
        self.started(if hit { Start::Ahead } else { Start::Fresh }, took);
        self.pool.get_or_create(&Kind { kind: if hit { "hit" } else { "miss" }.into() }).inc();
    }

    /// From the facts of a run, as they are told to whoever asked.
    pub(crate) fn command(&self, facts: &Value, took: Duration) {
        let kind = match (&facts["timed_out"], &facts["signal"], facts["exit_code"].as_i64()) {
            (Value::Bool(true), ..) => "timed_out",
            (_, Value::Number(_), _) => "signal",
            (_, _, Some(0)) => "success",
            _ => "failure",
        };
        self.commands.get_or_create(&Kind { kind: kind.into() }).inc();
        self.command_time.observe(took.as_secs_f64());
        for denial in facts["denials"].as_array().into_iter().flatten() {
            let kind = denial["kind"].as_str().unwrap_or("other").to_owned();
            let count = denial["count"].as_u64().unwrap_or(1);
            if kind == LIMIT {
                // A clause of the policy, or a quota: no command makes these up.
                let kind = denial["what"].as_str().unwrap_or("other").to_owned();
                self.limits.get_or_create(&Kind { kind }).inc_by(count);
            }
            self.denials.get_or_create(&Kind { kind }).inc_by(count);
        }
        self.network(&facts["network"]);
    }

    fn network(&self, record: &Value) {
        for connection in record["connections"].as_array().into_iter().flatten() {
            let number = |key: &str| connection[key].as_u64().unwrap_or(0);
            self.traffic(&HostTraffic {
                host: connection["host"].as_str().unwrap_or_default().to_owned(),
                connections: number("count"),
                sent: number("sent"),
                received: number("received"),
                errors: number("errors"),
            });
        }
    }

    /// What went to one host since it was last counted.
    pub(crate) fn traffic(&self, traffic: &HostTraffic) {
        let host = self.host_label(&traffic.host);
        for (direction, bytes) in [("in", traffic.received), ("out", traffic.sent)] {
            self.network_bytes.get_or_create(&Traffic { direction, host: host.clone() }).inc_by(bytes);
        }
        self.connections.get_or_create(&Host { host: host.clone() }).inc_by(traffic.connections);
        self.network_errors.get_or_create(&Host { host }).inc_by(traffic.errors);
    }

    /// A hostile command makes up any number of names: beyond the first ones they are told together.
    fn host_label(&self, host: &str) -> String {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MOST_HOSTS && !hosts.contains(host) {
            return "other".to_owned();
        }
        hosts.insert(host.to_owned());
        host.to_owned()
    }

    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
