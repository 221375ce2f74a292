"""The nodes of the signed publication: the statement with its signature, and the buckets below it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.signing.digests import bucket_of
from zkdeployment.signing.statement import SignedStatement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session


@dataclass(frozen=True, slots=True)
class SignedNodes:
    """The statement with its signature (``None``: nothing is signed), and the data of some buckets by name.

    ``None`` is the data of a bucket that has no node. Nothing is verified.
    """

    statement: SignedStatement | None = None
    buckets: Mapping[str, bytes | None] = field(default_factory=dict)


def signed_paths(names: Iterable[str]) -> list[str]:
    """Return the paths of the statement and of the buckets of these targets, for one request."""
    return [paths.SIGNED, *map(paths.bucket_path, _buckets(names))]


def decode_signed(names: Iterable[str], nodes: Sequence[Node | None]) -> SignedNodes:
    """Return what the nodes hold that ``signed_paths`` names; raises ``UntrustedError`` if they are not text."""
    root, *others = nodes
    buckets = {
        bucket: None if node is None else node.data for bucket, node in zip(_buckets(names), others, strict=True)
    }
    statement = None if root is None or not root.data else SignedStatement.from_data(root.data)
    return SignedNodes(statement, buckets)


def read_signed(session: Session, names: Iterable[str]) -> SignedNodes:
    """Return the statement and the buckets of these targets, read in one request."""
    listed = list(names)
    return decode_signed(listed, session.get_many(signed_paths(listed)))


def _buckets(names: Iterable[str]) -> list[str]:
    return sorted({bucket_of(name) for name in names})
