//! What the measuring programs have in common: the machine they ran on, an order that is mixed, and samples by rank.

mod machine;
mod order;
mod spread;

pub use machine::{Machine, load};
pub use order::Order;
pub use spread::Spread;
