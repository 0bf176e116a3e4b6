//! What the measuring programs have in common: the machine they ran on, an order that is mixed, samples by rank, and the
//! tools of others that are measured beside.

mod machine;
mod order;
mod peers;
mod spread;

pub use machine::{Machine, load};
pub use order::Order;
pub use peers::{Daemon, is_in_path, succeeds};
pub use spread::Spread;
