//! Events on their way to the owner. A push never waits: what does not fit into the socket is kept here, in order. News
//! of connections, of which a busy program makes thousands a second, wait a moment for others: each packet wakes the
//! owner, which has better things to do.
//!
//! Bounded: denials are what a hostile program can make without end, so beyond a cap they are only counted; connections
//! and names can't outrun the owner, because whoever makes them waits (`room`) while much is unsent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::channel::Channel;
use crate::event::Event;
use crate::lock::Lock;

/// Denials are dropped while more than this is unsent.
const MOST_DENIALS: usize = 2048;
/// No new connection and no new name while more than this is unsent.
const ROOM: usize = 1024;
/// What is in no hurry waits this long, or until there are so many bytes of it: fewer than the owner reads at once, with
/// the longest that an event can be on top.
const HOLD: Duration = Duration::from_millis(20);
const TOGETHER: usize = 4096;
/// How `Event::Several` begins.
const SEVERAL: &[u8] = br#"{"event":"several","events":["#;

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
    /// News of connections, written out and not yet a packet.
    later: Vec<u8>,
    /// How many were taken out of it so far.
    gone: u64,
}

impl Queue {
    /// Keep one that is in no hurry.
    fn keep(&mut self, event: &[u8]) {
        self.later.extend(if self.later.is_empty() { SEVERAL } else { b"," });
        self.later.extend(event);
        if self.later.len() >= TOGETHER {
            self.seal();
        }
    }

    /// What waits becomes a packet, before anything that comes after it.
    fn seal(&mut self) {
        if !self.later.is_empty() {
            let mut packet = std::mem::take(&mut self.later);
            packet.extend(b"]}");
            self.packets.push_back(packet);
        }
    }

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
        if matches!(event, Event::Opened { .. } | Event::Passed { .. } | Event::Closed { .. }) {
            queue.keep(&packet);
            drop(queue);
            self.0.queued.notify_one();
            return;
        }
        queue.seal();
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
        let end = {
            let mut queue = self.0.queue.lock();
            queue.seal();
            queue.end()
        };
        self.0.queued.notify_one();
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
        let packets = {
            let mut queue = self.0.queue.lock();
            queue.seal();
            std::mem::take(&mut queue.packets)
        };
        for packet in packets {
            if self.0.channel.send_blocking(&packet).is_err() {
                return;
            }
        }
    }

    /// Let what is in no hurry wait for more, until there is something to send.
    async fn hold(&self) {
        let packet = async {
            while self.0.queue.lock().packets.is_empty() {
                self.0.queued.notified().await;
            }
        };
        tokio::select! {
            () = packet => {}
            () = sleep(HOLD) => self.0.queue.lock().seal(),
        }
    }

    /// Send what is queued, for ever; ends with the channel.
    pub(crate) async fn deliver(&self) -> io::Error {
        loop {
            let front = self.0.queue.lock().packets.front().cloned();
            let Some(packet) = front else {
                let waits = !self.0.queue.lock().later.is_empty();
                if waits {
                    self.hold().await;
                } else {
                    self.0.queued.notified().await;
                }
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

    fn received(ours: &std::os::fd::OwnedFd) -> Vec<Event> {
        let message = recv_with_fds(ours.as_fd()).unwrap();
        serde_json::from_slice::<Event>(&message.bytes).unwrap().each()
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
                events.extend(received(&ours));
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
    async fn several_are_never_more_than_is_read_at_once() {
        let (ours, theirs) = control_pair().unwrap();
        let outbox = Outbox::new(Arc::new(Channel::new(theirs).unwrap()));
        // The longest reason that an admission keeps, in characters that take the most room.
        let broken =
            |id| Event::Closed { id, address: None, sent: 0, received: 0, error: Some("\u{1}".repeat(300)) };
        (0..9).for_each(|id| outbox.push(broken(id)));
        outbox.flush();
        let mut events = Vec::new();
        while events.len() < 9 {
            events.extend(received(&ours));
        }
        assert_eq!(events, (0..9).map(broken).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_is_left_at_the_end_is_sent() {
        let (ours, theirs) = control_pair().unwrap();
        let outbox = Outbox::new(Arc::new(Channel::new(theirs).unwrap()));
        // Nobody delivers.
        outbox.push(closed(1));
        outbox.push(closed(2));
        outbox.flush();
        assert_eq!(received(&ours), [closed(1), closed(2)]);
    }

    #[tokio::test]
    async fn what_is_in_no_hurry_keeps_its_place_before_what_is() {
        let (ours, theirs) = control_pair().unwrap();
        let outbox = Outbox::new(Arc::new(Channel::new(theirs).unwrap()));
        let deliver = outbox.clone();
        tokio::spawn(async move { deliver.deliver().await });
        outbox.push(closed(1));
        outbox.push(denied(2));
        outbox.push(closed(3));
        timeout(Duration::from_secs(10), outbox.settled()).await.unwrap();
        assert_eq!(received(&ours), [closed(1)]);
        assert_eq!(received(&ours), [denied(2)]);
        assert_eq!(received(&ours), [closed(3)]);
    }

    #[tokio::test]
    async fn what_is_in_no_hurry_comes_without_anything_else() {
        let (ours, theirs) = control_pair().unwrap();
        let outbox = Outbox::new(Arc::new(Channel::new(theirs).unwrap()));
        let deliver = outbox.clone();
        tokio::spawn(async move { deliver.deliver().await });
        outbox.push(closed(1));
        let read = tokio::task::spawn_blocking(move || received(&ours));
        assert_eq!(timeout(Duration::from_secs(10), read).await.unwrap().unwrap(), [closed(1)]);
    }
}
