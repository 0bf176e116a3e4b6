//! Sockets that were made inside and wait to be bound. More are asked for before they run out.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::event::Event;
use crate::lock::Lock;
use crate::outbox::Outbox;

/// Below this, more are asked for; so many at a time.
const LOW: usize = 12;
const BATCH: u8 = 16;
/// The owner answers at once or is gone.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

pub(crate) struct Stock {
    outbox: Outbox,
    shelves: Lock<[Shelf; 2]>,
    arrived: Notify,
}

#[derive(Default)]
struct Shelf {
    sockets: Vec<OwnedFd>,
    /// Asked for, not here yet.
    due: usize,
    /// Who waits for one.
    waiting: usize,
    /// One came at some time.
    known: bool,
}

impl Stock {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self { outbox, shelves: Lock::default(), arrived: Notify::new() }
    }

    pub(crate) fn add(&self, family: Family, socket: OwnedFd) {
        let mut shelves = self.shelves.lock();
        let shelf = shelf(&mut shelves, family);
        shelf.due = shelf.due.saturating_sub(1);
        shelf.sockets.push(socket);
        shelf.known = true;
        drop(shelves);
        self.arrived.notify_waiters();
    }

    /// Does the sandbox have this family at all? One of its sockets is among the first that come.
    pub(crate) fn knows(&self, family: Family) -> bool {
        shelf(&mut self.shelves.lock(), family).known
    }

    /// `None`: the owner does not give any.
    pub(crate) async fn take(&self, family: Family) -> Option<OwnedFd> {
        shelf(&mut self.shelves.lock(), family).waiting += 1;
        let taken = timeout(PATIENCE, async {
            loop {
                let arrived = self.arrived.notified();
                tokio::pin!(arrived);
                arrived.as_mut().enable();
                let taken = shelf(&mut self.shelves.lock(), family).sockets.pop();
                self.reorder();
                match taken {
                    Some(socket) => return socket,
                    None => arrived.await,
                }
            }
        })
        .await;
        let mut shelves = self.shelves.lock();
        let shelf = shelf(&mut shelves, family);
        shelf.waiting -= 1;
        if taken.is_err() {
            // What was asked for did not come: ask again next time.
            shelf.due = 0;
        }
        taken.ok()
    }

    fn reorder(&self) {
        let mut shelves = self.shelves.lock();
        let [v4, v6] = shelves.each_mut().map(Shelf::order);
        drop(shelves);
        if v4 > 0 || v6 > 0 {
            self.outbox.push(Event::NeedSockets { v4, v6 });
        }
    }
}

impl Shelf {
    fn order(&mut self) -> u8 {
        if self.sockets.len() + self.due >= LOW + self.waiting {
            return 0;
        }
        self.due += usize::from(BATCH);
        BATCH
    }
}

fn shelf(shelves: &mut [Shelf; 2], family: Family) -> &mut Shelf {
    let [v4, v6] = shelves;
    match family {
        Family::V4 => v4,
        Family::V6 => v6,
    }
}
