//! A connection to the host, in clear, that can be had back from hyper in the middle of an answer.
//!
//! hyper gives back only what it may not upgrade, so a connection is the one or the other, from the first order on.

use bytes::Bytes;
use hyper::client::conn::http1::Connection;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::body::Body;
use crate::meter::Metered;

/// The one order that a connection takes.
pub(crate) struct Recall(oneshot::Sender<Order>);

pub(super) enum Order {
    AllowUpgrade(oneshot::Sender<()>),
    GiveBack(oneshot::Sender<Recalled>),
}

pub(crate) struct Recalled {
    pub(super) stream: TcpStream,
    /// Read, and counted, but not yet part of the answer's body.
    pub(super) read: Bytes,
}

impl Recall {
    pub(super) fn new() -> (Self, oneshot::Receiver<Order>) {
        let (order, orders) = oneshot::channel();
        (Self(order), orders)
    }

    /// Before a request that asks for one is sent.
    pub(super) async fn allow_upgrade(self) {
        let (done, is_done) = oneshot::channel();
        if self.0.send(Order::AllowUpgrade(done)).is_ok() {
            // A connection that has ended by now says so to the request.
            let _ = is_done.await;
        }
    }

    /// `None`: it has ended by itself.
    pub(super) async fn give_back(self) -> Option<Recalled> {
        let (to, recalled) = oneshot::channel();
        self.0.send(Order::GiveBack(to)).ok()?;
        recalled.await.ok()
    }
}

/// Drive a connection to its end, or until it is wanted back.
pub(super) async fn drive(
    mut connection: Connection<TokioIo<Metered<TcpStream>>, Body>,
    orders: oneshot::Receiver<Order>,
) {
    let order = tokio::select! {
        biased;
        order = orders => order,
        _ = &mut connection => return,
    };
    match order {
        Ok(Order::AllowUpgrade(done)) => {
            let connection = connection.with_upgrades();
            let _ = done.send(());
            let _ = connection.await;
        }
        Ok(Order::GiveBack(to)) => {
            let parts = connection.into_parts();
            let stream = parts.io.into_inner().into_inner();
            let _ = to.send(Recalled { stream, read: parts.read_buf });
        }
        // Nobody can send requests any more; the last answer may still be on its way.
        Err(_) => {
            let _ = connection.await;
        }
    }
}
