"""Sandboxes that stay: commands, processes and files in them, and their end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ringfence._async.files import AsyncFiles
from ringfence._async.paging import paged
from ringfence._async.ports import AsyncPorts
from ringfence._async.processes import AsyncProcesses
from ringfence._async.snapshots import AsyncSandboxSnapshots
from ringfence._async.stream import AsyncStream
from ringfence._async.terminal import AsyncTerminal, TerminalOptions
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
    from ringfence._async.client import AsyncRingfence

T = TypeVar("T")


class AsyncSandbox:
    """One sandbox. As a context manager it is deleted at the end, however that comes.

    `keep=True` commands and processes end with it. Its workspace stays, unless it is `private`.
    """

    def __init__(self, client: AsyncRingfence, sandbox_id: str, answer: SandboxAnswer | None = None) -> None:
        self.client = client
        self.id = sandbox_id
        #: What the server told when it was made or listed.
        self.answer = answer
        self.files = AsyncFiles(self)
        self.processes = AsyncProcesses(self)
        self.snapshots = AsyncSandboxSnapshots(self)
        self.ports = AsyncPorts(self)

    def __repr__(self) -> str:
        return f"AsyncSandbox({self.id!r})"

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(NotFound, SandboxEnded):
            await self.delete()

    async def send(self, operation: Operation[T]) -> T:
        return await self.client.send(operation)

    async def run(
        self, command: Command, *, check: bool = False, **options: Unpack[ExecRequestOptions]
    ) -> CommandResult:
        """Run a command to its end. A string is for `sh -c`, a list is the program and its arguments.

        A command that fails is a result, and an error only with `check=True`.
        """
        body: ExecRequest = {**options, "command": argv(command)}
        seconds = command_seconds(options.get("timeout_ms"), None)
        answer = await self.client._http.send(operations.sandboxes_exec(self.id, body), timeout=seconds)
        result = result_of(answer)
        return result.check() if check else result

    def stream(self, command: Command, **options: Unpack[ExecRequestOptions]) -> AsyncStream:
        """Run a command, and hear of it as it goes. It starts when the first event is read.

        It ends with its stream. With `keep=True` it goes on, and the stream is taken up again when its connection breaks.
        """
        body: ExecRequest = {**options, "command": argv(command)}
        operation = operations.sandboxes_exec_stream(self.id, body)
        return AsyncStream(self.client._http, operation, keep=bool(options.get("keep")))

    def terminal(self, command: Command = ("sh",), **options: Unpack[TerminalOptions]) -> AsyncTerminal:
        """A command on a terminal of its own, within a `with` block. Needs `pip install 'ringfence[terminal]'`."""
        return AsyncTerminal(self, argv(command), options)

    async def get(self) -> SandboxWhole:
        """What it may do, how that is enforced, what was blocked."""
        return await self.send(operations.sandboxes_get(self.id))

    async def delete(self) -> None:
        """End it, and take away all but its workspace."""
        await self.send(operations.sandboxes_delete(self.id))

    async def extend(self, **times: Unpack[ExtendRequest]) -> None:
        await self.send(operations.sandboxes_extend(self.id, times))

    async def pause(self) -> None:
        await self.send(operations.sandboxes_pause(self.id))

    async def resume(self) -> None:
        await self.send(operations.sandboxes_resume(self.id))

    async def stats(self) -> dict[str, Any]:
        return await self.send(operations.sandboxes_stats(self.id))

    async def fork(self, **options: Unpack[ForkRequest]) -> Sequence[AsyncSandbox]:
        """New sandboxes that begin with its files as they are now: `count` of them, one where none is given."""
        answer = await self.send(operations.snapshots_fork(self.id, options))
        return [AsyncSandbox(self.client, one.id, one) for one in answer.sandboxes]

    async def diff(self, *, since: str | None = None) -> Sequence[ChangeAnswer]:
        """What changed since a snapshot; without one, since the beginning of a copy-on-write or private workspace."""
        return (await self.send(operations.snapshots_diff(self.id, since=since))).changes

    async def diff_text(self, *, since: str | None = None) -> str:
        """The same, as `patch` and git read it."""
        operation = operations.snapshots_diff(self.id, since=since, format="unified")
        return await self.send(Operation[str](operation.method, operation.path, operation.query, answer="text"))

    async def commit(self, **options: Unpack[CommitRequest]) -> CommitAnswer:
        """Apply a copy-on-write workspace: all that changed, or `only` these paths.

        What has changed underneath meanwhile is a `Conflict` whose `detail["paths"]` say with what; nothing is applied then.
        """
        return await self.send(operations.snapshots_commit(self.id, options))


class AsyncSandboxes:
    def __init__(self, client: AsyncRingfence) -> None:
        self._client = client

    async def create(self, **options: Unpack[CreateRequest]) -> AsyncSandbox:
        """Make a sandbox. Options are those of `POST /v1/sandboxes`; without `workspace` it works in your `default` one."""
        answer = await self._client.send(operations.sandboxes_create(options))
        return AsyncSandbox(self._client, answer.id, answer)

    def attach(self, sandbox_id: str) -> AsyncSandbox:
        """One that is there already, by its id; nothing is asked yet."""
        return AsyncSandbox(self._client, sandbox_id)

    async def list(self, *, state: str | None = None, all: bool | None = None) -> AsyncIterator[AsyncSandbox]:
        """Yours, the newest first; with `all=True`, for admins, everybody's."""
        pages = paged(
            self._client,
            lambda after: operations.sandboxes_list(state=state, all=all, after=after),
            lambda page: page.sandboxes,
        )
        async for answer in pages:
            yield AsyncSandbox(self._client, answer.id, answer)
