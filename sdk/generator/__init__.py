"""Writes the generated half of both SDKs: see `sdk/generate`."""
