//! The way out of a sandbox: one process for each sandbox that has a network, outside its walls.
//!
//! It answers DNS inside, accepts connections on sockets that were made inside, decides by name and port, looks up and
//! dials outside. Invariant: it holds secrets and parses what hostile programs send, so it keeps no other privilege, and
//! when it ends the sandbox has no network left.

mod addresses;
mod admission;
mod authority;
mod carry;
mod channel;
mod connection;
mod datagrams;
mod dial;
mod dns;
mod event;
mod gate;
mod http;
mod limits;
mod listeners;
mod lock;
mod meter;
mod names;
mod outbox;
mod own;
mod privileges;
mod proxy;
mod relay;
mod resolve;
mod secrets;
mod serve;
mod server;
mod setup;
mod sniff;
mod socks;
mod stock;
mod store;
mod swap;
mod syscalls;
mod terminate;
#[cfg(test)]
mod testing;
mod upstream;

pub use addresses::{DNS, FAKE_V4, FAKE_V6, HTTP_PROXY, SOCKS_PROXY, fake_address};
pub use event::{Event, Order, SocketRole, Via};
pub use own::is_own_address;
pub use serve::run;
pub use setup::{SecretSetup, Setup, Upstream};
pub use store::{KeyPlace, SecretStore, StoreError};
