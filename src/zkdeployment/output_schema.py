"""The key ``schema`` of objects for programs, which names their format."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

V = TypeVar("V")


def with_schema(schema: str, body: Mapping[str, V]) -> dict[str, V | str]:
    """Return an object for programs with the name of its format, ``zkdeployment/SCHEMA/v1``."""
    return {"schema": f"zkdeployment/{schema}/v1", **body}
