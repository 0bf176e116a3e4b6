//! Layers of dependencies, end to end, with registries on loopback.

mod bounds;
mod registry;
mod sources;
