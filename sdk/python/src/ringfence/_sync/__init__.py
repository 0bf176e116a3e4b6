# Generated from _async/__init__.py by sdk/generate: do not edit.
"""The client by hand, written once: `_sync` is generated from `_sync`."""
