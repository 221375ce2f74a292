"""The port to the record of operators' acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.act import Act


class ActLog(Protocol):
    """The record of acts of operators that no other adapter records."""

    def record(self, act: Act) -> None:
        """Add an act to the record; raises ``ConflictError`` if others write to it all the time."""
