"""One request to the server, as data: the generated functions make it, both clients send it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast
from urllib.parse import quote

from ringfence.errors import AnswerNotUnderstood

T_co = TypeVar("T_co", covariant=True)


def as_json(data: Any) -> Any:
    return data


def path_of(template: str, **values: object) -> str:
    """A path with its values in place. No value reaches another route than its own."""
    for name, value in values.items():
        text = str(value)
        if text in ("", ".", ".."):
            raise ValueError(f"{name} can't be {text!r}: give the id or name that the server told")
        template = template.replace("{" + name.rstrip("_") + "}", quote(text, safe=""))
    return template


@dataclass(frozen=True)
class Operation(Generic[T_co]):
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    media: str = "application/json"
    decode: Callable[[Any], T_co] | None = None
    answer: Literal["json", "bytes", "text", "events", "none"] = "json"
    keyed: bool = False
    # No more of an answer is taken in than this.
    most: int | None = None

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again when nobody knows if the first one arrived."""
        return self.keyed or self.method != "POST"

    @property
    def waits_seconds(self) -> float:
        """How long the server may hold the answer for a person's decision."""
        asked = self.json.get("wait_ms") if isinstance(self.json, dict) else None
        return float(asked or self.query.get("wait_ms") or 0) / 1000

    def body(self) -> bytes | None:
        return json.dumps(self.json).encode() if self.json is not None else self.content

    def sent_headers(self) -> dict[str, str]:
        headers = {name: str(value) for name, value in self.headers.items() if value is not None}
        if self.json is not None or self.content is not None:
            headers["Content-Type"] = self.media
        return headers

    def sent_query(self) -> dict[str, str]:
        return {name: _text(value) for name, value in self.query.items() if value is not None}

    def read(self, content: bytes) -> T_co:
        """The typed answer of a body."""
        if self.answer == "none":
            return cast(T_co, None)
        if self.answer == "bytes":
            return cast(T_co, content)
        if self.answer == "text":
            return cast(T_co, content.decode("utf-8", "replace"))
        try:
            data = json.loads(content)
            return self.decode(data) if self.decode else cast(T_co, data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AnswerNotUnderstood(f"{self.method} {self.path}", error) from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
