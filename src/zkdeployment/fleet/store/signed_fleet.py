"""Reads all nodes of a publication that its signature covers, and checks them for ``verify``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import unquote

import tenacity

from zkdeployment.base.errors import ConflictError, RefusedError, TreeError, UntrustedError
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.keys import KeyOwner, check_keys, verify_text
from zkdeployment.publishing.signing.snapshot import Deviation, SignedFleet, fleet_deviations, services_of
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement, Statement
from zkdeployment.publishing.store.assignments import read_left
from zkdeployment.publishing.store.cluster import cluster_of, decode_published
from zkdeployment.publishing.store.documents import read_strategy
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.servers import Servers


#: Nodes, at least one of which every publication and every import writes.
_MARKS = (paths.HOSTS, paths.TARGETS, paths.SIGNED)


def read_signed_fleet(session: Session) -> SignedFleet:
    """Return the snapshot; raises ``ConflictError`` if a publication was written at the same time."""
    hosts, targets, signed = before = session.get_many(_MARKS)
    strategy, strategy_problem = None, None
    try:
        strategy = read_strategy(session)
    except TreeError as error:
        strategy_problem = str(error)
    left = None
    with contextlib.suppress(TreeError):
        left = read_left(session)
    fleet = SignedFleet(
        cluster=None if hosts is None else cluster_of(hosts),
        published=decode_published(targets),
        tree=ZooKeeperLiveTree(session).live_tree().tree,
        signed=None if signed is None else signed.data,
        buckets=_read_children(session, paths.SIGNED),
        targets=_read_children(session, paths.TARGETS),
        strategy=strategy,
        strategy_problem=strategy_problem,
        left=left,
    )
    if [*map(_changed, before)] != [*map(_changed, session.get_many(_MARKS))]:
        raise ConflictError("a publication was written while the fleet was read; verify again")
    return fleet


def _read_children(session: Session, path: str) -> dict[str, bytes]:
    """Return the data of all children of a node, by their decoded names."""
    names = session.children(path) or ()
    nodes = session.get_many(f"{path}/{name}" for name in names)
    return {unquote(name): node.data for name, node in zip(names, nodes, strict=True) if node is not None}


def _changed(node: Node | None) -> int | None:
    return None if node is None else node.changed


#: Attempts to read the fleet while publications are written.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check: the signer, the statement, and all differences.

    ``signer`` and ``statement`` are ``None`` without a valid signature; in that case nothing else was compared.
    """

    signer: KeyOwner | None
    statement: Statement | None
    deviations: tuple[Deviation, ...]
    targets: int = 0
    services: int = 0


def verify_fleet(servers: Servers, publishers: Path) -> Verification:
    """Return the check of the publication in ZooKeeper against the keys in ``publishers``.

    Raises ``ConfigurationError`` if the file cannot be read or has no key of publications, ``ConflictError`` if
    publications keep being written, and ``UnreachableError``.
    """
    check_keys(publishers, NAMESPACE)  # reports mistakes before ZooKeeper is contacted
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        retry=tenacity.retry_if_exception_type(ConflictError),
        reraise=True,
    )
    with Session(servers) as session:
        fleet = retrying(read_signed_fleet, session)
    return _verify(fleet, publishers)


def _verify(fleet: SignedFleet, publishers: Path) -> Verification:
    expected = f"one by a publisher in {publishers}"
    if not fleet.signed:
        return Verification(None, None, (Deviation("signature", expected, "none"),))
    try:
        signed = SignedStatement.from_data(fleet.signed)
        signer = verify_text(publishers, NAMESPACE, signed.text, signed.signature)
        statement = Statement.from_text(signed.text)
    except UntrustedError as error:
        return Verification(None, None, (Deviation("statement", expected, str(error)),))
    except RefusedError as error:
        return Verification(None, None, (Deviation("signature", expected, str(error)),))
    return Verification(
        signer,
        statement,
        tuple(fleet_deviations(statement, fleet)),
        len(fleet.targets),
        len(services_of(fleet.targets)),
    )
