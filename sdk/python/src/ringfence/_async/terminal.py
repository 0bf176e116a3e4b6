"""A command on a terminal of its own, over a WebSocket. Needs `pip install 'ringfence[terminal]'`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ringfence._generated import operations
from ringfence.errors import (
    AnswerNotUnderstood,
    ConnectionFailed,
    RingfenceError,
    StreamBroken,
    error_from_detail,
    waiting_of,
)

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from ringfence._async.sandbox import AsyncSandbox


class TerminalOptions(TypedDict, total=False):
    rows: int
    columns: int
    cwd: str
    env: dict[str, str]
    timeout_ms: int
    action: str
    wait_ms: int


class AsyncTerminal:
    """Use it as a context manager; iterate over it for what is shown. The command ends with the block."""

    def __init__(self, sandbox: AsyncSandbox, argv: list[str], options: TerminalOptions) -> None:
        self._sandbox = sandbox
        self._start = {**options, "command": argv}
        self._socket: ClientConnection | None = None
        #: How the command ended, once it has.
        self.exit: dict[str, Any] | None = None

    async def __aenter__(self) -> AsyncTerminal:
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import WebSocketException
        except ImportError as missing:
            raise RingfenceError("a terminal needs the package websockets\n  pip install 'ringfence[terminal]'") from missing
        settings = self._sandbox.client._http.settings
        if settings.socket:
            # The package loses what a peer said last when it has gone before it hears the good-bye, as on a Unix socket.
            raise RingfenceError("there is no terminal over unix:\n  use the http:// address of the server")
        # A ticket is good once and for this terminal: the key itself stays out of it, wherever a redirect leads.
        ticket = await self._sandbox.send(operations.sandboxes_ticket(self._sandbox.id))
        path = f"/v1/sandboxes/{self._sandbox.id}/terminal?ticket={ticket.ticket}"
        address = "ws" + settings.base_url.removeprefix("http") + path
        try:
            proxied: Literal[True] | None = True if settings.through_proxies else None
            self._socket = await connect(address, compression=None, proxy=proxied)
            await self._socket.send(json.dumps(self._start))
            self._told(await self._message())
        except (OSError, WebSocketException) as error:
            await self.aclose()
            raise ConnectionFailed(f"cannot open a terminal at {settings.url}: {error}") from error
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def write(self, typed: str | bytes) -> None:
        """Type something: a line ends with `\\n`, Ctrl-C is `\\x03`."""
        await self._open().send(typed.encode() if isinstance(typed, str) else typed)

    async def resize(self, rows: int, columns: int) -> None:
        await self._open().send(json.dumps({"resize": {"rows": rows, "columns": columns}}))

    async def signal(self, signal: int) -> None:
        await self._open().send(json.dumps({"signal": signal}))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while self.exit is None:
            message = await self._message()
            if isinstance(message, bytes):
                return message
            self._told(message)
        raise StopAsyncIteration

    def _open(self) -> ClientConnection:
        if self._socket is None:
            raise StreamBroken("the terminal is not open\n  use it within its `with` block")
        return self._socket

    async def _message(self) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        socket = self._open()
        try:
            # The package pings: a server that is gone is noticed.
            return await socket.recv()
        except ConnectionClosed as closed:
            raise StreamBroken("the connection broke off, and the command was ended with it\n  open another terminal") from closed

    def _told(self, message: str | bytes) -> None:
        try:
            told = json.loads(message)
            if "exit" in told:
                self.exit = dict(told["exit"])
                return
            waits, detail = told.get("waiting"), told.get("error")
        except (ValueError, TypeError, AttributeError) as error:
            raise AnswerNotUnderstood("a terminal", error) from error
        if waits is not None:
            raise waiting_of(json.dumps(waits).encode())
        if detail is not None:
            raise error_from_detail(0, dict(detail))
