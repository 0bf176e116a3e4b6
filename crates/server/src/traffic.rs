//! What sandboxes that stay sent and received, for the counts. Their keepers know it, whichever server asks: they are asked
//! when somebody looks at the counts, and what is new since then is added. A sandbox that has ended has written it down.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use ringfence_sandbox::{HostTraffic, Sandbox};
use ringfence_service::{Places, open_session};
use ringfence_store::{SandboxFilter, SandboxState, Store};

use crate::app::App;
use crate::blocking;
use crate::error::Answer;
use crate::metrics::Metrics;

const PAGE: u32 = 1000;

/// What was counted already, by sandbox and host.
#[derive(Debug, Default)]
pub(crate) struct SandboxTraffic {
    counted: Mutex<HashMap<String, HashMap<String, HostTraffic>>>,
    /// One who counts at a time: another one's sandbox would be taken for one that is gone.
    counting: tokio::sync::Mutex<()>,
}

impl SandboxTraffic {
    /// What went on before this server was there belongs to no count of its own.
    pub(crate) async fn before(store: &Store, places: &Places) -> Answer<Self> {
        let this = Self::default();
        let found = look(places, alive(store).await?).await?;
        found.into_iter().for_each(|(id, traffic)| drop(this.news(&id, traffic)));
        Ok(this)
    }

    /// Count what every sandbox has sent and received since this was last asked for.
    pub(crate) async fn count(&self, app: &App) -> Answer<()> {
        let _one = self.counting.lock().await;
        let alive = alive(&app.store).await?;
        let gone: Vec<String> = {
            let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.keys().filter(|id| !alive.contains(*id)).cloned().collect()
        };
        for (id, traffic) in look(&app.places, alive).await? {
            self.add(&id, traffic, &app.metrics);
        }
        // They were counted to their end when they were deleted.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        gone.iter().for_each(|id| drop(counted.remove(id)));
        Ok(())
    }

    /// The last of a sandbox that has ended and is about to be forgotten.
    pub(crate) fn add(&self, id: &str, traffic: Vec<HostTraffic>, metrics: &Metrics) {
        self.news(id, traffic).iter().for_each(|news| metrics.traffic(news));
    }

    /// What of this was not counted yet.
    fn news(&self, id: &str, traffic: Vec<HostTraffic>) -> Vec<HostTraffic> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counted.entry(id.to_owned()).or_default();
        let mut news = Vec::new();
        for now in traffic {
            let before = known.insert(now.host.clone(), now.clone()).unwrap_or_default();
            news.push(HostTraffic {
                host: now.host,
                connections: now.connections.saturating_sub(before.connections),
                sent: now.sent.saturating_sub(before.sent),
                received: now.received.saturating_sub(before.received),
                errors: now.errors.saturating_sub(before.errors),
            });
        }
        news
    }
}

/// All that a sandbox has sent and received, whether it lives or not.
pub(crate) fn traffic_of(sandbox: &Sandbox) -> Vec<HostTraffic> {
    match sandbox.look() {
        Ok(status) => status.network.unwrap_or_default().by_host(),
        Err(_) => sandbox.facts().ok().and_then(|facts| facts.ended).map_or(Vec::new(), |end| end.network),
    }
}

async fn look(places: &Places, ids: BTreeSet<String>) -> Answer<Vec<(String, Vec<HostTraffic>)>> {
    let places = places.clone();
    blocking(move || {
        let known = ids.into_iter().filter_map(|id| Some((open_session(&places, &id).ok()?, id)));
        Ok(known.map(|(sandbox, id)| (id, traffic_of(&sandbox))).collect())
    })
    .await
}

async fn alive(store: &Store) -> Answer<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut after = None;
    loop {
        let filter = SandboxFilter { user: None, state: Some(SandboxState::Alive), after, limit: PAGE };
        let page = store.sandboxes(&filter).await?;
        let whole = page.len() < PAGE as usize;
        after = page.last().map(|row| row.id.clone());
        found.extend(page.into_iter().map(|row| row.id));
        if whole {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(host: &str, sent: u64) -> HostTraffic {
        HostTraffic { host: host.into(), connections: 1, sent, received: 2 * sent, errors: 0 }
    }

    #[test]
    fn each_byte_is_counted_once() {
        let (traffic, metrics) = (SandboxTraffic::default(), Metrics::default());
        for (id, sent) in [("one", 10), ("one", 15), ("two", 7), ("one", 15)] {
            traffic.add(id, vec![to("a.test", sent)], &metrics);
        }
        let text = metrics.text().unwrap();
        for line in [
            r#"ringfence_network_bytes_total{direction="out",host="a.test"} 22"#,
            r#"ringfence_network_bytes_total{direction="in",host="a.test"} 44"#,
            r#"ringfence_connections_total{host="a.test"} 2"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn made_up_names_do_not_become_labels_without_end() {
        let (traffic, metrics) = (SandboxTraffic::default(), Metrics::default());
        traffic.add("one", (0..5_000).map(|number| to(&format!("x{number}.test"), 1)).collect(), &metrics);
        let text = metrics.text().unwrap();
        let labels = text.lines().filter(|line| line.starts_with("ringfence_connections_total")).count();
        assert!(labels < 300, "{labels} labels");
        assert!(text.contains(r#"ringfence_connections_total{host="other"}"#));
    }
}
