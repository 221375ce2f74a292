"""The page that describes the API: operations by subject, commands, and values."""

from __future__ import annotations

import json
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Any

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: A schema of JSON Schema, as the OpenAPI description contains it.
_Schema = dict[str, Any]

#: The constraints of values that the page shows, with their words.
_LIMITS = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than", "default": "default"}

#: Example values, by type.
_EXAMPLES = {"string": "TEXT", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a key of a JSON object. ``value`` names the description of its object, if it has one."""

    name: str
    kind: str
    is_required: bool
    about: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: ``parameters`` of path and query, the fields of its ``body``, and its ``answer``.

    ``curl`` is a command that carries it out. ``body`` is ``None`` for requests without one.
    """

    anchor: str
    method: str
    path: str
    summary: str
    about: str
    parameters: Sequence[Field]
    body: Field | None
    answer: Field
    curl: str


@dataclass(frozen=True, slots=True)
class DescribedValue:
    """A JSON object that requests or answers contain."""

    name: str
    about: str
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class ApiPage:
    """The content of the page; ``subjects`` maps each subject to its operations."""

    about: str
    version: str
    subjects: Mapping[str, Sequence[Operation]]
    values: Sequence[DescribedValue]


def api_page(description: Mapping[str, Any], url: str) -> ApiPage:
    """Return the page of an OpenAPI description of the service at ``url``."""
    schemas: dict[str, _Schema] = description["components"]["schemas"]
    operations = [
        (operation.get("tags", ["other"])[0], _operation(method, path, operation, schemas, url))
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    operations.sort(key=lambda pair: pair[0])  # stable: in the order of the description within a subject
    return ApiPage(
        about=description["info"]["description"],
        version=description["info"]["version"],
        subjects={
            subject: [operation for _, operation in pairs]
            for subject, pairs in groupby(operations, key=lambda pair: pair[0])
        },
        values=[_value(name, schemas[name]) for name in sorted(schemas)],
    )


def _operation(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, _Schema], url: str
) -> Operation:
    parameters = operation.get("parameters", [])
    content = operation.get("requestBody", {}).get("content", {})
    body: _Schema | None = next((each["schema"] for each in content.values()), None)
    status, answer = next((status, each) for status, each in operation["responses"].items() if status < "300")
    media, answered = next(iter(answer["content"].items()))
    return Operation(
        anchor=f"{method}-{path}",
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        about=operation["description"],
        parameters=[
            _field(each["name"], {**each["schema"], "description": each.get("description", "")}, each["required"])
            for each in parameters
            if each["in"] != "header"
        ],
        body=None if body is None else _field("body", body, is_required=True),
        answer=_field(f"{status} {media}", answered["schema"], is_required=True),
        curl=_curl(method, path, parameters, None if body is None else _example(body, schemas), url),
    )


def _value(name: str, schema: _Schema) -> DescribedValue:
    required = schema.get("required", ())
    fields = [_field(key, each, key in required) for key, each in schema.get("properties", {}).items()]
    return DescribedValue(name, schema.get("description", ""), fields)


def _field(name: str, schema: _Schema, is_required: bool) -> Field:  # noqa: FBT001  a field of the result
    return Field(name, _kind(schema), is_required, schema.get("description", ""), next(_references(schema), None))


def _kind(schema: _Schema) -> str:
    """Return the type of a value in words, with its limits."""
    if "$ref" in schema:
        return _name(schema)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "any value")
    if kind == "array":
        kind = f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {_kind(schema['additionalProperties'])}"
    limits = [f"{words} {json.dumps(schema[key])}" for key, words in _LIMITS.items() if key in schema]
    return ", ".join([str(kind), *limits])


def _references(schema: _Schema) -> Iterator[str]:
    """Yield the names of the described values that a value consists of."""
    if "$ref" in schema:
        yield _name(schema)
    for each in (*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(each, dict):
            yield from _references(each)


def _name(schema: _Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _example(schema: _Schema, schemas: Mapping[str, _Schema]) -> Any:
    """Return a value with the required keys, and with the reason that acts have."""
    if "$ref" in schema:
        return _example(schemas[_name(schema)], schemas)
    for key in ("default", "const"):
        if schema.get(key):
            return schema[key]
    if schema.get("examples") or schema.get("enum"):
        return (schema.get("examples") or schema["enum"])[0]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], schemas)
    if "properties" in schema:
        shown = [key for key in schema["properties"] if key in {*schema.get("required", ()), "reason"}]
        return {key: _example(schema["properties"][key], schemas) for key in shown}
    if schema.get("type") == "array" and schema.get("minItems"):
        return [_example(schema["items"], schemas)]
    return _EXAMPLES.get(schema.get("type", "object"))


def _curl(method: str, path: str, parameters: Sequence[Mapping[str, Any]], body: Any, url: str) -> str:
    """Return a command with the login of the manual's examples; words in capitals are to be replaced."""
    for each in parameters:
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", each["name"].upper())
    asked = [f"{each['name']}={each['name'].upper()}" for each in parameters if _is_asked(each)]
    words = [] if method == "get" else ["--request", method.upper()]
    if body is not None:
        words += ["--header", "Content-Type: application/json", "--data", json.dumps(body)]
    words.append(f"{url}{path}{'?' if asked else ''}{'&'.join(asked)}")
    return f'curl --netrc-file "$ZKDEPLOYMENT_NETRC" {shlex.join(words)}'


def _is_asked(parameter: Mapping[str, Any]) -> bool:
    return parameter["in"] == "query" and bool(parameter["required"])
