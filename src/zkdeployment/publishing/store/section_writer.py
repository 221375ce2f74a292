"""Writing a section of a publication: its reads, and the operations that follow from them."""

# ruff: noqa: ARG002  the methods of an empty section ignore their arguments

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.publishing.records import Publication
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation


@dataclass(frozen=True, slots=True)
class SectionReads:
    """The reads of a section: the data of ``nodes``, the children of ``lists``, and all nodes ``below`` others."""

    nodes: Collection[str] = ()
    lists: Collection[str] = ()
    below: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Before:
    """ZooKeeper before a publication: the nodes and the names of children that the sections read, by path.

    ``None`` is a node that does not exist.
    """

    session: Session
    nodes: Mapping[str, Node | None]
    children: Mapping[str, Sequence[str]]

    def under(self, directory: str) -> dict[str, Node]:
        """Return the existing nodes below a directory that were read, by path."""
        return {path: node for path, node in self.nodes.items() if node and path.startswith(f"{directory}/")}


@dataclass(frozen=True, slots=True)
class After:
    """A publication under its final sequence.

    ``since`` is the sequence of the last publication that changed something for hosts.
    """

    publication: Publication
    sequence: int
    since: int


@dataclass(frozen=True, slots=True)
class SectionOperations:
    """Operations that write a section.

    The ``parts`` may be in earlier transactions than the ``closing`` ones, which count. If they are, the
    ``opening`` ones precede them.
    """

    parts: Sequence[Operation] = ()
    closing: Sequence[Operation] = ()
    opening: Sequence[Operation] = ()


class SectionWriter:
    """Writes one section of a publication; this class has nothing to write.

    ``needs`` are the reads for every publication.
    """

    needs: ClassVar[SectionReads] = SectionReads()

    def reads(self, publication: Publication) -> SectionReads:
        """Return the reads whose answers ``concerns_hosts`` and ``operations`` need."""
        return self.needs

    def concerns_hosts(self, before: Before, publication: Publication) -> bool:
        """Whether the section of the publication changes something for hosts."""
        return False

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that lead from the state before a publication to the section after it."""
        return SectionOperations()


NO_CHANGE = SectionWriter()
