# Generated from _async/ports.py by sdk/generate: do not edit.
"""Ports of a sandbox's own loopback, reached through the server with its owner's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringfence._generated import operations

if TYPE_CHECKING:
    from ringfence._sync.sandbox import Sandbox


class Ports:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def show(self, port: int) -> str:
        """Let requests in, and give the URL that they go to: `url`."""
        self._sandbox.send(operations.ports_show(self._sandbox.id, {"port": port}))
        return self.url(port)

    def list(self) -> list[int]:
        answer = self._sandbox.send(operations.ports_list(self._sandbox.id))
        return [one.port for one in answer.ports]

    def hide(self, port: int) -> None:
        self._sandbox.send(operations.ports_hide(self._sandbox.id, port))

    def url(self, port: int, path: str = "") -> str:
        """Where what listens on a shown port is reached: any method, with `Authorization: Bearer` and a key of its owner."""
        base = self._sandbox.client._http.settings.base_url
        return f"{base}/v1/sandboxes/{self._sandbox.id}/ports/{int(port)}/http/{path.lstrip('/')}"
