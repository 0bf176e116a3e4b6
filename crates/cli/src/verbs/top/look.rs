//! One look: what there is now, as figures. The same for a server and for this machine, as far as either knows.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_sandbox::SessionStats;
use ringfence_server::Remote;
use ringfence_service::{ErrorCode, Places, ServiceError, denied_runs, list_sessions, open_session};
use serde::Serialize;
use serde_json::Value;

/// Figures of so many sandboxes are asked for; the others are only listed.
const MOST_STATS: usize = 40;

#[derive(Debug, Default, Serialize)]
pub(super) struct Look {
    /// Milliseconds since 1970.
    pub(super) at: u64,
    /// A server's version; none where this machine is looked at.
    pub(super) server: Option<String>,
    pub(super) uptime_ms: Option<u64>,
    pub(super) commands_running: u64,
    pub(super) streams: Option<u64>,
    pub(super) sandboxes: Vec<Row>,
    /// Since the start, for whoever may see them: requests, and commands and denials by kind.
    pub(super) requests: Option<u64>,
    pub(super) commands: BTreeMap<String, u64>,
    pub(super) denials: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) user: Option<String>,
    pub(super) profile: String,
    pub(super) workspace: Option<String>,
    pub(super) created: u64,
    pub(super) processes: Option<u64>,
    pub(super) cpu_ms: Option<u64>,
    pub(super) memory: Option<u64>,
    pub(super) denials: Option<u64>,
}

impl Row {
    fn with_stats(mut self, stats: Option<SessionStats>) -> Self {
        if let Some(stats) = stats {
            self.processes = Some(stats.processes);
            self.cpu_ms = Some(stats.cpu_ms);
            self.memory = Some(stats.memory);
        }
        self
    }
}

/// A second, between two looks.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) requests: Option<f64>,
    pub(super) commands: f64,
    pub(super) denials: f64,
    /// Of one processor, by sandbox.
    pub(super) cpu: BTreeMap<String, f64>,
}

impl Rates {
    pub(super) fn between(before: &Look, now: &Look) -> Self {
        let seconds = (now.at.saturating_sub(before.at) as f64 / 1000.0).max(0.001);
        // A server that was started again counts from nothing.
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let cpu = now.sandboxes.iter().filter_map(|row| {
            let old = before.sandboxes.iter().find(|old| old.id == row.id)?;
            Some((row.id.clone(), rate(old.cpu_ms?, row.cpu_ms?) / 10.0))
        });
        Self {
            requests: before.requests.zip(now.requests).map(|(before, now)| rate(before, now)),
            commands: rate(sum(&before.commands), sum(&now.commands)),
            denials: rate(sum(&before.denials), sum(&now.denials)),
            cpu: cpu.collect(),
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Look {
    /// The sessions of this user.
    pub(super) fn here(places: &Places) -> Result<Self, ServiceError> {
        let mut look = Self { at: now(), ..Self::default() };
        for (index, session) in list_sessions(places, false)?.into_iter().enumerate() {
            let Some(status) = session.status else { continue };
            look.commands_running += status.running as u64;
            let stats = (index < MOST_STATS)
                .then(|| open_session(places, &session.facts.id).ok().and_then(|open| open.stats().ok()))
                .flatten();
            let row = Row {
                id: session.facts.id,
                user: None,
                profile: session.facts.profile,
                workspace: session.facts.workspace.map(|path| path.display().to_string()),
                created: session.facts.created,
                processes: None,
                cpu_ms: None,
                memory: None,
                denials: Some(status.denials.iter().map(|denial| denial.count).sum()),
            };
            look.sandboxes.push(row.with_stats(stats));
        }
        for denial in denied_runs(places)?.iter().flat_map(|run| &run.denials) {
            let kind = serde_json::to_value(denial.kind).ok();
            let kind = kind.as_ref().and_then(Value::as_str).unwrap_or("other").to_owned();
            *look.denials.entry(kind).or_default() += denial.count;
        }
        Ok(look)
    }

    pub(super) async fn at_server(remote: &Remote) -> Result<Self, ServiceError> {
        let status = answered(remote, "/v1/status").await?;
        // Everybody's, for admins.
        let alive = "/v1/sandboxes?state=alive&limit=100";
        let listed = match answered(remote, &format!("{alive}&all=true")).await {
            Ok(listed) => listed,
            Err(_) => answered(remote, alive).await?,
        };
        let number = |value: &Value| value.as_u64();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut look = Self {
            at: now(),
            server: text(&status["version"]),
            uptime_ms: number(&status["uptime_ms"]),
            commands_running: number(&status["commands_running"]).unwrap_or(0),
            streams: number(&status["streams"]),
            ..Self::default()
        };
        for (index, one) in listed["sandboxes"].as_array().into_iter().flatten().enumerate() {
            let id = text(&one["id"]).unwrap_or_default();
            let stats = match index < MOST_STATS {
                // It may have ended meanwhile.
                true => answered(remote, &format!("/v1/sandboxes/{id}/stats")).await.ok(),
                false => None,
            };
            let row = Row {
                id,
                user: text(&one["user"]),
                profile: text(&one["profile"]).unwrap_or_default(),
                workspace: text(&one["workspace"]),
                created: number(&one["created"]).unwrap_or(0),
                processes: None,
                cpu_ms: None,
                memory: None,
                denials: None,
            };
            look.sandboxes.push(row.with_stats(stats.and_then(|stats| serde_json::from_value(stats).ok())));
        }
        // For admins.
        if let Ok((200, body)) = remote.get("/v1/metrics").await {
            look.count(&String::from_utf8_lossy(&body));
        }
        Ok(look)
    }

    /// From the text that is there for Prometheus.
    fn count(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            let kind =
                name.split_once("kind=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(kind, _)| kind);
            match (name.split_once('{').map_or(name, |(name, _)| name), kind) {
                ("ringfence_requests_total", _) => *self.requests.get_or_insert(0) += value,
                ("ringfence_commands_total", Some(kind)) => {
                    *self.commands.entry(kind.into()).or_default() += value
                }
                ("ringfence_denials_total", Some(kind)) => {
                    *self.denials.entry(kind.into()).or_default() += value
                }
                _ => {}
            }
        }
    }
}

async fn answered(remote: &Remote, path: &str) -> Result<Value, ServiceError> {
    let (status, body) = remote.get(path).await?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status == 200 {
        return Ok(value);
    }
    let told = |name: &str| value["error"][name].as_str().map(str::to_owned);
    Err(ServiceError::new(
        ErrorCode::FetchFailed,
        told("message").unwrap_or_else(|| format!("the server answered {status}")),
        told("hint").unwrap_or_else(|| "see whether it is a ringfence server".into()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(at: u64) -> Look {
        Look { at, ..Look::default() }
    }

    #[test]
    fn counts_and_rates() {
        let (mut before, mut now) = (empty(1000), empty(3000));
        before.count("ringfence_requests_total{route=\"/x\",method=\"GET\",status=\"200\"} 4\n");
        now.count(
            "# TYPE ringfence_requests counter\nringfence_requests_total{route=\"/x\",status=\"200\"} 10\n\
             ringfence_requests_total{route=\"/y\",status=\"200\"} 4\nringfence_commands_total{kind=\"success\"} 6\n\
             ringfence_denials_total{kind=\"syscall\"} 1\nnonsense\n# EOF\n",
        );
        let rates = Rates::between(&before, &now);
        assert_eq!((rates.requests, rates.commands, rates.denials), (Some(5.0), 3.0, 0.5));
        // Started again: not less than nothing.
        assert_eq!(Rates::between(&now, &empty(4000)).commands, 0.0);
    }
}
