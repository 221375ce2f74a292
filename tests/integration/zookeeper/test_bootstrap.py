"""The creation of the nodes that all daemons need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.zookeeper.paths import HOSTS, SKELETON
from zkdeployment.zookeeper.transactions import make_skeleton

if TYPE_CHECKING:
    import pytest

    from zkdeployment.zookeeper.session import Session


def test_missing_nodes_are_created_and_existing_nodes_are_kept(session: Session):
    session.ensure(HOSTS, b'{"version":"one"}')
    make_skeleton(session)
    assert None not in session.get_many(SKELETON)
    assert session.get(HOSTS).properties == {"version": "one"}


def test_a_node_that_another_client_creates_concurrently_is_kept(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as before_the_other:
        before_the_other.setattr(session, "get_many", lambda paths: [None for _ in paths])
        session.ensure(HOSTS, b'{"version":"one"}')
        make_skeleton(session)
    assert None not in session.get_many(SKELETON)
    assert session.get(HOSTS).properties == {"version": "one"}


def test_the_first_cluster_version_is_initial(session: Session):
    make_skeleton(session)
    assert session.get(HOSTS).properties == {"version": "initial"}
