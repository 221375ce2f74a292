"""The key ``schema`` of objects for programs, which names their format."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Value


def with_schema(schema: str, body: Mapping[str, Value]) -> dict[str, Value]:
    """Return an object for programs with the name of its format, ``zkdeployment/SCHEMA/v1``."""
    return {"schema": f"zkdeployment/{schema}/v1", **body}
