"""Models and operations in Python: what the server answers becomes a dataclass, what it is asked a TypedDict."""

import keyword
import textwrap
from collections.abc import Iterable

from .spec import Api, Field, Json, Operation, references, without_null

HEADER = '"""Generated from docs/openapi.json by sdk/generate: do not edit."""\n\nfrom __future__ import annotations\n\n'
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def models(api: Api) -> str:
    answers, requests = api.used_by("answers"), api.used_by("requests")
    chunks = [
        HEADER + "from dataclasses import dataclass\n"
        "from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict\n\n"
        "__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(_names(api))) + "]\n"
    ]
    for name, schema in api.schemas.items():
        # What nobody asks with and nothing answers is left out, but for the body of every error.
        if name in answers or name == "ErrorBody" or name == "ErrorDetail":
            chunks.append(_answer(api, name, schema))
        if name in requests:
            chunks.append(_request(api, _request_name(api, name), schema))
    return "\n\n".join(chunk.rstrip("\n") + "\n" for chunk in chunks)


def operations(api: Api) -> str:
    used = {name for one in api.operations for name in _named_by(api, one)}
    imports = "from ringfence._operation import Operation, as_json, path_of\n"
    named = "".join(f"    {name},\n" for name in sorted(used))
    head = HEADER + "from typing import Any, Literal\n\nfrom ringfence._generated.models import (\n" + named + ")\n" + imports
    return "\n\n".join([head, *(_operation(api, one) for one in api.operations)])


def _names(api: Api) -> Iterable[str]:
    answers, requests = api.used_by("answers"), api.used_by("requests")
    for name, schema in api.schemas.items():
        if name in answers or name in ("ErrorBody", "ErrorDetail"):
            yield name
        if name in requests:
            yield _request_name(api, name)
            if _has_options(api, schema):
                yield f"{_request_name(api, name)}Options"


def _request_name(api: Api, name: str) -> str:
    """A name of its own where the same schema is answered too."""
    return f"{name}Input" if name in api.used_by("answers") else name


def _named_by(api: Api, operation: Operation) -> Iterable[str]:
    if operation.body and operation.body.schema is not None:
        yield from (_request_name(api, name) for name in references(operation.body.schema))
    for parameter in operation.parameters:
        yield from (_request_name(api, name) for name in references(parameter.schema))
    if operation.answer.schema is not None:
        yield from references(operation.answer.schema)


def _type(api: Api, schema: Json, asked: bool) -> str:
    """The type of a value; `asked` where it is sent, not answered."""
    schema, nullable = without_null(schema)
    name = _type_of_one(api, schema, asked)
    return f"{name} | None" if nullable and name != "Any" else name


def _type_of_one(api: Api, schema: Json, asked: bool) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"].rsplit("/", 1)[1])
        return _request_name(api, name) if asked else name
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return _type(api, schema["allOf"][0], asked)
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return "Literal[" + ", ".join(repr(one) for one in schema["enum"]) + "]"
    if any(word in schema for word in ("oneOf", "anyOf", "allOf")):
        return "Any"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type_of_one(api, {**schema, "type": one}, asked) for one in kind)
    if kind == "array":
        return f"list[{_type(api, schema.get('items') or {}, asked)}]"
    if kind == "object" or "properties" in schema:
        inner = schema.get("additionalProperties")
        value = _type(api, inner, asked) if isinstance(inner, dict) and inner else "Any"
        return f"dict[str, {value}]"
    return PLAIN.get(str(kind), "Any")


def _decoded(api: Api, schema: Json, value: str, depth: int = 0) -> str:
    """An expression that makes the typed value of a JSON one."""
    schema, nullable = without_null(schema)
    if "allOf" in schema and len(schema["allOf"]) == 1:
        schema = schema["allOf"][0]
    item = f"item{depth or ''}"
    code = value
    if "$ref" in schema:
        name = str(schema["$ref"].rsplit("/", 1)[1])
        if api.fields(api.schemas[name]) is not None:
            code = f"{name}.from_json({value})"
    elif schema.get("type") == "array":
        inner = _decoded(api, schema.get("items") or {}, item, depth + 1)
        if inner != item:
            code = f"[{inner} for {item} in {value}]"
    elif schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        inner = _decoded(api, schema["additionalProperties"], item, depth + 1)
        if inner != item:
            code = f"{{name{depth or ''}: {inner} for name{depth or ''}, {item} in {value}.items()}}"
    if nullable and code != value:
        code = f"None if {value} is None else {code}"
    return code


def _answer(api: Api, name: str, schema: Json) -> str:
    fields = api.fields(schema)
    if fields is None:
        return f'{name}: TypeAlias = "{_type(api, schema, False)}"\n'
    lines = ["@dataclass(frozen=True, kw_only=True)", f"class {name}:", *_doc(schema.get("description", ""), 4)]
    for one in fields:
        lines.extend(_comment(one.description, 4))
        kind = _type(api, one.schema, False)
        if not one.required:
            kind = kind if kind == "Any" or kind.endswith("| None") else f"{kind} | None"
            kind += " = None"
        lines.append(f"    {_identifier(one.name)}: {kind}")
    lines += ["", "    @classmethod", f"    def from_json(cls, data: Any) -> {name}:", "        return cls("]
    for one in fields:
        lines.append(f"            {_identifier(one.name)}={_field(api, one)},")
    return "\n".join([*lines, "        )"]) + "\n"


def _field(api: Api, one: Field) -> str:
    if one.required:
        return _decoded(api, one.schema, f'data["{one.name}"]')
    value = f'data.get("{one.name}")'
    code = _decoded(api, without_null(one.schema)[0], value)
    return value if code == value else f"None if {value} is None else {code}"


def _has_options(api: Api, schema: Json) -> bool:
    """Whether its optional fields are a type of their own, to be given as keyword arguments."""
    fields = api.fields(schema) or []
    plain = not any(keyword.iskeyword(one.name) for one in fields)
    return plain and any(one.required for one in fields) and any(not one.required for one in fields)


def _request(api: Api, name: str, schema: Json) -> str:
    fields = api.fields(schema)
    if fields is None:
        return f'{name}: TypeAlias = "{_type(api, schema, True)}"\n'
    doc = _doc(schema.get("description", ""), 4)
    if any(keyword.iskeyword(one.name) for one in fields):
        # A field whose name is a word of the language has no place in a class.
        lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
        for one in fields:
            wrapped = "Required" if one.required else "NotRequired"
            lines.append(f'        "{one.name}": {wrapped}["{_type(api, one.schema, True)}"],')
        return "\n".join([*lines, "    },", ")"]) + "\n"
    if not _has_options(api, schema):
        total = "" if fields[0].required else ", total=False"
        return "\n".join([f"class {name}(TypedDict{total}):", *doc, *_members(api, fields)]) + "\n"
    options = [f"class {name}Options(TypedDict, total=False):", f'    """What may be left out of `{name}`."""', ""]
    options += _members(api, [one for one in fields if not one.required])
    whole = [f"class {name}({name}Options):", *doc, *_members(api, [one for one in fields if one.required])]
    return "\n".join([*options, "", "", *whole]) + "\n"


def _members(api: Api, fields: list[Field]) -> Iterable[str]:
    for one in fields:
        yield from _comment(one.description, 4)
        yield f"    {one.name}: {_type(api, one.schema, True)}"


def _operation(api: Api, one: Operation) -> str:
    path = [parameter for parameter in one.parameters if parameter.where == "path"]
    rest = [parameter for parameter in one.parameters if parameter.where != "path"]
    arguments = [f"{_identifier(p.name)}: {_type(api, p.schema, True)}" for p in path]
    if one.body:
        kind = "bytes" if one.body.schema is None else _type(api, one.body.schema, True)
        arguments.append(f"body: {kind}" if one.body.required else f"body: {kind} | None = None")
    if rest:
        arguments.append("*")
    for p in sorted(rest, key=lambda p: not p.required):
        kind = _type(api, p.schema, True)
        optional = kind if kind.endswith("| None") else f"{kind} | None"
        arguments.append(f"{_identifier(p.name)}: {kind}" if p.required else f"{_identifier(p.name)}: {optional} = None")
    answer = {"none": "None", "text": "str", "bytes": "bytes", "events": "bytes"}.get(one.answer.kind)
    answer = answer or _type(api, one.answer.schema or {}, False)
    lines = [f"def {_identifier(one.name)}({', '.join(arguments)}) -> Operation[{answer}]:", *_doc(one.description, 4)]
    if lines[-1] == "":
        lines.pop()
    given = [f'"{one.method.upper()}"', _path(one.path, [p.name for p in path])]
    query = [p for p in rest if p.where == "query"]
    headers = [p for p in rest if p.where == "header"]
    if query:
        given.append("query={" + ", ".join(f'"{p.name}": {_identifier(p.name)}' for p in query) + "}")
    if headers:
        given.append("headers={" + ", ".join(f'"{p.name}": {_identifier(p.name)}' for p in headers) + "}")
    if one.body:
        given.append("json=body" if one.body.schema is not None else f'content=body, media="{one.body.media}"')
    if one.answer.kind == "json":
        decoded = _decoded(api, one.answer.schema or {}, "data")
        given.append(f"decode=lambda data: {decoded}" if decoded != "data" else "decode=as_json")
    given.append(f'answer="{one.answer.kind}"')
    if one.keyed:
        given.append("keyed=True")
    body = ",\n        ".join(given)
    return "\n".join([*lines, f"    return Operation(\n        {body},\n    )"]) + "\n"


def _path(path: str, names: list[str]) -> str:
    if not names:
        return f'"{path}"'
    return f'path_of("{path}", ' + ", ".join(f"{_identifier(name)}={_identifier(name)}" for name in names) + ")"


def _identifier(name: str) -> str:
    plain = name.replace("-", "_").replace(".", "_").lower() if not name.isidentifier() else name
    return f"{plain}_" if keyword.iskeyword(plain) or plain in ("body", "cls", "self") else plain


def _doc(text: str, indent: int) -> list[str]:
    if not text:
        return []
    space, safe = " " * indent, text.replace("\\", "\\\\").replace('"""', "'''")
    if len(safe) < 100 and "\n" not in safe:
        return [f'{space}"""{safe}"""', ""]
    return [*_wrapped(f'"""{safe}', space), f'{space}"""', ""]


def _comment(text: str, indent: int) -> list[str]:
    return _wrapped(" ".join(text.split()), " " * indent + "# ") if text else []


def _wrapped(text: str, prefix: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, 118, initial_indent=prefix, subsequent_indent=prefix) or [""]
    return lines
