"""Followed nodes on a real ZooKeeper: no change is lost with a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.zookeeper import renew_session
from zkdeployment.base.errors import UnreachableError
from zkdeployment.publishing.signing.statement import digest_of
from zkdeployment.publishing.store.signing import FollowedBuckets
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import FollowedNodes
from zkdeployment.zookeeper.transactions import Delete, Set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.zookeeper.session import Session

NODE = Read("/followed")


def test_a_change_that_was_read_before_the_connection_was_lost_is_in_the_next_refresh(
    session: Session, other: Session
):
    other.ensure(NODE.path, b"1")
    nodes = FollowedNodes(session, lambda: None)
    assert nodes.refresh(lambda: [NODE]) == {NODE}
    other.commit(Set(NODE.path, b"2"))
    session.last_transaction()  # which waits for the watch
    with pytest.raises(UnreachableError):
        nodes.refresh(_losing_the_connection(session))
    assert nodes.refresh(lambda: [NODE]) == {NODE}
    assert nodes.refresh(lambda: [NODE]) == frozenset()


def test_nodes_that_one_refresh_did_not_reach_are_outdated_and_read_by_the_next_one(session: Session):
    woken: list[bool] = []
    nodes = FollowedNodes(session, lambda: woken.append(True))
    chain = [Read(f"{NODE.path}{number}") for number in range(8)]
    for read in chain:
        session.ensure(read.path, b"1")

    def wanted() -> list[Read]:
        """Return the nodes to follow: each one after the first leads to one more, as in a burst of changes."""
        return chain[: 1 + sum(nodes.node(read.path) is not None for read in chain)]

    first = nodes.refresh(wanted)
    assert (nodes.are_stale, bool(woken), first < {*chain}) == (True, True, True)
    assert first | nodes.refresh(wanted) == {*chain}
    assert not nodes.are_stale


def test_an_empty_directory_counts_a_child_that_came_and_went_between_two_refreshes(
    session: Session, other: Session
):
    children, child = Read(NODE.path, children=True), f"{NODE.path}/child"
    other.ensure(NODE.path, b"1")
    nodes = FollowedNodes(session, lambda: None)
    nodes.refresh(lambda: [NODE, children])
    other.ensure(child, b"")
    other.commit(Delete(child))
    session.last_transaction()  # which waits for the watch
    assert nodes.refresh(lambda: [NODE, children]) == {NODE}
    found = nodes.node(NODE.path)
    assert found is not None
    assert (nodes.children(NODE.path), found.child_changes) == ((), 2)


def test_a_foreign_bucket_that_was_read_before_the_connection_was_lost_is_noticed(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch
):
    path = paths.bucket_path("00")
    other.ensure(path, b"signed")
    digests = {"00": digest_of(b"signed")}
    buckets = FollowedBuckets(session)
    assert buckets.have(digests)
    other.commit(Set(path, b"foreign"))
    session.last_transaction()
    follow = session.follow

    def cut(*arguments: object) -> Iterator[object]:
        yield from follow(*arguments)
        raise UnreachableError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr(session, "follow", cut)
        with pytest.raises(UnreachableError):
            buckets.have(digests)
    assert not buckets.have(digests)


def _losing_the_connection(session: Session):
    calls = iter([lambda: None, lambda: renew_session(session)])

    def wanted() -> list[Read]:
        next(calls)()
        return [NODE]

    return wanted
