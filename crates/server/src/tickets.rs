//! Tickets: what stands in for a key where a browser can't send one. Good once, for one thing, for half a minute.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::Shared;
use crate::auth::{Caller, authenticate, random_hex};
use crate::error::ApiError;

pub(crate) const GOOD_FOR: Duration = Duration::from_secs(30);
/// Of all users together: the oldest goes first.
const MOST: usize = 4096;

#[derive(Debug)]
struct Ticket {
    caller: Caller,
    what: String,
    until: Instant,
}

/// By the hash of what was given out: looking one up takes the same time however much of it is right.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<[u8; 32], Ticket>>);

impl Tickets {
    pub(crate) fn issue(&self, caller: &Caller, what: &str) -> io::Result<String> {
        let given = random_hex()?;
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, ticket| ticket.until > now);
        if all.len() >= MOST
            && let Some(oldest) = all.iter().min_by_key(|(_, ticket)| ticket.until).map(|(hash, _)| *hash)
        {
            all.remove(&oldest);
        }
        let ticket = Ticket { caller: caller.clone(), what: what.to_owned(), until: now + GOOD_FOR };
        all.insert(*blake3::hash(given.as_bytes()).as_bytes(), ticket);
        Ok(given)
    }

    /// Once only, also where it was for something else.
    pub(crate) fn redeem(&self, given: &str, what: &str) -> Option<Caller> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = all.remove(blake3::hash(given.as_bytes()).as_bytes())?;
        (ticket.what == what && ticket.until > Instant::now()).then_some(ticket.caller)
    }
}

/// Who asks: by a ticket for exactly this, or by a key as everywhere. `None`: no ticket is good for it.
pub(crate) async fn by_ticket_or_key(
    app: Shared,
    what: Option<String>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let given = request.uri().query().and_then(|query| query.split('&').find_map(ticket_in));
    match (given, what) {
        (Some(given), Some(what)) if !request.headers().contains_key(header::AUTHORIZATION) => {
            let wrong = || {
                ApiError::new(
                    StatusCode::UNAUTHORIZED,
                    "wrong_ticket",
                    "the ticket is not valid here",
                    "ask for another: it is good once, for half a minute and for one sandbox",
                )
            };
            let caller = app.tickets.redeem(given, &what).ok_or_else(wrong)?;
            // It is good no longer than the key that it was asked for with.
            if !app.still_stands(&caller).await? {
                return Err(wrong());
            }
            request.extensions_mut().insert(caller);
            Ok(next.run(request).await)
        }
        _ => authenticate(State(app), request, next).await,
    }
}

/// The ticket, if this pair of a query is one.
pub(crate) fn ticket_in(pair: &str) -> Option<&str> {
    pair.strip_prefix("ticket=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_store::Role;

    #[test]
    fn good_once_and_for_one_thing() {
        let tickets = Tickets::default();
        let caller = Caller::without_key("ada", Role::Operator);
        let given = tickets.issue(&caller, "one").unwrap();
        assert!(tickets.redeem("", "one").is_none());
        assert_eq!(tickets.redeem(&given, "one").map(|caller| caller.user).as_deref(), Some("ada"));
        assert!(tickets.redeem(&given, "one").is_none());
        let other = tickets.issue(&caller, "one").unwrap();
        assert!(tickets.redeem(&other, "two").is_none());
        assert!(tickets.redeem(&other, "one").is_none());
    }
}
