"""The published documents and the published strategy.

``/zkdeployment/documents/KIND/SUBJECT`` holds the document as JSON, compressed if it is large. SUBJECT consists of
the names of the subject, percent-encoded and joined by colons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from zkdeployment.base.errors import TreeError
from zkdeployment.base.log import get_logger
from zkdeployment.documents.collection import DocumentKey, PublishedDocuments
from zkdeployment.strategies.documents import strategy_from_json, strategy_to_json
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.documents.kinds import Subject
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.zookeeper.session import Session


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
