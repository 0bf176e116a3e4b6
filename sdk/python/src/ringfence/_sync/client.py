# Generated from _async/client.py by sdk/generate: do not edit.
"""The client: one-shot runs, and the nouns of the API."""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar, Unpack

from ringfence._sync.actions import Actions
from ringfence._sync.http import Http
from ringfence._sync.nouns import Audit, Keys, Secrets, Users, Workspaces
from ringfence._sync.sandbox import Sandboxes
from ringfence._sync.skills import Skills
from ringfence._sync.snapshots import Snapshots
from ringfence._sync.stream import Stream
from ringfence._generated import operations
from ringfence._generated.models import MeAnswer, RunRequest, RunRequestOptions, StatusAnswer
from ringfence._operation import Operation
from ringfence._result import Command, CommandResult, argv, result_of
from ringfence._settings import Settings, command_seconds

T = TypeVar("T")


class Ringfence:
    """A client of one server, for one key.

    `url` and `key` are taken from RINGFENCE_URL and RINGFENCE_API_KEY where they are not given. `timeout` is in seconds,
    for everything but commands, which have their own. What may be sent twice is sent up to `retries` times more.
    """

    def __init__(
        self, url: str | None = None, key: str | None = None, *, timeout: float = 60.0, retries: int = 4
    ) -> None:
        self._http = Http(Settings.of(url, key, timeout, retries))
        self.sandboxes = Sandboxes(self)
        self.snapshots = Snapshots(self)
        self.workspaces = Workspaces(self)
        self.skills = Skills(self)
        self.secrets = Secrets(self)
        self.actions = Actions(self)
        self.users = Users(self)
        self.keys = Keys(self)
        self.audit = Audit(self)

    def __enter__(self) -> Ringfence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Sandboxes live on: they end by their own clocks, or when they are deleted."""
        self._http.close()

    def send(self, operation: Operation[T]) -> T:
        """Any operation of `ringfence.operations`: every route of the server has one."""
        return self._http.send(operation, timeout=self._http.settings.timeout)

    def run(
        self, command: Command, *, check: bool = False, **options: Unpack[RunRequestOptions]
    ) -> CommandResult:
        """Run one command in a fresh sandbox to its end. A string is for `sh -c`, a list is the program and its arguments.

        Options are those of `POST /v1/run`. A command that fails is a result, and an error only with `check=True`.
        """
        body: RunRequest = {**options, "command": argv(command)}
        seconds = command_seconds(options.get("timeout_ms"), options.get("policy"))
        result = result_of(self._http.send(operations.run(body), timeout=seconds))
        return result.check() if check else result

    def stream(self, command: Command, **options: Unpack[RunRequestOptions]) -> Stream:
        """Run one command in a fresh sandbox, and hear of it as it goes. It starts when the first event is read.

        It ends with its stream. With `keep=True` it goes on, and the stream is taken up again when its connection breaks.
        """
        body: RunRequest = {**options, "command": argv(command)}
        return Stream(self._http, operations.run_stream(body), keep=bool(options.get("keep")))

    def resume(self, last_event_id: str) -> Stream:
        """Go on after an event of a stream that was started with `keep=True`, also in another process."""
        operation = operations.run_stream({"command": ["true"]})
        return Stream(self._http, operation, keep=True, last_event_id=last_event_id)

    def me(self) -> MeAnswer:
        """Who the key belongs to."""
        return self.send(operations.people_me())

    def usage(self) -> dict[str, Any]:
        """What you hold on the server's disk, and may."""
        # The document has another noun's fields under this name: what is told is given as it is.
        asked = operations.workspaces_usage()
        return self.send(Operation[dict[str, Any]](asked.method, asked.path))

    def status(self) -> StatusAnswer:
        return self.send(operations.status())


def run_sandboxed(command: str, **options: Unpack[RunRequestOptions]) -> str:
    """Run a shell command in a fresh sandbox; its output, errors, status and denials as one text, for a model's tool."""
    with Ringfence() as ringfence:
        return (ringfence.run(command, **options)).for_model()
