"""Ports of a sandbox's own loopback, reached through the server with its owner's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringfence._generated import operations

if TYPE_CHECKING:
    from ringfence._async.sandbox import AsyncSandbox


class AsyncPorts:
    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def show(self, port: int) -> str:
        """Let requests in, and give the URL that they go to: `url`."""
        await self._sandbox.send(operations.ports_show(self._sandbox.id, {"port": port}))
        return self.url(port)

    async def list(self) -> list[int]:
        answer = await self._sandbox.send(operations.ports_list(self._sandbox.id))
        return [one.port for one in answer.ports]

    async def hide(self, port: int) -> None:
        await self._sandbox.send(operations.ports_hide(self._sandbox.id, port))

    def url(self, port: int, path: str = "") -> str:
        """Where what listens on a shown port is reached: any method, with `Authorization: Bearer` and a key of its owner."""
        base = self._sandbox.client._http.settings.base_url
        return f"{base}/v1/sandboxes/{self._sandbox.id}/ports/{int(port)}/http/{path.lstrip('/')}"
