"""Commands of a sandbox that run on without anybody listening."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from ringfence._generated import operations
from ringfence._generated.models import ExecRequest, ExecRequestOptions, LogsAnswer
from ringfence._result import Command, argv
from ringfence.errors import RequestTimeout

if TYPE_CHECKING:
    from ringfence._async.sandbox import AsyncSandbox


class AsyncProcess:
    """One command that runs on. Its output is kept and can be read from any offset."""

    def __init__(self, sandbox: AsyncSandbox, process_id: int) -> None:
        self._sandbox = sandbox
        self.id = process_id

    async def info(self) -> dict[str, Any] | None:
        """What the sandbox tells of it; None when it no longer does."""
        for one in await self._sandbox.processes.list():
            if one.get("process") == self.id:
                return one
        return None

    async def logs(self, *, start: int = 0, limit: int | None = None) -> LogsAnswer:
        """What it has written from byte `start` on; `next` of the answer is where to go on."""
        return await self._sandbox.send(operations.processes_logs(self._sandbox.id, self.id, from_=start, limit=limit))

    async def write(self, text: str, *, close: bool = False) -> None:
        """Write to its input; with `close=True` nothing comes after."""
        await self._sandbox.send(operations.processes_stdin(self._sandbox.id, self.id, {"text": text, "close": close}))

    async def signal(self, signal: int, *, tree: bool = False) -> None:
        """15 asks it to end, 9 ends it; `tree=True` reaches all that it started too."""
        await self._sandbox.send(operations.processes_signal(self._sandbox.id, self.id, {"signal": signal, "tree": tree}))

    async def kill(self) -> None:
        await self.signal(9, tree=True)

    async def wait(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Until it has ended; how, as the sandbox tells it."""
        until = None if timeout is None else monotonic() + timeout
        pause = 0.01
        while True:
            info = await self.info()
            if info is None or info.get("result") is not None:
                return dict((info or {}).get("result") or {})
            if until is not None and monotonic() > until:
                raise RequestTimeout(f"process {self.id} still runs after {timeout} s\n  wait longer, or end it with kill()")
            await anyio.sleep(pause)
            pause = min(pause * 2, 0.5)


class AsyncProcesses:
    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def start(self, command: Command, **options: Unpack[ExecRequestOptions]) -> AsyncProcess:
        """Start a command and leave it running."""
        body: ExecRequest = {**options, "command": argv(command)}
        answer = await self._sandbox.send(operations.processes_start(self._sandbox.id, body))
        return AsyncProcess(self._sandbox, answer.process)

    async def list(self) -> list[dict[str, Any]]:
        """All, running and ended."""
        return await self._sandbox.send(operations.processes_list(self._sandbox.id))

    def attach(self, process_id: int) -> AsyncProcess:
        return AsyncProcess(self._sandbox, process_id)
