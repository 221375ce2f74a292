"""Nodes that only the identities of an access list may change, although other programs can write beside them."""

from __future__ import annotations

import contextlib
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Create, Delete, TransactionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.zookeeper.servers import AclEntry
    from zkdeployment.zookeeper.session import Session


def make_guarded(session: Session, acl: tuple[AclEntry, ...], wanted: Sequence[str]) -> None:
    """Create the missing nodes of ``wanted``, parents first, and check the access lists of all of them.

    The first node must have a child in ``wanted``: a node without children can be removed, and created anew, by
    everyone who may remove children of ``/zkdeployment``. Without entries in ``acl``, nothing is done.

    Raises ``RefusedError`` if a node gives other rights than ``acl``, besides that to read: others may have
    written below it.
    """
    if not acl:
        return
    session.ensure(paths.OURS)
    nodes = session.get_many(wanted)
    missing = [Create(path, acl=acl) for path, node in zip(wanted, nodes, strict=True) if node is None]
    if missing:
        # If another program creates them, the check reads its lists.
        with contextlib.suppress(TransactionError):
            session.commit(*missing)
    expected = _resolved(session, acl)
    for path in wanted:
        _check(session, path, expected)


def _resolved(session: Session, acl: tuple[AclEntry, ...]) -> tuple[AclEntry, ...]:
    """Return the access list that a new node gets, in which the server replaces ``auth`` by our identities."""
    path = f"{paths.OURS}/access-list-{uuid.uuid4().hex}"
    session.commit(Create(path, ephemeral=True, acl=acl))
    found = session.acl(path)
    if found is None or found[1] != session.id:
        raise RefusedError(f"another program replaced {path} just after its creation; try again")
    with contextlib.suppress(TransactionError):  # it ends with the session anyway
        session.commit(Delete(path))
    return found[0]


def _check(session: Session, path: str, expected: Iterable[AclEntry]) -> None:
    """Raise ``RefusedError`` if a node gives rights that are not expected, other than to read."""
    answer = session.acl(path)
    if answer is None:
        raise RefusedError(f"another program removes {path}; try again")
    found, _ = answer
    given = _rights(expected)
    if all(letters - {"r"} <= given[who] for who, letters in _rights(found).items()):
        return
    shown = ",".join(map(":".join, expected))
    raise RefusedError(
        f"others may have written below {path}: expected the access list {shown} (users-acl), found"
        f" {','.join(map(':'.join, found))}; remove the nodes below it that are not yours, and run"
        f" 'setAcl -R {path} {shown}' in zkCli.sh, or correct users-acl"
    )


def _rights(acl: Iterable[AclEntry]) -> dict[tuple[str, str], set[str]]:
    """Return the rights of each identity."""
    rights: dict[tuple[str, str], set[str]] = defaultdict(set)
    for scheme, identity, letters in acl:
        rights[scheme, identity].update(letters)
    return rights
