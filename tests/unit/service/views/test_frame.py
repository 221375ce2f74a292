"""The frame of all pages: tabs, the user, the age of the data; and times as pages show them."""

from dataclasses import replace

import pytest

from support.builders import make_user
from support.pools.builders import make_node
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.system import WantedSystem
from zkdeployment.checks.rules.instance import LastCheckChanges
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.instances import ServicesSnapshot
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.pools.rules.snapshot import PoolReading, PoolSnapshot
from zkdeployment.promotion.feed import PromotionReading
from zkdeployment.service.pages.live_page import main_pages
from zkdeployment.service.users.user import Role
from zkdeployment.service.views.fleet import FleetVerdict, Tone
from zkdeployment.service.views.frame import ActLink, deadline, moment, page_frame

NOW = 1_795_330_000.0
ANN = make_user("ann", Role.OPERATOR)
SYSTEM = Assignment("/os/web", 0, "system", "system", system=WantedSystem("/os/web", "2026-11-20"))


@pytest.mark.parametrize(
    ("path", "tab"),
    [("/", "Fleet"), ("/hosts/h1", "Fleet"), ("/services/shop/web", "Services"), ("/acts/stop", None)],
)
def test_the_tab_of_a_page_is_marked(path, tab):
    frame = page_frame(path, ANN, now=NOW, main_pages=main_pages())

    assert [each.name for each in frame.tabs if each.current] == ([] if tab is None else [tab])
    assert (frame.user, frame.role) == ("ann", "operator")


def test_each_role_has_the_tabs_of_the_pages_that_it_may_read():
    tabs = {}
    for role in Role:
        frame = page_frame("/pools", replace(ANN, role=role), now=NOW, main_pages=main_pages())
        tabs[role] = [tab.name for tab in frame.tabs]
    assert tabs[Role.TENANT] == ["Pools"]
    assert (tabs[Role.VIEWER][0], tabs[Role.VIEWER][-1]) == ("Fleet", "Plan")
    assert tabs[Role.ADMIN] == tabs[Role.OPERATOR] == [*tabs[Role.VIEWER], "Audit"]


#: The tabs that a fleet which uses no feature shows to a viewer, and those behind *More*.
USED = ["Fleet", "Services", "History", "Locks", "Plan"]
SPARE = ["Intents", "Checks", "Pools", "Rollout", "Promotion", "System"]


def test_tabs_of_what_the_fleet_does_not_use_are_behind_more():
    assert shown_tabs("/", FleetReading()) == (USED, SPARE)


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("Intents", FleetReading(parts={"intents": {("p", "app", "v1"): "recorded"}})),
        ("Checks", FleetReading(parts={"checks": LastCheckChanges(0, 0)})),
        ("Pools", FleetReading(parts={"pools": PoolReading(snapshot=PoolSnapshot(nodes={1: make_node(1)}))})),
        ("Rollout", FleetReading(FleetSnapshot(strategy="waves"))),
        ("Promotion", FleetReading(parts={"promotion": PromotionReading(promoter="ops1")})),
        ("System", FleetReading(services=ServicesSnapshot({"web": (SYSTEM,)}))),
    ],
)
def test_the_tab_of_what_the_fleet_uses_is_shown(name, reading):
    shown, spare = shown_tabs("/", reading)

    assert (set(shown), spare) == ({*USED, name}, [each for each in SPARE if each != name])


def test_no_tab_has_a_name_that_begins_like_another():
    names = [page.name for page in main_pages()]

    assert {each: [name for name in names if name.startswith(each)] for each in names} == {
        each: [each] for each in names
    }


def test_users_alone_do_not_make_a_fleet_one_with_pools():
    assert "Pools" in shown_tabs("/", FleetReading(parts={"pools": PoolReading(tenants={1: "ann"})}))[1]


@pytest.mark.parametrize("path", ["/pools", "/pools/usage"])
def test_the_tab_of_the_page_itself_is_never_behind_more(path):
    shown, spare = shown_tabs(path, FleetReading())

    assert ("Pools" in shown, "Pools" in spare) == (True, False)


def shown_tabs(path: str, reading: FleetReading) -> tuple[list[str], list[str]]:
    """Return the names of the tabs that a viewer sees at once, and of those behind *More*."""
    viewer = replace(ANN, role=Role.VIEWER)
    tabs = page_frame(path, viewer, now=NOW, main_pages=main_pages(), reading=reading).tabs
    return [tab.name for tab in tabs if not tab.spare], [tab.name for tab in tabs if tab.spare]


def test_without_zookeeper_the_age_of_the_data_is_known():
    fresh, stale = (page_frame("/", ANN, now=NOW, connected=is_, read_at=NOW - 240) for is_ in (True, False))

    assert (fresh.stale, stale.stale) == (False, True)
    assert stale.read_at is not None
    assert stale.read_at.age == "4 min ago"
    assert page_frame("/", ANN, now=NOW, connected=False).read_at is None


def test_times_have_an_age_and_a_clock():
    found = moment(NOW - 90, NOW)

    assert found is not None
    assert (found.machine, found.clock) == ("2026-11-22T06:45:10Z", "2026-11-22 06:45:10 UTC")
    assert found.age == "1 min ago"


def test_a_future_time_shows_the_remaining_time():
    later, past = deadline(NOW + 5400, NOW), deadline(NOW - 5, NOW)
    assert later is not None
    assert past is not None
    assert (later.age, past.age) == ("in 1 h 30 min", "now")


@pytest.mark.parametrize("time", [None, 0.0, -5.0, 1e300, float("nan"), float("inf")])
def test_impossible_times_are_unknown(time):
    assert moment(time, NOW) is None


def test_the_state_of_the_fleet_stands_in_the_frame_of_those_who_may_read_it():
    verdict = FleetVerdict(Tone.BAD, "Stopped", "")
    stop = (ActLink("Stop", "/acts/stop"),)

    shown = page_frame("/locks", ANN, now=NOW, verdict=verdict, acts=stop)
    form = page_frame("/acts/stop", ANN, now=NOW, verdict=verdict, acts=stop)
    tenant = page_frame("/pools", replace(ANN, role=Role.TENANT), now=NOW, verdict=verdict)

    assert (shown.verdict, shown.acts, shown.is_front) == (verdict, stop, False)
    assert (form.verdict, form.acts) == (verdict, ())
    assert tenant.verdict is None
    assert page_frame("/", ANN, now=NOW, verdict=verdict).is_front
