"""What an OpenAPI document says, in the terms that both languages need: models, and operations with unique names.

Written to take routes as they come: what has no shape here becomes plain JSON, never an error."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

METHODS = ("get", "put", "post", "delete", "patch")
# The transport's own: see `Idempotency-Key` and `Last-Event-ID` in docs/server.md.
TRANSPORT_HEADERS = {"idempotency-key", "last-event-id", "authorization"}
# What shows a secret once can't be told again, so that the server refuses a key for it. And a body with a key is read whole
# before it is looked at, which is not for a snapshot: see `body` of `[limits]` in docs/server.md.
NEVER_REPEATED = {
    "/v1/keys",
    "/v1/login",
    "/v1/sandboxes/{id}/terminal/ticket",
    "/v1/sandboxes/{id}/ports/{port}/ticket",
    "/v1/snapshots/import",
}


@dataclass(frozen=True)
class Parameter:
    name: str
    where: str
    required: bool
    schema: Json
    description: str


@dataclass(frozen=True)
class Body:
    """`schema` is None for bytes."""

    media: str
    schema: Json | None
    required: bool


@dataclass(frozen=True)
class Answer:
    """`kind` is json, bytes, text, events or none."""

    kind: str
    schema: Json | None = None


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    description: str
    parameters: list[Parameter]
    body: Body | None
    answer: Answer

    @property
    def keyed(self) -> bool:
        """Whether the server takes an `Idempotency-Key` for it."""
        return self.method == "post" and self.answer.kind != "events" and self.path not in NEVER_REPEATED


@dataclass(frozen=True)
class Field:
    name: str
    schema: Json
    required: bool
    description: str


@dataclass
class Api:
    document: Json
    operations: list[Operation] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        found: list[tuple[str, Operation]] = []
        for path, item in sorted(self.document.get("paths", {}).items()):
            for method in METHODS:
                if method not in item:
                    continue
                raw = item[method]
                answer = self._answer(raw.get("responses", {}))
                if answer is None:
                    self.left_out.append(f"{method} {path}: it has no answer of HTTP (a WebSocket?)")
                    continue
                found.append((by_path(method, path), self._operation(item, method, path, raw, answer)))
        counts = Counter(operation.name for _, operation in found)
        for unique, operation in found:
            name = operation.name if counts[operation.name] == 1 else unique
            self.operations.append(Operation(**{**vars(operation), "name": name}))

    @property
    def schemas(self) -> dict[str, Json]:
        schemas: dict[str, Json] = self.document.get("components", {}).get("schemas", {})
        return dict(sorted(schemas.items()))

    def resolved(self, node: Json) -> Json:
        """Where a `$ref` leads."""
        while "$ref" in node:
            target: Any = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    def fields(self, schema: Json) -> list[Field] | None:
        """The fields of an object, those of `allOf` too; None for what is not one."""
        if "allOf" in schema:
            parts = [self.fields(self.resolved(part)) for part in schema["allOf"]]
            if any(part is None for part in parts):
                return None
            merged = {one.name: one for part in parts for one in part or []}
            return list(merged.values())
        if not schema.get("properties"):
            return None
        required = set(schema.get("required", ()))
        return [
            Field(name, inner, name in required, inner.get("description", ""))
            for name, inner in schema["properties"].items()
        ]

    def used_by(self, which: str) -> set[str]:
        """Names of the schemas that `requests` or `answers` lead to."""
        todo: list[Any] = []
        for operation in self.operations:
            if which == "requests" and operation.body:
                todo.append(operation.body.schema)
            if which == "requests":
                todo.extend(parameter.schema for parameter in operation.parameters)
            if which == "answers":
                todo.append(operation.answer.schema)
        seen: set[str] = set()
        while todo:
            for name in references(todo.pop()):
                if name not in seen:
                    seen.add(name)
                    todo.append(self.schemas.get(name))
        return seen

    def _operation(self, item: Json, method: str, path: str, raw: Json, answer: Answer) -> Operation:
        given = [self.resolved(one) for one in [*item.get("parameters", ()), *raw.get("parameters", ())]]
        parameters = [
            Parameter(
                one["name"],
                one["in"],
                bool(one.get("required")) or one["in"] == "path",
                one.get("schema", {}),
                one.get("description", ""),
            )
            for one in given
            if one["in"] in ("path", "query")
            or (one["in"] == "header" and one["name"].lower() not in TRANSPORT_HEADERS)
        ]
        text = "\n\n".join(part for part in (raw.get("summary"), raw.get("description")) if part)
        return Operation(name_of(raw, path), method, path, text, parameters, self._body(raw), answer)

    def _body(self, raw: Json) -> Body | None:
        if "requestBody" not in raw:
            return None
        body = self.resolved(raw["requestBody"])
        content = body.get("content", {})
        if not content:
            return None
        media = "application/json" if "application/json" in content else next(iter(content))
        schema = content[media].get("schema", {}) if is_json(media) else None
        return Body(media, schema, body.get("required", True))

    def _answer(self, responses: Json) -> Answer | None:
        good = sorted(status for status in responses if status.startswith("2") or status == "default")
        # What waits for approval is an error of both SDKs, wherever a route has another answer.
        good = [status for status in good if status != "202"] or good
        if not good:
            return None
        content = self.resolved(responses[good[0]]).get("content") or {}
        if not content:
            return Answer("none")
        media = "application/json" if "application/json" in content else next(iter(content))
        if is_json(media):
            return Answer("json", content[media].get("schema", {}))
        if media == "text/event-stream":
            return Answer("events")
        is_text = media.startswith("text/") or "jsonl" in media or "ndjson" in media or "openmetrics" in media
        return Answer("text" if is_text else "bytes")


def is_json(media: str) -> bool:
    return media == "application/json" or media.endswith("+json")


def words(text: str) -> list[str]:
    """`runStream`, `run-stream` and `run_stream` alike."""
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower())


def name_of(raw: Json, path: str) -> str:
    """The noun and the verb: `sandboxes_create`. The document's own ids need not be unique."""
    segments = [part for part in path.split("/") if part and part != "v1" and not part.startswith("{")]
    noun = words((raw.get("tags") or segments or ["root"])[0])
    verb = words(raw.get("operationId", "")) or words(segments[-1] if segments else "root")
    if verb[: 2 * len(noun)] == noun + noun:
        # `run_run` is plainly `run`.
        return "_".join(verb[len(noun) :])
    return "_".join(verb if verb[: len(noun)] == noun else noun + verb)


def by_path(method: str, path: str) -> str:
    return "_".join([method, *words(path.replace("/v1/", "/"))])


def references(node: Any) -> Iterator[str]:
    """The schemas that a piece of the document names."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rsplit("/", 1)[1]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def without_null(schema: Json) -> tuple[Json, bool]:
    """A schema without its `null`, and whether it had one."""
    kind = schema.get("type")
    if isinstance(kind, list) and "null" in kind:
        rest = [one for one in kind if one != "null"]
        return {**schema, "type": rest[0] if len(rest) == 1 else rest}, True
    for word in ("oneOf", "anyOf"):
        options = schema.get(word)
        if options and any(one.get("type") == "null" for one in options):
            rest = [one for one in options if one.get("type") != "null"]
            return (rest[0] if len(rest) == 1 else {**schema, word: rest}), True
    return schema, False
