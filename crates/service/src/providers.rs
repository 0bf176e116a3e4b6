//! What can build sandboxes on this host.

use ringfence_sandbox::{ProviderRow, provider_rows};

use crate::places::Places;

/// Every provider by rank, with what is here of it and what it can enforce.
pub fn providers(places: &Places) -> Vec<ProviderRow> {
    provider_rows(places.state.path())
}
