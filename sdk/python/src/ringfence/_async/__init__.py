"""The client by hand, written once: `_sync` is generated from `_async`."""
