//! What can build sandboxes on this host.

use ringfence_sandbox::{ProviderRow, provider_rows};

/// Every provider by rank, with what is here of it.
pub fn providers() -> Vec<ProviderRow> {
    provider_rows()
}
