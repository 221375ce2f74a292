import json

import pytest

from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.stop import Stop
from zkdeployment.strategies.permission import Failure, Phase, RolloutPart

STOP = Stop("h1", "app1.example.com", "r1", "deploy /a 0", "boom", 17.5)


FAILED = DeploymentFailure(8, "deploy /a 0", "/a", 0)


@pytest.mark.parametrize(
    "failure",
    [
        Failure(STOP, FAILED),
        Failure(STOP, FAILED, RolloutPart("3-1", Phase.PREPARE)),
    ],
)
def test_a_failure_reads_back(failure):
    assert Failure.from_json(json.loads(json.dumps(failure.to_json()))) == failure


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"stop": 1},
        {"stop": {}},
        {"stop": {}, "failed": {}},
        {"stop": {}, "failed": FAILED.to_json(), "rollout": "3-1", "phase": "rest"},
    ],
)
def test_anything_else_is_no_failure(value):
    with pytest.raises(ValueError, match=r"expected|missing"):
        Failure.from_json(value)
