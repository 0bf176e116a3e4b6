# Generated from _async/processes.py by sdk/generate: do not edit.
"""Commands of a sandbox that run on without anybody listening."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Unpack

import time

from ringfence._generated import operations
from ringfence._generated.models import ExecRequest, ExecRequestOptions, LogsAnswer
from ringfence._result import Command, argv
from ringfence.errors import RequestTimeout

if TYPE_CHECKING:
    from ringfence._sync.sandbox import Sandbox


class Process:
    """One command that runs on. Its output is kept and can be read from any offset."""

    def __init__(self, sandbox: Sandbox, process_id: int) -> None:
        self._sandbox = sandbox
        self.id = process_id

    def info(self) -> dict[str, Any] | None:
        """What the sandbox tells of it; None when it no longer does."""
        for one in self._sandbox.processes.list():
            if one.get("process") == self.id:
                return one
        return None

    def logs(self, *, start: int = 0, limit: int | None = None) -> LogsAnswer:
        """What it has written from byte `start` on; `next` of the answer is where to go on."""
        return self._sandbox.send(operations.processes_logs(self._sandbox.id, self.id, from_=start, limit=limit))

    def write(self, text: str, *, close: bool = False) -> None:
        """Write to its input; with `close=True` nothing comes after."""
        self._sandbox.send(operations.processes_stdin(self._sandbox.id, self.id, {"text": text, "close": close}))

    def signal(self, signal: int, *, tree: bool = False) -> None:
        """15 asks it to end, 9 ends it; `tree=True` reaches all that it started too."""
        self._sandbox.send(operations.processes_signal(self._sandbox.id, self.id, {"signal": signal, "tree": tree}))

    def kill(self) -> None:
        self.signal(9, tree=True)

    def wait(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Until it has ended; how, as the sandbox tells it."""
        until = None if timeout is None else monotonic() + timeout
        pause = 0.01
        while True:
            info = self.info()
            if info is None or info.get("result") is not None:
                return dict((info or {}).get("result") or {})
            if until is not None and monotonic() > until:
                raise RequestTimeout(f"process {self.id} still runs after {timeout} s\n  wait longer, or end it with kill()")
            time.sleep(pause)
            pause = min(pause * 2, 0.5)


class Processes:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def start(self, command: Command, **options: Unpack[ExecRequestOptions]) -> Process:
        """Start a command and leave it running."""
        body: ExecRequest = {**options, "command": argv(command)}
        answer = self._sandbox.send(operations.processes_start(self._sandbox.id, body))
        return Process(self._sandbox, answer.process)

    def list(self) -> list[dict[str, Any]]:
        """All, running and ended."""
        return self._sandbox.send(operations.processes_list(self._sandbox.id))

    def attach(self, process_id: int) -> Process:
        return Process(self._sandbox, process_id)
