"""Which host of a stopped fleet may try again."""

import pytest

from support.builders import make_host
from zkdeployment.base.act import Act
from zkdeployment.base.host import retry_objection
from zkdeployment.base.stop import COORDINATOR, Stop

FAILED = Stop("h1", "h1.example.com", "r2", "deploy /shop/web 0", "exit status 1", 1.0)
ROLLOUT = Stop.of_operator(Act(COORDINATOR, "stop", "a critical group failed", 2.0))
OPERATOR = Stop.of_operator(Act("ann", "stop", "the network is down", 3.0))


@pytest.mark.parametrize(
    ("host", "stops", "objection"),
    [
        (make_host("h1", "r1", error="exit status 1"), (FAILED,), ""),
        (make_host("h1", "r1", error="exit status 1"), (FAILED, ROLLOUT), ""),
        (make_host("h1", "r1"), (FAILED,), ""),  # its agent was restarted since the failure
        (make_host("h1", "r2"), (FAILED,), "it has the published revision"),  # its retry succeeded
        (make_host("h2", "r1"), (FAILED,), "it has not failed"),
        (make_host("h1", "r1", error="exit status 1"), (FAILED, OPERATOR), "stopped by ann: the network is down"),
        (make_host("h1", "r1", error="exit status 1", idle_role="lease:web"), (FAILED,), "leases decide"),
        (None, (FAILED,), "its agent is not registered"),
    ],
)
def test_a_failed_host_may_try_again_unless_an_operator_stopped_the_fleet(host, stops, objection):
    found = retry_objection(host, stops, "r2")
    assert found.startswith(objection)
    assert bool(found) is bool(objection)
