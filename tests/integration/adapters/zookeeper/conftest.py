"""Sessions for the tests of the ZooKeeper adapter."""

from __future__ import annotations

import pytest

from zkdeployment.zookeeper.session import Session


@pytest.fixture
def session(zookeeper):
    with Session(zookeeper) as opened:
        yield opened


@pytest.fixture
def other(zookeeper):
    with Session(zookeeper) as opened:
        yield opened
