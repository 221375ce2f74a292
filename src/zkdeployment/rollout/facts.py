"""Hosts and their facts from a YAML or JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.errors import ConfigurationError
from zkdeployment.model.strategy import Facts
from zkdeployment.rollout.schema import form_faults
from zkdeployment.rollout.yaml_values import YamlTextError, read_documents

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT = {"type": "string", "description": "text"}
_PLAIN = {"type": ["string", "number", "boolean"], "description": "text"}

#: As in the file that ``sandbox up --hosts`` takes.
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "host → {rack, tags, labels}",
    "additionalProperties": {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {
            "name": _TEXT,
            "role": {"type": ["string", "null"]},
            "rack": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": _TEXT},
            "labels": {"type": "object", "additionalProperties": _PLAIN},
        },
    },
}


def read_facts(source: str, content: bytes) -> Mapping[str, Facts]:
    """Read hosts; raises ``ConfigurationError`` with the place in ``source``."""
    try:
        documents = list(read_documents(content.decode("utf-8-sig")))
    except YamlTextError as error:
        raise ConfigurationError(f"{source}:{error.line}:{error.column}: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}: expected UTF-8") from error
    value: Any = documents[0].value if documents else {}
    for way, words in form_faults(value, _SCHEMA):
        line, column = documents[0].place(way)
        raise ConfigurationError(f"{source}:{line}:{column}: {words}")
    return {str(name): _facts(found or {}) for name, found in value.items()}


def _facts(value: Mapping[str, Any]) -> Facts:
    labels = {
        key: str(found).lower() if isinstance(found, bool) else str(found)
        for key, found in value.get("labels", {}).items()
    }
    tags = frozenset(value.get("tags", ()))
    return Facts(rack=value.get("rack"), tags=tags, labels=labels, name=value.get("name"))
