"""The page of the plan: the steps of hosts, the largest groups first, or why a tree would not be published."""

from dataclasses import replace

import pytest

from support.strategies import group, strategy
from zkdeployment.agent.rules.availability import PackageFindings
from zkdeployment.base.deployment import Assignment, HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.system import WantedSystem
from zkdeployment.fleet.views.forecast import PlanAddition, forecast
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.publishing.records import BranchSummary, CommitSummary, PublicationRecord, PublicationSummary
from zkdeployment.service.views.fleet import Tone
from zkdeployment.service.views.plan import compare_with_past, plan_suggestions, plan_view, refused_plan
from zkdeployment.strategies.documents import StrategyChange
from zkdeployment.strategies.order import order
from zkdeployment.tree.values import Tree, TreeChange

REVISION = "4f2a9c17b0d14e6f8a2b3c4d5e6f708192a3b4c5"
UNREACHABLE = Problem("away", severity=Severity.WARNING)
WEB = (Assignment("/shop/web", 1, "shop-web", "shop-web", version="1.3"),)


def prediction(*hosts, targets=None, change=None):
    identities = [Identity(host, f"{host}.example.com") for host in hosts]
    known = [KnownHost(identity, Inventory(), 1.0) for identity in identities]
    registered = [Host(identity, "r1") for identity in identities]
    return forecast(Tree({}), change or TreeChange(), targets or {}, registered, known, revision=REVISION)


def test_hosts_that_would_do_the_same_share_a_group_with_their_steps():
    targets = {"h1": WEB, "h2": WEB, "nobody": WEB}

    found = plan_view(prediction("h1", "h2", "h3", targets=targets), ["a warning"])

    assert (found.tone, found.headline, found.warnings) == (Tone.BUSY, "2 hosts would change", ("a warning",))
    assert [(each.title, each.outline) for each in found.map.hosts] == [
        ("2 hosts would change", "M0 5h22"),
        ("1 host would do what is not known", "M24 5h10"),
        ("1 host would do nothing", "M36 5h10"),
    ]
    assert found.sentence.startswith("Revision 4f2a9c17b0d1. Hosts: ")
    assert [each.title for each in found.groups] == [
        "2 hosts would change",
        "1 host would do what is not known",
        "1 host would do nothing",
    ]
    assert any(step.startswith("deploy /shop/web 0") for step, _ in found.groups[0].steps)
    assert found.groups[0].hosts[0].href == "/hosts/h1"
    assert (found.groups[1].hosts[0].href, found.groups[1].reason) == (
        "",
        "no host with this id, name or role is known",
    )


def test_a_package_that_hosts_could_not_install_forbids_the_publication():
    findings = PackageFindings((Problem("no such package", path="/shop/web"), UNREACHABLE), checked=2)
    found = plan_view(prediction("h1"), ["a warning"], findings)
    assert (found.tone, found.headline) == (Tone.BAD, "This would not be published")
    assert found.problems == ("/shop/web: no such package",)
    assert found.warnings == ("a warning", "warning: away")
    assert found.packages == "2 newly wanted packages looked up in the repositories of hosts."
    assert plan_view(prediction("h1"), (), PackageFindings()).packages == "No package had to be looked up."
    assert plan_view(prediction("h1")).packages == "The packages were not checked."


def test_a_host_that_would_refuse_the_tree_is_emphasised():
    other = (Assignment("/shop/old", 1, "shop-web", "shop-web", version="1.2"),)

    found = plan_view(prediction("h1", targets={"h1": WEB + other}))

    assert (found.tone, found.headline) == (Tone.BAD, "1 host would fail")
    assert found.groups[0].reason


def test_a_plan_without_work_is_good():
    found = plan_view(prediction("h1"))

    assert (found.tone, found.headline) == (Tone.GOOD, "No host would change")


def test_changed_nodes_are_listed_up_to_a_limit():
    change = TreeChange(create={f"/n{number:03}": {} for number in range(250)}, delete=frozenset({"/a"}))

    found = plan_view(prediction("h1", change=change))

    assert found.nodes[:2] == ("- /a", "+ /n000")
    assert found.nodes[-1] == "and 51 more"


def test_the_order_of_the_rollout_is_shown():
    plan = strategy(group("canaries", hosts="a"), group("others", "canaries", critical=True))
    forecasted = prediction("a", "b", targets={"a": WEB, "b": WEB})
    hosts = [Host(host.identity, "r1") for host in forecasted.hosts]

    governed = forecasted.with_strategy(StrategyChange(None, plan), order(plan, hosts, (), {}))
    found = plan_view(governed, recent=[published(2)])

    assert found.strategy
    assert [turn for turn, _ in found.order] == ["canaries", "others (critical, after canaries)"]
    assert found.order[0][1] == "a.example.com"
    assert plan_view(forecasted, recent=[published(2)]).duration
    assert not found.duration
    update = replace(forecasted.hosts[0], system=WantedSystem("/os", "2"))
    assert not plan_view(replace(forecasted, hosts=(update,)), recent=[published(2)]).duration


def test_each_feature_with_an_addition_has_a_part_of_its_own():
    additions = [PlanAddition(name, name.title(), {}, lines) for name, lines in (("one", ("a",)), ("two", ()))]
    assert [each.title for each in plan_view(prediction("h1"), additions=additions).additions] == ["One"]


def test_a_tree_with_errors_would_not_be_published():
    found = refused_plan("a.zk:3: expected a value")

    assert (found.tone, found.problems) == (Tone.BAD, ("a.zk:3: expected a value",))


def published(sequence, *, seconds=100.0, done=2, error=None, since=0):
    at = 1000.0 * sequence
    results = {str(n): HostResult(str(n), "h", at + seconds, 9.0, error if not n else None) for n in range(done)}
    return PublicationSummary.of(PublicationRecord(f"r{sequence}", at, sequence, since, hosts=2, results=results))


def test_a_published_revision_is_compared_with_what_was_expected_of_it():
    recent = [published(4), published(3, seconds=300.0, error="boom"), published(2)]
    comparison = compare_with_past("r3", recent, governed=False)
    assert comparison.href == "/history/3"
    assert comparison.rows == (
        ("Hosts", "2 hosts", "1 done"),
        ("Failures", "none", "1 host"),
        ("Duration", "2 hosts take about 1 min at the pace of the last publications.", "5 min"),
    )


@pytest.mark.parametrize(
    ("recent", "governed", "why"),
    [
        ([published(3, done=0)], False, "no earlier publication shows a pace"),
        ([published(3, done=0), published(2)], True, "a strategy determines when hosts begin"),
    ],
)
def test_without_a_pace_or_with_a_strategy_the_expected_duration_is_unknown(recent, governed, why):
    comparison = compare_with_past("r3", recent, governed=governed)
    assert comparison.rows[2] == ("Duration", f"unknown: {why}", "no host has finished yet")


def test_a_revision_that_was_not_published_has_nothing_to_compare():
    assert compare_with_past("r9", [published(3)], governed=False) is None
    recent = [published(3, since=2, done=0)]
    assert compare_with_past("r3", recent, governed=False).rows[0][1] == "nothing changes for hosts"


def test_the_map_of_many_hosts_has_a_line_for_each_row():
    hosts = plan_view(prediction(*(f"h{number:03}" for number in range(130)))).map
    (nothing,) = hosts.hosts
    assert (nothing.outline, hosts.height) == ("M0 5h718M0 17h718M0 29h118", 36)


def test_commits_that_wait_and_other_branches_are_suggested():
    waiting = [CommitSummary(letter * 40, "Ada Byron <ada@x>", f"web {letter}", 940.0) for letter in "cb"]
    other = CommitSummary("d" * 40, "Bob <bob@x>", "a trial", 400.0)
    branches = [
        BranchSummary("main", waiting[0]),
        BranchSummary("live", replace(other, id="a" * 40)),
        BranchSummary("trial/x&y", other),
    ]

    found = plan_suggestions(waiting, branches, FleetSnapshot(None, published="a" * 40), 1_000.0)

    assert [(each.name, each.subject, each.author, each.committed.age) for each in found] == [
        ("cccccccccccc", "web c", "Ada Byron", "1 min ago"),
        ("bbbbbbbbbbbb", "web b", "Ada Byron", "1 min ago"),
        ("trial/x&y", "a trial", "Bob", "10 min ago"),
    ]
    assert [found[0].href, found[2].href] == [f"/plan?revision={'c' * 40}", "/plan?revision=trial%2Fx%26y"]
