"""Models and operations in TypeScript: interfaces with the names of the wire, and functions that describe a request."""

import json
import re
from collections.abc import Iterable

from .spec import Api, Json, Operation, references, without_null

HEADER = "// Generated from docs/openapi.json by sdk/generate: do not edit.\n"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
RESERVED = {"delete", "export", "import", "default", "in", "new", "function", "class", "var", "with", "body", "enum"}


def models(api: Api) -> str:
    chunks = [HEADER, "/** An object of JSON that has no fixed shape. */\nexport type JsonObject = Record<string, unknown>;\n"]
    for name, schema in api.schemas.items():
        fields = api.fields(schema)
        doc = _doc(schema.get("description", ""), "")
        if fields is None:
            chunks.append(f"{doc}export type {name} = {_type(schema)};\n")
            continue
        lines = [f"{doc}export interface {name} {{"]
        for one in fields:
            lines.append(f"{_doc(one.description, '  ')}  {_key(one.name)}{'' if one.required else '?'}: {_type(one.schema)};")
        chunks.append("\n".join([*lines, "}"]) + "\n")
    return "\n".join(chunks)


def operations(api: Api) -> str:
    used = sorted({name for one in api.operations for name in _named_by(one)})
    head = f"{HEADER}\nimport type {{\n" + "".join(f"  {name},\n" for name in used)
    head += '} from "./models.js";\nimport { type Operation, pathOf } from "../operation.js";\n'
    return "\n".join([head, *(_operation(one) for one in api.operations)])


def _named_by(one: Operation) -> Iterable[str]:
    schemas = [parameter.schema for parameter in one.parameters]
    schemas += [schema for schema in (one.body.schema if one.body else None, one.answer.schema) if schema is not None]
    for schema in schemas:
        yield from references(schema)
        if "JsonObject" in _type(schema):
            yield "JsonObject"


def _type(schema: Json) -> str:
    schema, nullable = without_null(schema)
    name = _type_of_one(schema)
    return f"{name} | null" if nullable else name


def _type_of_one(schema: Json) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    for word, between in (("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")):
        if word in schema:
            return between.join(f"({_type(one)})" if len(schema[word]) > 1 else _type(one) for one in schema[word])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type_of_one({**schema, "type": one}) for one in kind)
    if kind == "array":
        inner = _type(schema.get("items") or {})
        return f"{inner}[]" if inner.isidentifier() else f"Array<{inner}>"
    if kind == "object" or "properties" in schema:
        return _object(schema)
    return PLAIN.get(str(kind), "unknown")


def _object(schema: Json) -> str:
    if schema.get("properties"):
        required = set(schema.get("required", ()))
        inner = (f"{_key(name)}{'' if name in required else '?'}: {_type(one)}" for name, one in schema["properties"].items())
        return "{ " + "; ".join(inner) + " }"
    inner_schema = schema.get("additionalProperties")
    return f"Record<string, {_type(inner_schema)}>" if isinstance(inner_schema, dict) and inner_schema else "JsonObject"


def _operation(one: Operation) -> str:
    path = [parameter for parameter in one.parameters if parameter.where == "path"]
    rest = [parameter for parameter in one.parameters if parameter.where != "path"]
    arguments = [f"{_camel(p.name)}: {_type(p.schema)}" for p in path]
    if one.body:
        kind = "Uint8Array" if one.body.schema is None else _type(one.body.schema)
        arguments.append(f"body: {kind}" if one.body.required else f"body?: {kind}")
    if rest:
        inner = "; ".join(f"{_key(p.name)}{'' if p.required else '?'}: {_type(p.schema)}" for p in rest)
        arguments.append(f"query: {{ {inner} }}" + ("" if any(p.required for p in rest) else " = {}"))
    answer = {"none": "void", "text": "string", "bytes": "Uint8Array", "events": "never"}.get(one.answer.kind)
    answer = answer or _type(one.answer.schema or {})
    given = [f'method: "{one.method.upper()}"', f"path: {_path(one.path, [p.name for p in path])}"]
    for where, word in (("query", "query"), ("header", "headers")):
        names = [p.name for p in rest if p.where == where]
        if names and len(names) == len(rest) and where == "query":
            given.append("query")
        elif names:
            given.append(f"{word}: {{ " + ", ".join(f"{_key(name)}: query[{json.dumps(name)}]" for name in names) + " }")
    if one.body:
        given.append("json: body" if one.body.schema is not None else f'content: body, media: "{one.body.media}"')
    given += [f'answer: "{one.answer.kind}"', f"keyed: {'true' if one.keyed else 'false'}"]
    lines = [f"{_doc(one.description, '')}export function {_camel(one.name)}({', '.join(arguments)}): Operation<{answer}> {{"]
    return "\n".join([*lines, "  return {", *(f"    {part}," for part in given), "  };", "}"]) + "\n"


def _path(path: str, names: list[str]) -> str:
    return f'pathOf("{path}", {{ ' + ", ".join(_named(name) for name in names) + " })" if names else f'"{path}"'


def _named(name: str) -> str:
    return name if _camel(name) == name else f"{_key(name)}: {_camel(name)}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name) else json.dumps(name)


def _camel(name: str) -> str:
    first, *others = re.findall(r"[A-Za-z0-9]+", name)
    plain = first + "".join(one[:1].upper() + one[1:] for one in others)
    return f"{plain}_" if plain in RESERVED else plain


def _doc(text: str, indent: str) -> str:
    if not text:
        return ""
    lines = text.replace("*/", "* /").split("\n")
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return "\n".join([f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */\n"])
