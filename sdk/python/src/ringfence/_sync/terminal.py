# Generated from _async/terminal.py by sdk/generate: do not edit.
"""A command on a terminal of its own, over a WebSocket. Needs `pip install 'ringfence[terminal]'`."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    from websockets.sync.client import ClientConnection

    from ringfence._sync.sandbox import Sandbox


class TerminalOptions(TypedDict, total=False):
    rows: int
    columns: int
    cwd: str
    env: dict[str, str]
    timeout_ms: int
    action: str
    wait_ms: int


class Terminal:
    """Use it as a context manager; iterate over it for what is shown. The command ends with the block."""

    def __init__(self, sandbox: Sandbox, argv: list[str], options: TerminalOptions) -> None:
        self._sandbox = sandbox
        self._start = {**options, "command": argv}
        self._socket: ClientConnection | None = None
        #: How the command ended, once it has.
        self.exit: dict[str, Any] | None = None

    def __enter__(self) -> Terminal:
        try:
            from websockets.sync.client import connect
            from websockets.exceptions import WebSocketException
        except ImportError as missing:
            raise RingfenceError("a terminal needs the package websockets\n  pip install 'ringfence[terminal]'") from missing
        settings = self._sandbox.client._http.settings
        if settings.socket:
            # The package loses what a peer said last when it has gone before it hears the good-bye, as on a Unix socket.
            raise RingfenceError("there is no terminal over unix:\n  use the http:// address of the server")
        # A ticket is good once and for this terminal: the key itself stays out of it, wherever a redirect leads.
        ticket = self._sandbox.send(operations.sandboxes_ticket(self._sandbox.id))
        path = f"/v1/sandboxes/{self._sandbox.id}/terminal?ticket={ticket.ticket}"
        address = "ws" + settings.base_url.removeprefix("http") + path
        try:
            proxied: Literal[True] | None = True if settings.through_proxies else None
            self._socket = connect(address, compression=None, proxy=proxied)
            self._socket.send(json.dumps(self._start))
            self._told(self._message())
        except (OSError, WebSocketException) as error:
            self.close()
            raise ConnectionFailed(f"cannot open a terminal at {settings.url}: {error}") from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def write(self, typed: str | bytes) -> None:
        """Type something: a line ends with `\\n`, Ctrl-C is `\\x03`."""
        self._open().send(typed.encode() if isinstance(typed, str) else typed)

    def resize(self, rows: int, columns: int) -> None:
        self._open().send(json.dumps({"resize": {"rows": rows, "columns": columns}}))

    def signal(self, signal: int) -> None:
        self._open().send(json.dumps({"signal": signal}))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while self.exit is None:
            message = self._message()
            if isinstance(message, bytes):
                return message
            self._told(message)
        raise StopIteration

    def _open(self) -> ClientConnection:
        if self._socket is None:
            raise StreamBroken("the terminal is not open\n  use it within its `with` block")
        return self._socket

    def _message(self) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        socket = self._open()
        try:
            # The package pings: a server that is gone is noticed.
            return socket.recv()
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
