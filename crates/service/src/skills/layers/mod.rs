//! Layers: dependencies that were installed once, in a sandbox of their own, and are shown read-only to every run that
//! needs the same. A layer is known by what it was made of: the interpreter, the set of requirements, and where they come from.

mod build;
mod kept;
mod plan;
mod sources;

pub use build::build_layer;
pub(crate) use kept::find_layer;
pub use kept::{LayerInUse, LayerRecord, Package, layers, remove_layers};
pub use plan::{LayerKind, LayerPlan};
pub(crate) use plan::{plan_node, plan_python};
pub(crate) use sources::Sources;
