"""What programs and people can call: the verbs with their options, the operations of the API, the pages.

All imports of the package that recordings need are here: if its modules move, only this module changes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from fastapi.routing import APIRoute

from zkdeployment.programs.verbs import program
from zkdeployment.service.application import api_description, page_routers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: What is recorded of a parameter, if it is not the usual, and of the type of its values.
_OF_PARAMETERS = ("required", "nargs", "multiple", "default", "envvar", "flag_value", "count", "hidden")
_OF_TYPES = ("name", "choices", "min", "max", "min_open", "max_open", "exists", "file_okay", "dir_okay")

#: What a schema consists of, besides the parts with lines of their own; titles are names of classes.
_PARTS = {"title", "properties", "required", "items", "additionalProperties", "anyOf", "allOf", "oneOf", "$defs"}


def verbs() -> Iterator[str]:
    """Yield one line for each fact of each verb, also of hidden ones."""
    for verb, context in _all_verbs():
        words = context.command_path
        yield f"{words}: usage = {' '.join(verb.collect_usage_pieces(context))}"
        if verb.hidden:
            yield f"{words}: hidden"
        lines = (line.strip("\b ") for line in (verb.help or "").splitlines())
        yield from (f"{words}: text: {line}" for line in lines if line)
        for number, parameter in enumerate(verb.get_params(context), 1):
            option = isinstance(parameter, click.Option)
            place = f"{words} {'/'.join(parameter.opts) if option else f'argument {number}'}"
            yield from _parameter(parameter, place, context)


def demanding() -> list[str]:
    """Return the words of all verbs that do nothing without an argument or an option."""
    return [
        context.command_path.removeprefix("zkdeployment ")
        for verb, context in _all_verbs()
        if not isinstance(verb, click.Group) and any(parameter.required for parameter in verb.params)
    ]


def _all_verbs() -> Iterator[tuple[click.Command, click.Context]]:
    """Yield all verbs and groups of verbs, each with its context."""
    found: list[tuple[click.Command, click.Context]] = [
        (program, program.make_context("zkdeployment", [], resilient_parsing=True))
    ]
    while found:
        verb, context = found.pop()
        yield verb, context
        if isinstance(verb, click.Group):
            for name in sorted(verb.list_commands(context), reverse=True):
                below = verb.get_command(context, name)
                assert below is not None
                found.append((below, click.Context(below, context, name)))


def _parameter(parameter: click.Parameter, place: str, context: click.Context) -> Iterator[str]:
    found = parameter.to_info_dict()
    if shown := parameter.get_help_record(context):
        yield f"{place}: shown = {shown[0]}"
        yield f"{place}: help = {' '.join(shown[1].split())}"
    for key in _OF_PARAMETERS:
        value = "computed" if callable(found.get(key)) else found.get(key)
        if value is not None and value is not False and (key, value) != ("nargs", 1):
            yield f"{place}: {key} = {_json(value)}"
    for key in _OF_TYPES:
        if key in found["type"]:
            yield f"{place}: type.{key} = {_json(found['type'][key])}"


def pages() -> Iterator[str]:
    """Yield the method and the path of each page and each form."""
    for router in page_routers():
        for route in router.routes:
            assert isinstance(route, APIRoute)
            yield from (f"{method} {route.path}" for method in sorted(route.methods or ()))


def operations() -> Iterator[str]:
    """Yield one line for each fact of each operation of the API; what operations share is not repeated."""
    description = api_description()
    schemas = description["components"]["schemas"]
    yield from dict.fromkeys(
        line
        for path, methods in sorted(description["paths"].items())
        for method, operation in sorted(methods.items())
        for line in _operation(operation, f"{method.upper()} {path}", schemas)
    )


def _operation(operation: Mapping[str, Any], place: str, schemas: Mapping[str, Any]) -> Iterator[str]:
    for key in ("summary", "description", "tags", "security"):
        yield f"{place}: {key} = {_json(operation.get(key))}"
    for parameter in operation.get("parameters", ()):
        where = f"{place} {parameter['in']} {parameter['name']}"
        yield f"{where}: required = {_json(parameter['required'])}"
        yield f"{where}: description = {_json(parameter.get('description'))}"
        yield from _schema(parameter["schema"], where, schemas)
    body = operation.get("requestBody", {})
    yield f"{place} body: required = {_json(body.get('required', False))}"
    for kind, content in body.get("content", {}).items():
        yield from _schema(content["schema"], f"{place} body {kind}", schemas)
    for status, answer in sorted(operation["responses"].items()):
        yield f"{place} {status}: {_json(answer['description'])}"
        for kind, content in answer.get("content", {}).items():
            where = place if status < "400" else "each operation"
            yield from _schema(content.get("schema", {}), f"{where} {status} {kind} body", schemas)


def _schema(
    schema: Mapping[str, Any], place: str, schemas: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield the lines of a schema with all schemas that it names, whose own names are not recorded."""
    if reference := schema.get("$ref"):
        if reference in above:
            yield f"{place}: as above"
            return
        named = schemas[reference.rpartition("/")[2]]
        schema, above = {**named, **schema}, (*above, reference)
        del schema["$ref"]
    said = {key: value for key, value in schema.items() if key not in _PARTS}
    yield f"{place}: {_json(said)}"
    for name, below in sorted(schema.get("properties", {}).items()):
        mark = "" if name in schema.get("required", ()) else "?"
        yield from _schema(below, f"{place}.{name}{mark}", schemas, above)
    if "items" in schema:
        yield from _schema(schema["items"], f"{place}[]", schemas, above)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schema(schema["additionalProperties"], f"{place}.*", schemas, above)
    for choice in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        yield from _schema(choice, f"{place}|", schemas, above)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
