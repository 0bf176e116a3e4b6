"""What a stream tells, and how its bytes are read: Server-Sent Events, split at line ends and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ringfence._result import CommandResult
from ringfence.errors import AnswerNotUnderstood, error_from_detail


@dataclass(frozen=True)
class Start:
    """The command runs. `id` names its stream."""

    id: str


@dataclass(frozen=True)
class Output:
    """Some bytes of stdout or stderr, whole characters where they are UTF-8."""

    stream: Literal["stdout", "stderr"]
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Denial:
    """Something was blocked; `facts` has the rule and what would allow it."""

    facts: dict[str, Any]


@dataclass(frozen=True)
class Gap:
    """So many events were dropped before they could be read."""

    events: int


@dataclass(frozen=True)
class Exit:
    """The command has ended."""

    code: int
    signal: int | None
    timed_out: bool
    duration_ms: int
    facts: dict[str, Any] = field(repr=False)


Event = Start | Output | Denial | Gap | Exit


@dataclass(frozen=True)
class FileChange:
    """Something below a path that is watched. `overflow` means that some were too many to be told: look again."""

    change: str
    path: str


@dataclass(frozen=True)
class ActionEvent:
    """Something happened to an action. `events(after=id)` goes on after it."""

    id: int
    action: str
    user: str
    state: str
    at: int
    by: str | None = None
    kind: str | None = None
    level: str | None = None
    summary: str | None = None


@dataclass(frozen=True)
class RawEvent:
    id: str | None
    name: str
    data: str


class EventDecoder:
    """From bytes, cut anywhere, to events. A line ends at LF, CR or CRLF only: text may hold any other separator."""

    def __init__(self) -> None:
        self._rest = b""
        self._id: str | None = None
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[RawEvent]:
        # A CR at the very end may be half of a CRLF.
        text = self._rest + chunk
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + held
        for line in lines:
            event = self._line(line.decode("utf-8", "replace"))
            if event:
                yield event

    def _line(self, line: str) -> RawEvent | None:
        if not line:
            event = RawEvent(self._id, self._name or "message", "\n".join(self._data)) if self._data else None
            self._id, self._name, self._data = None, "", []
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id":
            self._id = value
        return None


def event_of(raw: RawEvent) -> Event | None:
    """The typed event; None for one that this SDK does not know yet. An `error` is raised."""
    try:
        data = json.loads(raw.data)
        match raw.name:
            case "start":
                return Start(str(data["id"]))
            case "stdout" | "stderr":
                coded = data.get("base64")
                return Output(raw.name, base64.b64decode(coded) if coded is not None else data["text"].encode())
            case "denial":
                return Denial(data)
            case "gap":
                return Gap(int(data["events"]))
            case "exit":
                return Exit(data["code"], data.get("signal"), bool(data.get("timed_out")), data.get("duration_ms", 0), data)
            case "error":
                detail = dict(data["error"])
            case _:
                return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnswerNotUnderstood(f"a stream, its event {raw.name}", error) from error
    raise error_from_detail(0, detail)


def file_change_of(raw: RawEvent) -> FileChange | None:
    if raw.name != "change":
        return None
    try:
        data = json.loads(raw.data)
        return FileChange(data["change"], data["path"])
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerNotUnderstood(f"a stream, its event {raw.name}", error) from error


def action_event_of(raw: RawEvent) -> ActionEvent | None:
    if raw.name != "action":
        return None
    try:
        data = json.loads(raw.data)
        told = {name: data.get(name) for name in ("by", "kind", "level", "summary")}
        return ActionEvent(int(raw.id or ""), data["action"], data["user"], data["state"], data["at"], **told)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnswerNotUnderstood(f"a stream, its event {raw.name}", error) from error


class Collected:
    """The events of a stream, put together to what `run` would have answered."""

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.denials: list[dict[str, Any]] = []
        self.gaps = 0

    def add(self, event: Event) -> None:
        match event:
            case Output(stream="stdout", data=data):
                self.stdout += data
            case Output(data=data):
                self.stderr += data
            case Denial(facts=facts):
                self.denials.append(facts)
            case Gap(events=events):
                self.gaps += events
            case _:
                pass

    def result(self, end: Exit) -> CommandResult:
        return CommandResult(
            exit_code=end.code,
            stdout_bytes=bytes(self.stdout),
            stderr_bytes=bytes(self.stderr),
            signal=end.signal,
            timed_out=end.timed_out,
            truncated=self.gaps > 0,
            duration_ms=end.duration_ms,
            denials=self.denials,
            facts=end.facts,
        )
