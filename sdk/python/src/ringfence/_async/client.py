"""The client: one-shot runs, and the nouns of the API."""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar, Unpack

from ringfence._async.actions import AsyncActions
from ringfence._async.http import AsyncHttp
from ringfence._async.nouns import AsyncAudit, AsyncKeys, AsyncSecrets, AsyncUsers, AsyncWorkspaces
from ringfence._async.sandbox import AsyncSandboxes
from ringfence._async.skills import AsyncSkills
from ringfence._async.snapshots import AsyncSnapshots
from ringfence._async.stream import AsyncStream
from ringfence._generated import operations
from ringfence._generated.models import MeAnswer, RunRequest, RunRequestOptions, StatusAnswer
from ringfence._operation import Operation
from ringfence._result import Command, CommandResult, argv, result_of
from ringfence._settings import Settings, command_seconds

T = TypeVar("T")


class AsyncRingfence:
    """A client of one server, for one key.

    `url` and `key` are taken from RINGFENCE_URL and RINGFENCE_API_KEY where they are not given. `timeout` is in seconds,
    for everything but commands, which have their own. What may be sent twice is sent up to `retries` times more.
    """

    def __init__(
        self, url: str | None = None, key: str | None = None, *, timeout: float = 60.0, retries: int = 4
    ) -> None:
        self._http = AsyncHttp(Settings.of(url, key, timeout, retries))
        self.sandboxes = AsyncSandboxes(self)
        self.snapshots = AsyncSnapshots(self)
        self.workspaces = AsyncWorkspaces(self)
        self.skills = AsyncSkills(self)
        self.secrets = AsyncSecrets(self)
        self.actions = AsyncActions(self)
        self.users = AsyncUsers(self)
        self.keys = AsyncKeys(self)
        self.audit = AsyncAudit(self)

    async def __aenter__(self) -> AsyncRingfence:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Sandboxes live on: they end by their own clocks, or when they are deleted."""
        await self._http.aclose()

    async def send(self, operation: Operation[T]) -> T:
        """Any operation of `ringfence.operations`: every route of the server has one."""
        return await self._http.send(operation, timeout=self._http.settings.timeout)

    async def run(
        self, command: Command, *, check: bool = False, **options: Unpack[RunRequestOptions]
    ) -> CommandResult:
        """Run one command in a fresh sandbox to its end. A string is for `sh -c`, a list is the program and its arguments.

        Options are those of `POST /v1/run`. A command that fails is a result, and an error only with `check=True`.
        """
        body: RunRequest = {**options, "command": argv(command)}
        seconds = command_seconds(options.get("timeout_ms"), options.get("policy"))
        result = result_of(await self._http.send(operations.run(body), timeout=seconds))
        return result.check() if check else result

    def stream(self, command: Command, **options: Unpack[RunRequestOptions]) -> AsyncStream:
        """Run one command in a fresh sandbox, and hear of it as it goes. It starts when the first event is read.

        It ends with its stream. With `keep=True` it goes on, and the stream is taken up again when its connection breaks.
        """
        body: RunRequest = {**options, "command": argv(command)}
        return AsyncStream(self._http, operations.run_stream(body), keep=bool(options.get("keep")))

    def resume(self, last_event_id: str) -> AsyncStream:
        """Go on after an event of a stream that was started with `keep=True`, also in another process."""
        operation = operations.run_stream({"command": ["true"]})
        return AsyncStream(self._http, operation, keep=True, last_event_id=last_event_id)

    async def me(self) -> MeAnswer:
        """Who the key belongs to."""
        return await self.send(operations.people_me())

    async def usage(self) -> dict[str, Any]:
        """What you hold on the server's disk, and may."""
        # The document has another noun's fields under this name: what is told is given as it is.
        asked = operations.workspaces_usage()
        return await self.send(Operation[dict[str, Any]](asked.method, asked.path))

    async def status(self) -> StatusAnswer:
        return await self.send(operations.status())


async def run_sandboxed_async(command: str, **options: Unpack[RunRequestOptions]) -> str:
    """Run a shell command in a fresh sandbox; its output, errors, status and denials as one text, for a model's tool."""
    async with AsyncRingfence() as ringfence:
        return (await ringfence.run(command, **options)).for_model()
