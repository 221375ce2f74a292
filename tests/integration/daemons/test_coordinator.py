"""Coordinators on a real ZooKeeper, with agents that do what they are granted at once."""

import pytest

from support.coordinated import CoordinatedFleet
from support.strategies import EXAMPLE_HOSTS, example
from zkdeployment.adapters.zookeeper.session import Session
from zkdeployment.rollout.engine import Result


@pytest.fixture
def fleet(zookeeper):
    with Session(zookeeper) as session:
        yield CoordinatedFleet(zookeeper, session)


def test_the_example_goes_through_group_by_group(fleet):
    fleet.register(EXAMPLE_HOSTS)
    fleet.publish("r1", example())
    with fleet.coordinator() as one:
        over = fleet.run(one.coordinator)
    assert over.rollout.result is Result.SUCCESS
    groups = list(dict.fromkeys(name for name, _, _ in fleet.done))
    assert groups == ["monitoring-nodes", "ntp-node", "control-nodes", "compute-nodes-1", "compute-nodes-2"]
