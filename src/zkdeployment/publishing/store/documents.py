"""The published documents and the published strategy, and the writer of a section of a publication.

``/zkdeployment/documents/KIND/SUBJECT`` holds the document as JSON, compressed if it is large. SUBJECT consists of
the names of the subject, percent-encoded and joined by colons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote

from zkdeployment.base.errors import TreeError
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.documents.collection import DocumentKey, PublishedDocuments
from zkdeployment.strategies.documents import strategy_from_json, strategy_to_json
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.documents.kinds import Subject
    from zkdeployment.publishing.records import Publication
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation


def document_path(key: DocumentKey) -> str:
    """Return the path of a document's node."""
    kind, subject = key
    return f"{paths.DOCUMENTS}/{kind}/{subject_name(subject)}"


def subject_name(subject: Subject) -> str:
    """Return a subject as the name of a node."""
    return ":".join(quote(name, safe="") for name in subject) or ":"


def read_published_documents(session: Session, kinds: Collection[str] | None = None) -> PublishedDocuments:
    """Return the published documents (of these ``kinds``); a node without a document is omitted and logged."""
    contents: dict[DocumentKey, dict[str, object]] = {}
    for path, node in read_document_nodes(session, kinds).items():
        content = decode_document(path, node)
        if content is not None:
            contents[_key(path)] = content
    return PublishedDocuments(contents)


def decode_document(path: str, node: Node) -> dict[str, object] | None:
    """Return the document in a node; ``None`` for a node without a document; damaged data are logged."""
    try:
        content = unpack(node.data)
    except ValueError as error:
        get_logger().warning("document-damaged", path=path, reason=str(error))
        return None
    return content if isinstance(content, dict) else None


def read_document_nodes(session: Session, kinds: Collection[str] | None = None) -> dict[str, Node]:
    """Return the nodes of all published documents (of these ``kinds``) by path, read in two pipelined rounds."""
    names_of_kinds = (session.children(paths.DOCUMENTS) or ()) if kinds is None else kinds
    directories = [f"{paths.DOCUMENTS}/{kind}" for kind in names_of_kinds]
    listed = session.look((), directories)[1]
    found = [f"{above}/{name}" for above, names in zip(directories, listed, strict=True) for name in names or ()]
    nodes = zip(found, session.get_many(found), strict=True)
    return {path: node for path, node in nodes if node is not None}


def _key(path: str) -> DocumentKey:
    kind, name = path.removeprefix(f"{paths.DOCUMENTS}/").split("/")
    return kind, () if name == ":" else tuple(unquote(part) for part in name.split(":"))


def encode_strategy(strategy: Strategy | None) -> bytes:
    """Encode the data of the node; empty for no strategy."""
    return b"" if strategy is None else pack(strategy_to_json(strategy))


def read_strategy(session: Session) -> Strategy | None:
    """Return the published strategy, ``None`` if it does not exist; raises ``TreeError`` if it is invalid."""
    return decode_strategy(session.get(paths.STRATEGY))


def decode_strategy(node: Node | None) -> Strategy | None:
    """Return the strategy in the node, ``None`` if it does not exist; raises ``TreeError`` if it is invalid."""
    if node is None or not node.data:
        return None
    try:
        return strategy_from_json(unpack(node.data))
    except ValueError as error:
        raise TreeError(f"{paths.STRATEGY}: {error}; 'zkdeployment sync --force' writes it anew") from error


# ruff: noqa: ARG002  the methods of an empty section ignore their arguments


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
