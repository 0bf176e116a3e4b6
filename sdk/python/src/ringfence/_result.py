"""What came of a command, under one name for one-shot runs, sandboxes and streams."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ringfence._generated.models import ExecAnswer, RunAnswer
from ringfence.errors import CommandFailed

Command = str | Sequence[str]


def argv(command: Command) -> list[str]:
    """A string is for the shell inside; a list is the program and its arguments."""
    if isinstance(command, str):
        return ["sh", "-c", command]
    return [str(word) for word in command]


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What a command left. `stdout` and `stderr` have replacement characters where they are not UTF-8; the bytes are exact."""

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    signal: int | None = None
    timed_out: bool = False
    # There was more output than is kept.
    truncated: bool = False
    duration_ms: int = 0
    # What was blocked, by which rule, and what would allow it.
    denials: list[dict[str, Any]] = field(default_factory=list)
    # All that the server told.
    facts: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def check(self) -> CommandResult:
        """Itself, or `CommandFailed`."""
        if not self.ok:
            raise CommandFailed(self)
        return self

    def for_model(self) -> str:
        """All of it as one text, as a model's tool would answer: output, errors, status, and what was blocked."""
        parts = [self.stdout, self.stderr]
        if self.truncated:
            parts.append("[there was more output than is kept]")
        if self.timed_out:
            parts.append("[the command ran out of time]")
        elif not self.ok:
            parts.append(f"[exit status {self.exit_code}]")
        parts += [f"[denied: {denial.get('remedy') or denial.get('what')}]" for denial in self.denials]
        return "\n".join(part.rstrip("\n") for part in parts if part)


def result_of(answer: RunAnswer | ExecAnswer) -> CommandResult:
    denials = answer.denials if isinstance(answer, RunAnswer) else answer.result.get("denials") or []
    return CommandResult(
        exit_code=answer.exit_code,
        stdout_bytes=_bytes(answer.stdout, answer.stdout_base64),
        stderr_bytes=_bytes(answer.stderr, answer.stderr_base64),
        signal=answer.signal,
        timed_out=answer.timed_out,
        truncated=bool(answer.truncated),
        duration_ms=answer.duration_ms,
        denials=denials,
        facts=vars(answer),
    )


def _bytes(text: str | None, coded: str | None) -> bytes:
    return base64.b64decode(coded) if coded is not None else (text or "").encode()
