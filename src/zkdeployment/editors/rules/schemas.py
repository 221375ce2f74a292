"""JSON schemas of all documents for other programs, made from the forms that ``lint`` checks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zkdeployment.base.names import NameKind, name_pattern
from zkdeployment.documents.forms import NAME_KIND
from zkdeployment.documents.kinds import known_kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIALECT = "http://json-schema.org/draft-07/schema#"

#: Plain text that other readers of YAML take for another type; ``lint`` reads text where text is expected.
_LOOKALIKES = {"number": "1", "boolean": "true"}

#: Texts that are booleans for ``lint``, in any case, but text for readers of YAML 1.2.
_BOOLEAN_TEXT = r"^([Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|[Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff])$"

#: The name of the schema for files with any documents.
ALL = "documents"


def document_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of document by the kind's name, and ``documents`` for files with any."""
    kinds = known_kinds().by_schema
    schemas = {kind.name: _whole(kind.title, schema, kind.form) for schema, kind in kinds.items()}
    branches = [
        {
            "if": {"required": ["schema"], "properties": {"schema": {"const": schema}}},
            "then": {"$ref": f"#/definitions/{kind.name}"},
        }
        for schema, kind in kinds.items()
    ]
    definitions = {
        name: {key: value for key, value in schema.items() if key != "$schema"} for name, schema in schemas.items()
    }
    # Documents of other programs may stand in the same files.
    everything = {
        "$schema": _DIALECT,
        "title": "documents of zkdeployment",
        "type": "object",
        "properties": {"schema": {"type": "string", "examples": sorted(kinds)}},
        "allOf": branches,
        "definitions": definitions,
    }
    return {**schemas, ALL: everything}


def _whole(title: str, schema: str, form: Mapping[str, Any]) -> dict[str, Any]:
    exported = _exported(form)
    properties = {**exported.get("properties", {}), "schema": {"const": schema}}
    required = ["schema", *(key for key in exported.get("required", ()) if key != "schema")]
    return {"$schema": _DIALECT, "title": title, **exported, "properties": properties, "required": required}


def _exported(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form as a schema for YAML as other programs read it, with typed values instead of plain text."""
    exported: dict[str, Any] = {}
    for key, value in form.items():
        if key == NAME_KIND:
            exported["pattern"] = f"^(?:{name_pattern(NameKind[value])})$"
        elif key in {"properties", "patternProperties"}:
            exported[key] = {name: _exported(below) for name, below in value.items()}
        elif key in {"items", "additionalProperties", "propertyNames"} and isinstance(value, dict):
            exported[key] = _exported(value)
        elif key in {"anyOf", "allOf", "oneOf"}:
            exported[key] = [_exported(below) for below in value]
        elif key != "type":
            exported[key] = value
    return {**exported, **_types(form)}


def _types(form: Mapping[str, Any]) -> dict[str, Any]:
    kinds = form.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if not kinds:
        return {}
    if "string" in kinds:
        pattern = re.compile(
            name_pattern(NameKind[form[NAME_KIND]]) if NAME_KIND in form else form.get("pattern", "")
        )
        others = [kind for kind, text in _LOOKALIKES.items() if kind not in kinds and pattern.search(text)]
        return {"type": [*kinds, *others]}
    if "boolean" in kinds:
        return {"type": [*kinds, "string"], "pattern": _BOOLEAN_TEXT}
    return {"type": form["type"]}
