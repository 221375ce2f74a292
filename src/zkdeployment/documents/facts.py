"""Hosts and their facts, read from YAML or JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.host import Facts, idle_role
from zkdeployment.documents.reading import read_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.documents.yaml_values import Document

_TEXT = {"type": "string", "description": "text"}
_OPTIONAL_TEXT = {"type": ["string", "null"], "description": "text"}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "a mapping of host ids to {name, role, tags, labels, rack}",
    "additionalProperties": {
        "type": ["object", "null"],
        "description": "a mapping with name, role, tags, labels, rack",
        "additionalProperties": False,
        "properties": {
            "name": _OPTIONAL_TEXT,
            "role": _OPTIONAL_TEXT,
            "tags": {"type": ["array", "null"], "items": _TEXT, "description": "a list of tags"},
            "labels": {
                "type": ["object", "null"],
                "additionalProperties": _TEXT,
                "description": "a mapping of labels",
            },
            "rack": _OPTIONAL_TEXT,
        },
    },
}


def read_host_document(source: str, content: bytes) -> Document:
    """Return the document of a hosts file: a mapping of host ids to their values, or to ``None``.

    Raises ``ConfigurationError`` with the place in ``source``.
    """
    return read_document(source, content, _SCHEMA)


def read_facts(source: str, content: bytes) -> Mapping[str, Facts]:
    """Return the facts of hosts by their ids; raises ``ConfigurationError`` with the place in ``source``."""
    hosts: Any = read_host_document(source, content).value
    return {host_id: _facts(values or {}) for host_id, values in hosts.items()}


def _facts(values: Mapping[str, Any]) -> Facts:
    return Facts(
        rack=values.get("rack"),
        tags=frozenset(values.get("tags") or ()),
        labels=values.get("labels") or {},
        name=values.get("name"),
        is_leasable=idle_role(values.get("role") or "") is not None,
    )
