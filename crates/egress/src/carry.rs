//! What every front end calls once a connection's target is admitted: look at the client's first bytes while the target
//! is dialled, then relay, hand over to the HTTP path, or refuse.
//!
//! What the client sends is held until it is judged. What the server sends flows at once, because in some protocols it
//! speaks first; not so for hosts whose TLS ends here.

// What is in here meets hostile bytes, and a release build ends with a panic: every connection would.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod judge;
mod listen;
mod outer;
mod raw;
mod tls;
mod turn_away;

use std::io;

use bytes::Bytes;
use ringfence_policy::NetworkReason;
use tokio::net::TcpStream;

use crate::admission::Admission;
use crate::relay::{Pump, Way, both, reset_on_close};
use crate::sniff::Verdict;
use crate::{http, terminate};
use judge::judge_hello;
use listen::{Heard, Listener};
use outer::Outer;
use raw::relay_raw;
use tls::{Ended, broken, relay_tls};
pub(crate) use turn_away::turn_away;

/// Carry a connection to its end. `prefix`: what was read from the client already.
pub(crate) async fn carry(client: TcpStream, prefix: Bytes, admission: Admission) {
    let outer = Outer::start(&admission);
    Carrier::new(client, admission).carry(prefix, outer).await;
}

/// The same where the front end had to dial first, to be able to say how that went.
pub(crate) async fn carry_to(upstream: TcpStream, client: TcpStream, prefix: Bytes, admission: Admission) {
    Carrier::new(client, admission).carry(prefix, Outer::Reached(upstream)).await;
}

struct Carrier {
    client: TcpStream,
    admission: Admission,
    /// The host has secrets or HTTP rules: only TLS and HTTP pass, and end here.
    terminates: bool,
}

impl Carrier {
    fn new(client: TcpStream, admission: Admission) -> Self {
        let rules = admission.gate().rules();
        let terminates = admission.host().name().is_some_and(|name| rules.terminates(name));
        Self { client, admission, terminates }
    }

    async fn carry(self, prefix: Bytes, mut outer: Outer) {
        if self.admission.is_local() {
            // Granted by port: there is no name to hold it to.
            return self.relay_local(outer, prefix).await;
        }
        let mut listener = Listener::new(prefix, self.terminates);
        loop {
            if outer.is_reached() && !self.terminates {
                return match outer.reach(&self.admission).await {
                    Ok(upstream) => self.carry_beside(upstream, listener).await,
                    Err(_) => turn_away(&self.client),
                };
            }
            match listener.listen(&self.client, outer.advance(&self.admission)).await {
                Ok(Heard::Verdict(verdict)) => return self.settle(verdict, listener, outer).await,
                Ok(Heard::Interrupted) if outer.has_failed() => listener.hurry(),
                Ok(Heard::Interrupted) => {}
                // Why the target can't be reached is said already.
                Ok(Heard::TooLate) if outer.has_failed() => return turn_away(&self.client),
                Ok(Heard::TooLate) => return self.too_late(&listener),
                // The client has gone before it said anything.
                Err(_) => return,
            }
        }
    }

    /// The target is reached before the client has spoken: what it says flows while the client is listened to.
    async fn carry_beside(self, upstream: TcpStream, mut listener: Listener) {
        let mut inward = Box::pin(Pump::new(&upstream, &self.client, Way::In, &self.admission).run());
        let mut ended = None;
        let heard = loop {
            let flow = async {
                match ended {
                    None => ended = Some((&mut inward).await),
                    Some(_) => std::future::pending().await,
                }
            };
            match listener.listen(&self.client, flow).await {
                Ok(Heard::Interrupted) if matches!(ended, Some(Ok(()))) => {}
                heard => break heard,
            }
        };
        let error = match heard {
            // The server has spoken first: it is one of those protocols.
            Ok(Heard::Verdict(Verdict::Raw)) if self.admission.counts().received() > 0 || ended.is_some() => {
                let (held, _) = listener.into_held();
                let outward = async {
                    let mut pump = Pump::new(&self.client, &upstream, Way::Out, &self.admission);
                    pump.send(&held).await?;
                    pump.run().await
                };
                let inward = async {
                    match ended {
                        None => inward.await,
                        Some(ended) => ended,
                    }
                };
                return self.finish(both(outward, inward, &self.client, &upstream).await);
            }
            Ok(Heard::Verdict(verdict)) if self.admission.counts().received() == 0 && ended.is_none() => {
                drop(inward);
                return self.settle(verdict, listener, Outer::Reached(upstream)).await;
            }
            Ok(Heard::Verdict(_)) => {
                self.refuse("the server spoke first, and the client begins TLS or HTTP behind that");
                io::ErrorKind::ConnectionAborted.into()
            }
            Ok(Heard::TooLate) => return self.too_late(&listener),
            Ok(Heard::Interrupted) => match ended {
                Some(Err(error)) => error,
                _ => io::ErrorKind::ConnectionAborted.into(),
            },
            Err(error) => {
                self.admission.settle();
                error
            }
        };
        self.admission.break_off(&error);
        reset_on_close(&upstream);
        turn_away(&self.client);
    }

    /// The client's first words are understood.
    async fn settle(mut self, verdict: Verdict, listener: Listener, outer: Outer) {
        let (held, hello_length) = listener.into_held();
        match verdict {
            Verdict::Http => {
                let upstream = outer.http_dialling(&self.admission);
                http::serve(self.client, held, self.admission, upstream).await;
            }
            Verdict::Tls(hello) => match judge_hello(&self.admission, &hello) {
                Err(reason) => self.refuse_tls(reason).await,
                Ok(()) if self.terminates => {
                    let upstream = outer.dialling(&self.admission);
                    terminate::serve(self.client, held, self.admission, upstream).await;
                }
                Ok(()) => self.relay_tls(outer, held, hello_length).await,
            },
            Verdict::Broken(why) => self.refuse_tls(broken(why)).await,
            Verdict::Raw | Verdict::More if self.terminates => {
                self.admission.refuse(NetworkReason::NotHttp);
                turn_away(&self.client);
            }
            Verdict::Raw | Verdict::More => self.relay_raw(outer, held).await,
        }
    }

    async fn relay_local(self, outer: Outer, held: Bytes) {
        let Ok(upstream) = outer.reach(&self.admission).await else { return turn_away(&self.client) };
        let outward = async {
            let mut pump = Pump::new(&self.client, &upstream, Way::Out, &self.admission);
            pump.send(&held).await?;
            pump.run().await
        };
        let inward = Pump::new(&upstream, &self.client, Way::In, &self.admission).run();
        self.finish(both(outward, inward, &self.client, &upstream).await);
    }

    async fn relay_raw(self, outer: Outer, held: Bytes) {
        let Ok(upstream) = outer.reach(&self.admission).await else { return turn_away(&self.client) };
        let ended = relay_raw(&self.client, &upstream, &self.admission, &held).await;
        self.end(ended, upstream).await;
    }

    async fn relay_tls(mut self, outer: Outer, held: Bytes, hello_length: usize) {
        let upstream = match outer.reach(&self.admission).await {
            Ok(upstream) => upstream,
            Err(crate::dial::DialError::Refused(reason)) => {
                return turn_away::send_alert(&mut self.client, &reason).await;
            }
            Err(_) => return turn_away(&self.client),
        };
        let ended = relay_tls(&self.client, &upstream, &self.admission, &held, hello_length).await;
        self.end(ended, upstream).await;
    }

    async fn end(mut self, ended: Ended, upstream: TcpStream) {
        match ended {
            Ended::Done(done) => {
                if done.is_err() {
                    reset_on_close(&upstream);
                    turn_away(&self.client);
                }
                self.finish(done);
            }
            Ended::Refused(reason @ NetworkReason::Malformed { .. }) => {
                reset_on_close(&upstream);
                self.admission.refuse(reason);
                turn_away(&self.client);
            }
            Ended::Refused(reason) => {
                reset_on_close(&upstream);
                drop(upstream);
                self.refuse_tls(reason).await;
            }
        }
    }

    async fn refuse_tls(&mut self, reason: NetworkReason) {
        self.admission.refuse(reason.clone());
        turn_away::send_alert(&mut self.client, &reason).await;
    }

    fn finish(&self, done: io::Result<()>) {
        if let Err(error) = done {
            self.admission.break_off(&error);
        }
    }

    fn refuse(&self, why: &str) {
        self.admission.refuse(NetworkReason::BadName { why: why.to_owned() });
    }

    /// Who has said nothing at all has tried nothing.
    fn too_late(&self, listener: &Listener) {
        let why = "the client did not say in time what it speaks";
        if listener.has_heard() {
            self.refuse(why)
        } else {
            self.admission.fail(why)
        }
        turn_away(&self.client);
    }
}

#[cfg(test)]
#[path = "carry_tests.rs"]
mod tests;
