//! Events on their way to the owner. A push never waits: what does not fit into the socket is kept here, in order.
//!
//! Bounded: denials are what a hostile program can make without end, so beyond a cap they are only counted; connections
//! and names can't outrun the owner, because whoever makes them waits (`room`) while much is unsent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::channel::Channel;
use crate::event::Event;
use crate::lock::Lock;

/// Denials are dropped while more than this is unsent.
const MOST_DENIALS: usize = 2048;
/// No new connection and no new name while more than this is unsent.
const ROOM: usize = 1024;

#[derive(Clone)]
pub(crate) struct Outbox(Arc<Inner>);

struct Inner {
    channel: Arc<Channel>,
    queue: Lock<Queue>,
    /// Something was queued.
    queued: Notify,
    /// Something was sent.
    sent: Notify,
}

#[derive(Default)]
struct Queue {
    packets: VecDeque<Vec<u8>>,
    /// How many were taken out of it so far.
    gone: u64,
}

impl Queue {
    /// Everything that is in it by now is sent when so many are gone.
    fn end(&self) -> u64 {
        self.gone + self.packets.len() as u64
    }
}

impl Outbox {
    pub(crate) fn new(channel: Arc<Channel>) -> Self {
        Self(Arc::new(Inner { channel, queue: Lock::default(), queued: Notify::new(), sent: Notify::new() }))
    }

    pub(crate) fn push(&self, event: Event) {
        let Ok(packet) = serde_json::to_vec(&event) else { return };
        let mut queue = self.0.queue.lock();
        if queue.packets.is_empty() && self.0.channel.try_send(&packet).is_ok() {
            return;
        }
        if matches!(event, Event::Denied { .. }) && queue.packets.len() >= MOST_DENIALS {
            return;
        }
        queue.packets.push_back(packet);
        drop(queue);
        self.0.queued.notify_one();
    }

    /// Wait until everything that was pushed by now is with the owner.
    pub(crate) async fn settled(&self) {
        let end = self.0.queue.lock().end();
        self.wait_until(|queue| queue.gone >= end).await;
    }

    /// Wait until the owner has caught up enough for something new.
    pub(crate) async fn room(&self) {
        self.wait_until(|queue| queue.packets.len() <= ROOM).await;
    }

    async fn wait_until(&self, done: impl Fn(&Queue) -> bool) {
        loop {
            let sent = self.0.sent.notified();
            tokio::pin!(sent);
            sent.as_mut().enable();
            if done(&self.0.queue.lock()) {
                return;
            }
            sent.await;
        }
    }

    /// Send what is queued and wait for it, once the runtime is gone. An owner that does not read is not waited for long.
    pub(crate) fn flush(&self) {
        for packet in std::mem::take(&mut self.0.queue.lock().packets) {
            if self.0.channel.send_blocking(&packet).is_err() {
                return;
            }
        }
    }

    /// Send what is queued, for ever; ends with the channel.
    pub(crate) async fn deliver(&self) -> io::Error {
        loop {
            let front = self.0.queue.lock().packets.front().cloned();
            let Some(packet) = front else {
                self.0.queued.notified().await;
                continue;
            };
            match self.0.channel.try_send(&packet) {
                Ok(()) => {
                    let mut queue = self.0.queue.lock();
                    queue.packets.pop_front();
                    queue.gone += 1;
                    drop(queue);
                    self.0.sent.notify_waiters();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = self.0.channel.writable().await {
                        return error;
                    }
                }
                Err(error) => return error,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use ringfence_linux::{control_pair, recv_with_fds};
    use ringfence_policy::NetworkReason;
    use tokio::time::timeout;

    use super::*;

    fn denied(number: usize) -> Event {
        let host = format!("{number}.{}", "a".repeat(200));
        Event::Denied { from: None, host, port: None, reason: NetworkReason::NotGranted }
    }

    fn closed(id: u64) -> Event {
        Event::Closed { id, address: None, sent: 0, received: 0, error: None }
    }

    #[tokio::test]
    async fn order_is_kept_and_only_denials_are_dropped() {
        const MANY: usize = 6000;
        let (ours, theirs) = control_pair().unwrap();
        let outbox = Outbox::new(Arc::new(Channel::new(theirs).unwrap()));
        for number in 0..MANY {
            outbox.push(denied(number));
        }
        for id in 0..10 {
            outbox.push(closed(id));
        }
        assert!(timeout(Duration::from_millis(50), outbox.room()).await.is_err(), "there is no room");
        let deliver = outbox.clone();
        tokio::spawn(async move { deliver.deliver().await });
        let mut reader = tokio::task::spawn_blocking(move || {
            let mut events = Vec::new();
            while events.last() != Some(&closed(9)) {
                let message = recv_with_fds(ours.as_fd()).unwrap();
                events.push(serde_json::from_slice::<Event>(&message.bytes).unwrap());
            }
            events
        });
        timeout(Duration::from_secs(10), outbox.settled()).await.unwrap();
        timeout(Duration::from_secs(10), outbox.room()).await.unwrap();
        let events = timeout(Duration::from_secs(10), &mut reader).await.unwrap().unwrap();
        assert!(events.len() < MANY, "some were dropped");
        let (denials, rest) = events.split_at(events.len() - 10);
        assert_eq!(rest, (0..10).map(closed).collect::<Vec<_>>());
        assert_eq!(denials, (0..denials.len()).map(denied).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_is_left_at_the_end_is_sent() {
        let (ours, theirs) = control_pair().unwrap();
        let outbox = Outbox::new(Arc::new(Channel::new(theirs).unwrap()));
        // Nobody delivers.
        outbox.push(closed(1));
        outbox.push(closed(2));
        outbox.flush();
        for id in 1..=2 {
            let message = recv_with_fds(ours.as_fd()).unwrap();
            assert_eq!(serde_json::from_slice::<Event>(&message.bytes).unwrap(), closed(id));
        }
    }
}
