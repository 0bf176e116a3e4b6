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

/// How many names of hosts are told apart.
const MOST_HOSTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    latency: Family<Kind, Histogram>,
    commands: Family<Kind, Counter>,
    command_time: Histogram,
    denials: Family<Kind, Counter>,
    network_bytes: Family<Traffic, Counter<u64, AtomicU64>>,
    connections: Family<Host, Counter>,
    network_errors: Family<Host, Counter>,
    hosts: Mutex<BTreeSet<String>>,
    pub(crate) running: Gauge,
    pub(crate) sandboxes: Gauge,
    pub(crate) streams: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("ringfence");
        let times = || Histogram::new(exponential_buckets(0.000_5, 2.0, 18));
        let requests = Family::<RequestLabels, Counter>::default();
        let latency = Family::<Kind, Histogram>::new_with_constructor(times);
        let commands = Family::<Kind, Counter>::default();
        let command_time = times();
        let denials = Family::<Kind, Counter>::default();
        let network_bytes = Family::<Traffic, Counter<u64, AtomicU64>>::default();
        let connections = Family::<Host, Counter>::default();
        let network_errors = Family::<Host, Counter>::default();
        let (running, sandboxes, streams) = (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("requests", "Requests, by route, method and status", requests.clone());
        registry.register_with_unit("request_time", "From request to answer", Unit::Seconds, latency.clone());
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
            commands,
            command_time,
            denials,
            network_bytes,
            connections,
            network_errors,
            hosts: Mutex::default(),
            running,
            sandboxes,
            streams,
        }
    }
}

impl Metrics {
    pub(crate) fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        let labels = RequestLabels { route: route.to_owned(), method: method.to_owned(), status };
        self.requests.get_or_create(&labels).inc();
        self.latency.get_or_create(&Kind { kind: route.to_owned() }).observe(took.as_secs_f64());
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
            self.denials.get_or_create(&Kind { kind }).inc_by(denial["count"].as_u64().unwrap_or(1));
        }
        self.network(&facts["network"]);
    }

    fn network(&self, record: &Value) {
        for connection in record["connections"].as_array().into_iter().flatten() {
            let host = self.host_label(connection["host"].as_str().unwrap_or_default());
            let number = |key: &str| connection[key].as_u64().unwrap_or(0);
            for (direction, key) in [("in", "received"), ("out", "sent")] {
                let labels = Traffic { direction, host: host.clone() };
                self.network_bytes.get_or_create(&labels).inc_by(number(key));
            }
            self.connections.get_or_create(&Host { host: host.clone() }).inc_by(number("count"));
            self.network_errors.get_or_create(&Host { host }).inc_by(number("errors"));
        }
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
