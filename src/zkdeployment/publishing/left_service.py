"""Services that left the governance of their intent, and stay as published.

A service leaves governance when the document of its intent is removed, or no longer names the path of the service,
while the service stays in the tree. A left service stays as published until a release or another intent covers it,
or until the service leaves the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from zkdeployment.base.records import Key, Record, invalid


def _names(subject: object) -> tuple[str, ...]:
    if not isinstance(subject, str):
        raise invalid("the subject of an intent", subject)
    return tuple(subject.split("/"))


@dataclass(frozen=True, slots=True)
class LeftService(Record):
    """A service that left the governance of the intent ``former`` with the publication of ``revision``.

    ``target`` is the only target for which the service left governance; ``None`` stands for all targets.
    ``content`` is the digest of the deployed content; ``None``: the service is not deployed.
    """

    path: str
    target: str | None
    former: Annotated[tuple[str, ...], Key(read=_names, write="/".join, form=str)]
    revision: str
    content: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The path of the service node and the target."""
        return self.path, self.target

    @property
    def is_withheld(self) -> bool:
        """Whether the service is not deployed until it is released."""
        return self.content is None

    def covers(self, path: str, target: str) -> bool:
        """Whether a path and a target belong to this left service."""
        return path == self.path and self.target in {None, target}

    def __str__(self) -> str:
        return self.path if self.target is None else f"{self.path} for {self.target}"

    @property
    def sentence(self) -> str:
        """A sentence with the former intent of the service, and how to end the state."""
        return (
            f"it left the governance of {'/'.join(self.former)} with {self.revision}, and stays"
            f" {'withheld' if self.is_withheld else 'as deployed'} until 'zkdeployment intent release {self.path}'"
        )
