# Generated from _async/sandbox.py by sdk/generate: do not edit.
"""Sandboxes that stay: commands, processes and files in them, and their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ringfence._sync.files import Files
from ringfence._sync.paging import paged
from ringfence._sync.ports import Ports
from ringfence._sync.processes import Processes
from ringfence._sync.snapshots import SandboxSnapshots
from ringfence._sync.stream import Stream
from ringfence._sync.terminal import Terminal, TerminalOptions
from ringfence._generated import operations
from ringfence._generated.models import (
    ChangeAnswer,
    CommitAnswer,
    CommitRequest,
    CreateRequest,
    ExecRequest,
    ExecRequestOptions,
    ExtendRequest,
    ForkRequest,
    SandboxAnswer,
    SandboxWhole,
)
from ringfence._operation import Operation
from ringfence._result import Command, CommandResult, argv, result_of
from ringfence._settings import command_seconds
from ringfence.errors import NotFound, SandboxEnded

if TYPE_CHECKING:
    from ringfence._sync.client import Ringfence

T = TypeVar("T")


class Sandbox:
    """One sandbox. As a context manager it is deleted at the end, however that comes.

    `keep=True` commands and processes end with it. Its workspace stays, unless it is `private`.
    """

    def __init__(self, client: Ringfence, sandbox_id: str, answer: SandboxAnswer | None = None) -> None:
        self.client = client
        self.id = sandbox_id
        #: What the server told when it was made or listed.
        self.answer = answer
        self.files = Files(self)
        self.processes = Processes(self)
        self.snapshots = SandboxSnapshots(self)
        self.ports = Ports(self)

    def __repr__(self) -> str:
        return f"Sandbox({self.id!r})"

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(NotFound, SandboxEnded):
            self.delete()

    def send(self, operation: Operation[T]) -> T:
        return self.client.send(operation)

    def run(
        self, command: Command, *, check: bool = False, **options: Unpack[ExecRequestOptions]
    ) -> CommandResult:
        """Run a command to its end. A string is for `sh -c`, a list is the program and its arguments.

        A command that fails is a result, and an error only with `check=True`.
        """
        body: ExecRequest = {**options, "command": argv(command)}
        seconds = command_seconds(options.get("timeout_ms"), None)
        answer = self.client._http.send(operations.sandboxes_exec(self.id, body), timeout=seconds)
        result = result_of(answer)
        return result.check() if check else result

    def stream(self, command: Command, **options: Unpack[ExecRequestOptions]) -> Stream:
        """Run a command, and hear of it as it goes. It starts when the first event is read.

        It ends with its stream. With `keep=True` it goes on, and the stream is taken up again when its connection breaks.
        """
        body: ExecRequest = {**options, "command": argv(command)}
        operation = operations.sandboxes_exec_stream(self.id, body)
        return Stream(self.client._http, operation, keep=bool(options.get("keep")))

    def terminal(self, command: Command = ("sh",), **options: Unpack[TerminalOptions]) -> Terminal:
        """A command on a terminal of its own, within a `with` block. Needs `pip install 'ringfence[terminal]'`."""
        return Terminal(self, argv(command), options)

    def get(self) -> SandboxWhole:
        """What it may do, how that is enforced, what was blocked."""
        return self.send(operations.sandboxes_get(self.id))

    def delete(self) -> None:
        """End it, and take away all but its workspace."""
        self.send(operations.sandboxes_delete(self.id))

    def extend(self, **times: Unpack[ExtendRequest]) -> None:
        self.send(operations.sandboxes_extend(self.id, times))

    def pause(self) -> None:
        self.send(operations.sandboxes_pause(self.id))

    def resume(self) -> None:
        self.send(operations.sandboxes_resume(self.id))

    def stats(self) -> dict[str, Any]:
        return self.send(operations.sandboxes_stats(self.id))

    def fork(self, **options: Unpack[ForkRequest]) -> Sequence[Sandbox]:
        """New sandboxes that begin with its files as they are now: `count` of them, one where none is given."""
        answer = self.send(operations.snapshots_fork(self.id, options))
        return [Sandbox(self.client, one.id, one) for one in answer.sandboxes]

    def diff(self, *, since: str | None = None) -> Sequence[ChangeAnswer]:
        """What changed since a snapshot; without one, since the beginning of a copy-on-write or private workspace."""
        return (self.send(operations.snapshots_diff(self.id, since=since))).changes

    def diff_text(self, *, since: str | None = None) -> str:
        """The same, as `patch` and git read it."""
        operation = operations.snapshots_diff(self.id, since=since, format="unified")
        return self.send(Operation[str](operation.method, operation.path, operation.query, answer="text"))

    def commit(self, **options: Unpack[CommitRequest]) -> CommitAnswer:
        """Apply a copy-on-write workspace: all that changed, or `only` these paths.

        What has changed underneath meanwhile is a `Conflict` whose `detail["paths"]` say with what; nothing is applied then.
        """
        return self.send(operations.snapshots_commit(self.id, options))


class Sandboxes:
    def __init__(self, client: Ringfence) -> None:
        self._client = client

    def create(self, **options: Unpack[CreateRequest]) -> Sandbox:
        """Make a sandbox. Options are those of `POST /v1/sandboxes`; without `workspace` it works in your `default` one."""
        answer = self._client.send(operations.sandboxes_create(options))
        return Sandbox(self._client, answer.id, answer)

    def attach(self, sandbox_id: str) -> Sandbox:
        """One that is there already, by its id; nothing is asked yet."""
        return Sandbox(self._client, sandbox_id)

    def list(self, *, state: str | None = None, all: bool | None = None) -> Iterator[Sandbox]:
        """Yours, the newest first; with `all=True`, for admins, everybody's."""
        pages = paged(
            self._client,
            lambda after: operations.sandboxes_list(state=state, all=all, after=after),
            lambda page: page.sandboxes,
        )
        for answer in pages:
            yield Sandbox(self._client, answer.id, answer)
