"""The nodes that everybody needs, whoever makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.bootstrap import make_skeleton
from zkdeployment.adapters.zookeeper.client.paths import HOSTS, SKELETON

if TYPE_CHECKING:
    import pytest

    from zkdeployment.adapters.zookeeper.client.session import Session


def test_what_is_missing_is_made_and_what_is_there_stays(session: Session):
    session.ensure(HOSTS, b'{"version":"one"}')
    make_skeleton(session)
    assert None not in session.get_many(SKELETON)
    assert session.get(HOSTS).properties == {"version": "one"}


def test_what_somebody_else_makes_at_the_same_moment_stays(session: Session, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as before_the_other:
        before_the_other.setattr(session, "get_many", lambda paths: [None for _ in paths])
        session.ensure(HOSTS, b'{"version":"one"}')
        make_skeleton(session)
    assert None not in session.get_many(SKELETON)
    assert session.get(HOSTS).properties == {"version": "one"}


def test_agents_begin_at_the_version_initial(session: Session):
    make_skeleton(session)
    assert session.get(HOSTS).properties == {"version": "initial"}
