"""The generated half: it is what the generator writes, and the generator takes routes that are not there yet."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SDK = Path(__file__).parents[2]
sys.path.insert(0, str(SDK))

from generator import python, synchronous, typescript  # type: ignore[import-not-found, unused-ignore]  # noqa: E402
from generator.spec import Api  # type: ignore[import-not-found, unused-ignore]  # noqa: E402


def test_what_is_committed_is_what_is_generated() -> None:
    checked = subprocess.run([SDK / "generate", "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_a_change_of_the_api_is_noticed(tmp_path: Path) -> None:
    document = json.loads((SDK.parent / "docs/openapi.json").read_text())
    document["components"]["schemas"]["MeAnswer"]["properties"]["more"] = {"type": "string"}
    changed = tmp_path / "openapi.json"
    changed.write_text(json.dumps(document))
    checked = subprocess.run([SDK / "generate", "--check", "--openapi", changed], capture_output=True, text=True)
    assert checked.returncode == 1
    assert "models.py" in checked.stderr and "models.ts" in checked.stderr


REF = "#/components/schemas/"


def answers(name: str, status: str = "200") -> dict[str, Any]:
    return {status: {"content": {"application/json": {"schema": {"$ref": REF + name}}}}}


def asks(name: str) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": REF + name}}}, "required": True}


NODE = {
    "type": "object",
    "description": 'A """node""" of a tree\\.',
    "required": ["level", "children", "by_name"],
    "properties": {
        "level": {"$ref": REF + "Level"},
        "children": {"type": "array", "items": {"$ref": REF + "Node"}},
        "by_name": {"type": "object", "additionalProperties": {"$ref": REF + "Node"}},
        "parent": {"oneOf": [{"$ref": REF + "Node"}, {"type": "null"}]},
        "class": {"type": ["string", "null"], "description": "Ends */ here."},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "inline": {"type": "object", "properties": {"a-b": {"type": "boolean"}}},
    },
}
# What the routes to come may look like: recursion, unions, words of the language, ids that are not unique, approvals.
FUTURE: dict[str, Any] = {
    "openapi": "3.1.0",
    "components": {
        "schemas": {
            "Level": {"type": "string", "enum": ["low", "high"]},
            "Node": NODE,
            "Tagged": {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}}}, {"$ref": REF + "Node"}]},
            "Empty": {"type": "object"},
        },
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}},
    },
    "paths": {
        "/v1/things/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {"operationId": "get", "tags": ["things"], "responses": answers("Node")},
            "put": {
                "operationId": "get",
                "tags": ["things"],
                "requestBody": {"content": {"application/x-tar": {}}},
                "responses": {"204": {}},
            },
            "delete": {"operationId": "delete", "tags": ["things"], "responses": {"204": {}}},
        },
        "/v1/things": {
            "post": {
                "operationId": "things_create",
                "tags": ["things"],
                "requestBody": asks("Node"),
                "responses": {**answers("Tagged", "202"), **answers("Tagged", "201")},
            },
            "get": {
                "parameters": [
                    {"name": "in", "in": "query", "schema": {"$ref": REF + "Level"}},
                    {"name": "If-Match", "in": "header", "schema": {"type": "string"}},
                    {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
            },
        },
        "/v1/things/{id}/pty": {"get": {"operationId": "pty", "tags": ["things"], "responses": {"101": {}}}},
        "/v1/things/{id}/tree": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {"operationId": "tree", "tags": ["things"], "responses": {"200": {"content": {"application/x-tar": {}}}}},
            "post": {"operationId": "grow", "tags": ["things"], "responses": answers("Empty")},
        },
    },
}


def test_routes_that_are_not_there_yet(tmp_path: Path) -> None:
    api = Api(FUTURE)
    names = [operation.name for operation in api.operations]
    # An id that is there twice is replaced by the path, and a WebSocket is no request.
    assert names == [
        "things",
        "things_create",
        "get_things_id",
        "put_things_id",
        "things_delete",
        "things_tree",
        "things_grow",
    ]
    assert api.left_out == ["get /v1/things/{id}/pty: it has no answer of HTTP (a WebSocket?)"]
    code = python.models(api) + python.operations(api)
    models: dict[str, Any] = {}
    exec(compile(python.models(api), "models", "exec"), models)
    node = {"level": "low", "children": [], "by_name": {}, "class": "x", "new": 1}
    whole = models["Node"].from_json({**node, "children": [node], "by_name": {"a": node}, "parent": node})
    assert whole.by_name["a"] == whole.children[0] == whole.parent and whole.parent.class_ == "x"
    assert "NodeInput" in code, "what is asked and answered has a type for each"
    compile(python.operations(api), "operations", "exec")
    assert "from ringfence._operation" in code and 'media="application/x-tar"' in code
    typed = tmp_path / "future"
    (typed / "generated").mkdir(parents=True)
    (typed / "generated/models.ts").write_text(typescript.models(api))
    (typed / "generated/operations.ts").write_text(typescript.operations(api))
    for name in ("operation.ts", "errors.ts", "result.ts"):
        (typed / name).write_text((SDK / "typescript/src" / name).read_text())
    _stubs_of_what_is_not_in_it(typed)
    compiler = SDK / "typescript/node_modules/.bin/tsc"
    types = SDK / "typescript/node_modules/@types"
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--typeRoots", str(types), "--types", "node"]
    files = [typed / "generated/operations.ts", typed / "generated/models.ts"]
    checked = subprocess.run([compiler, *flags, *files], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    package = typed / "python/ringfence"
    shutil.copytree(SDK / "python/src/ringfence", package)
    generated = [package / "_generated/models.py", package / "_generated/operations.py"]
    for path, text in zip(generated, (python.models(api), python.operations(api)), strict=True):
        path.write_text(text)
    # What is written by hand names the real API: only what is generated is looked at.
    strict = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "--cache-dir", str(typed / "cache")]
    checked = subprocess.run([*strict, *generated], capture_output=True, text=True, cwd=package.parent)
    assert checked.returncode == 0, checked.stdout


def _stubs_of_what_is_not_in_it(typed: Path) -> None:
    """The parts written by hand name models of the real API: give them those."""
    real = (SDK / "typescript/src/generated/models.ts").read_text()
    with (typed / "generated/models.ts").open("a") as file:
        for name in ("ActionAnswer", "ErrorDetail", "ExecAnswer", "RunAnswer", "UsageAnswer"):
            start = real.index(f"export interface {name} ")
            file.write(real[start : real.index("\n}\n", start) + 3])


def test_nothing_of_the_asynchronous_half_is_left(tmp_path: Path) -> None:
    for path, text in synchronous.files(SDK / "python/src/ringfence/_async", tmp_path).items():
        body = text.split("\n", 1)[1]
        for word in ("async", "await", "Async", "anyio", "__a"):
            assert word not in body.replace("__all__", ""), f"{word} in {path.name}"
