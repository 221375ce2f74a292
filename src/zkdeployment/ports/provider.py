"""Instances of services: their registration, and the program that runs while they are registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.tree import Properties


class Registration(Protocol):
    """The ephemeral node of one instance."""

    def check(self) -> None:
        """Raise ``LinkError`` if its parent node is missing, ``RefusedError`` if no instance may be there."""

    def register(self, properties: Properties) -> str:
        """Create the node in the current session unless it is there, and return its path.

        Call it again whenever the session may have changed. A node that another session left is replaced. Raises
        what ``check`` raises.
        """

    def unregister(self) -> None:
        """Remove the node now, before the session ends."""


class ChildProgram(Protocol):
    """A running program that shares our input and output."""

    @property
    def pid(self) -> int:
        """The process id."""

    def wait(self) -> int:
        """Return the exit status when the program ends; negative: the signal that ended it."""

    def signal(self, number: int) -> None:
        """Send a signal to the program if it still runs."""
