"""The updates of operating systems in a plan: hosts by kind of update, and the time of the longest queue."""

from dataclasses import replace

import pytest

from support.builders import make_inventory, make_known_host, make_package
from support.strategies import group, strategy
from zkdeployment.agent.rules.availability import Offers, PackageFindings
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.system import HostSystem
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.fleet.views.forecast import PredictionBasis, predict
from zkdeployment.publishing.rules.review import review
from zkdeployment.strategies.documents import StrategyChange
from zkdeployment.strategies.order import order
from zkdeployment.system.rules import plan_addition
from zkdeployment.tree.values import LiveTree

TREE = "/os\n  /web : system\n    release = '{}'\n    exclude = ['own']\n    /deploy\n      /web\n"
CONTROLLER = "/roles\n  /web : ctl\n    version = '1'\n"
OLD = [make_package("glibc", "1"), make_package("own", "1")]
OFFERS = Offers(
    {"glibc": (make_package("glibc", "2"),), "own": (make_package("own", "2"),)},
    {},
    security={"glibc": (make_package("glibc", "2"),)},
)
AFTER, BEFORE = TREE.format("2"), TREE.format("1")
FOUND = PackageFindings(releases={("2", ""): OFFERS})


def review_of(text):
    return review([SourceFile("a.zk", text.encode())])


def addition(known, packages=FOUND, *, after=AFTER, before=BEFORE, governed=None):
    hosts = [Host(each.identity, version="r1") for each in known]
    live = LiveTree(review_of(before).linted.tree)
    basis = PredictionBasis(Cluster("r1"), hosts, known, live, None, PublishedDocuments())
    predicted = replace(predict(review_of(after), basis, revision="r2", title=""), packages=packages)
    if governed is not None:
        turns = order(governed, hosts, known, predicted.targets)
        predicted = replace(predicted, forecast=predicted.forecast.with_strategy(StrategyChange(), turns))
    return plan_addition(review_of(after), basis, predicted)


def host(number, *packages, **fields):
    return make_known_host(number, make_inventory(*(packages or OLD)), role="web", **fields)


ESTIMATED = (
    "packages are estimated from the inventories of hosts, without new dependencies; 'zkdeployment agent"
    " --dry-run' shows the exact ones of its host"
)


def test_hosts_are_grouped_by_the_kind_of_their_update():
    plain = [make_package("own", "1")]
    known = [host(1), host(2), host(3, *plain), host(4)]
    found = addition(known)
    assert found.lines == (
        "/os/web to 2: 3 hosts: 1 update, 1 security, reboot (glibc)",
        "/os/web to 2: 1 host: no package changes",
        ESTIMATED,
    )
    first, second = found.value["kinds"]
    assert first == {
        "path": "/os/web",
        "release": "2",
        "hosts": ["h1", "h2", "h4"],
        "unknown": None,
        "missing": [],
        "update": {
            "packages": [
                {"name": "glibc", "before": "glibc-1-1.noarch", "after": "glibc-2-1.noarch", "security": True}
            ],
            "updates": 1,
            "security": 1,
            "reboot": True,
            "reboot_for": ["glibc"],
        },
    }
    assert (found.value["hosts"], found.value["more"], found.value["time"]) == (4, 0, None)
    assert second["hosts"] == ["h3"]


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        (None, "packages unknown: no repository was read"),
        (PackageFindings(), "packages unknown: no repository was read"),
        (PackageFindings(releases={("2", ""): Offers({}, {})}), "packages unknown: no repository has the release"),
        (
            PackageFindings(releases={("2", ""): Offers({"own": OFFERS.packages["own"]}, {"extra": "timeout"})}),
            "no package changes; not read: extra",
        ),
    ],
)
def test_what_is_not_known_is_said_with_the_reason(packages, text):
    assert addition([host(1)], packages).lines[0] == f"/os/web to 2: 1 host: {text}"


def test_a_reboot_without_an_update_needs_no_repository():
    only = "update = 'none'\n    reboot = 'always'\n    generation = {}"
    before, after = (TREE.format("1").replace("exclude = ['own']", only.format(number)) for number in (1, 2))
    found = addition([host(1)], None, before=before, after=after)
    assert found.lines[0] == "/os/web to 1: 1 host: no package changes, reboot"


def test_a_plan_without_an_update_has_no_lines():
    found = addition([host(1)], after=TREE.format("1"))
    assert (found.lines, found.changes, found.value) == (
        (),
        False,
        {"hosts": 0, "kinds": [], "more": 0, "time": None},
    )


def test_only_the_most_frequent_kinds_are_listed():
    known = [host(number, *(make_package(f"p{each}") for each in range(number))) for number in range(1, 31)]
    release = Offers({f"p{number}": (make_package(f"p{number}", "2"),) for number in range(30)}, {})
    found = addition(known, PackageFindings(releases={("2", ""): release}))
    assert found.lines[19:21] == ("/os/web to 2: 1 host: 27 updates", "10 more kinds of updates on 10 hosts")
    assert len(found.value["kinds"]) == 30


def updated(number, time):
    return host(number, system=HostSystem("1", 1, updated=time))


@pytest.mark.parametrize(
    ("before", "after", "times", "line"),
    [
        (
            TREE.format("1"),
            TREE.format("2"),
            (0.0, 600.0, 1300.0, 90000.0),
            "time: about 46 min at the pace of the last updates: 4 hosts under the lock of /os/web",
        ),
        (
            TREE.format("1") + CONTROLLER,
            TREE.format("2") + CONTROLLER,
            (0.0, 600.0),
            "time: about 20 min at the pace of the last updates: 2 hosts under the lock of role web",
        ),
    ],
)
def test_the_time_is_that_of_the_longest_queue_at_the_pace_of_the_last_updates(before, after, times, line):
    known = [updated(number, time) for number, time in enumerate(times, 1)]
    assert addition(known, before=before, after=after).lines[-1] == line


def test_no_time_is_predicted_without_earlier_updates_and_under_a_strategy():
    assert addition([updated(1, 0.0), host(2)]).lines[-1] == ESTIMATED
    known = [updated(1, 0.0), updated(2, 600.0)]
    assert addition(known).lines[-1].startswith("time: about 20 min")
    assert addition(known, governed=strategy(group("all"))).lines[-1] == ESTIMATED
