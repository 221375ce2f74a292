"""The stops of groups during a deployment: which steps of a plan still run."""

from unittest import mock

import pytest

from support.builders import make_host
from zkdeployment.agent.reporting.host_reporting import HostReporting
from zkdeployment.agent.steps.group_stops import GroupStops
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.plan import (
    ChangePackages,
    CheckOut,
    Deploy,
    PackageChange,
    Plan,
    RemoveCheckout,
    RemoveSoftware,
)

SHOP = "p1/store/v1/shop"
DEPLOY = Deploy(Assignment("/a", 1, "foo", "foo", version="2.0", group=SHOP), Deployment("/a", 0), "new")
OTHER = Deploy(Assignment("/b", 1, "bar", "bar", version="2.0"), Deployment("/b", 0), "new")
ROOM = RemoveCheckout("foo", "git:/srv/foo#1", "it is a package now")
CHANGE = ChangePackages(PackageChange(want={"foo": "2.0"}), {"foo": "foo"}, "foo 2.0 is new")
BUILD = CheckOut("bar", "git:/srv/bar#2", replaces=True, reason="new")
UNNEEDED = RemoveCheckout("old", "git:/srv/old#1", "no deployment needs it any more")
REMOVE = RemoveSoftware(PackageChange(remove=frozenset({"old"})), ("old",), (), "no deployment needs old any more")
PLAN = Plan((ROOM, CHANGE, BUILD, DEPLOY, OTHER, REMOVE, UNNEEDED))


@pytest.fixture
def stops() -> GroupStops:
    """The stops during the plan, in which the shop is stopped."""
    reporting = mock.create_autospec(HostReporting, instance=True, host=make_host())
    reporting.adapters = mock.Mock()
    reporting.retry_until_reachable.return_value = frozenset({SHOP})
    stops = GroupStops(reporting)
    stops.begin(PLAN)
    stops.read()
    return stops


@pytest.mark.parametrize("step", [ROOM, CHANGE, BUILD])
def test_a_host_plans_again_before_it_changes_software_after_a_stop(stops, step):
    with pytest.raises(ConflictError, match=f"{SHOP} was stopped; the host plans again without it"):
        stops.withholds(step)


def test_software_is_removed_at_the_end_unless_a_step_was_skipped(stops):
    assert [stops.withholds(step) for step in (OTHER, REMOVE, UNNEEDED)] == [False, False, False]
    assert [stops.withholds(step) for step in (DEPLOY, REMOVE, UNNEEDED)] == [True, True, True]
    assert (stops.lacks("/a"), stops.lacks("/b")) == (True, False)
