"""Ports of the verb ``provide``: the registration of a service instance, and its program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.model.tree import Properties


class Registration(Protocol):
    """The ephemeral node of one service instance."""

    def check(self) -> None:
        """Raise ``LinkError`` if the parent node is missing, ``RefusedError`` if it may not have instances."""

    def register(self, properties: Properties) -> str:
        """Create the node in the current session if it does not exist, and return its path.

        A node of another session is replaced. Call this method again whenever the session may have changed.
        Raises what ``check`` raises.
        """

    def unregister(self) -> None:
        """Remove the node now, before the session ends."""


class ChildProgram(Protocol):
    """A running program that shares this process's input and output."""

    @property
    def pid(self) -> int:
        """The process id."""

    def wait(self) -> int:
        """Wait until the program ends, and return its exit status; a negative one is the signal that ended it."""

    def signal(self, number: int) -> None:
        """Send a signal to the program if it still runs."""
