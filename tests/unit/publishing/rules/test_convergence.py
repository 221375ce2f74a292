"""When the fleet has converged on the published revision, and the refusals before that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import make_host
from support.strategies import (
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.publication import Origin, Published
from zkdeployment.publishing.records import SyncerReport, SyncOptions
from zkdeployment.publishing.rules.convergence import (
    PublicationSnapshot,
    behind,
    count_excluded,
    disappearances,
    has_unfinished_hosts,
    is_converged,
    is_under_way,
    refusal,
)
from zkdeployment.publishing.rules.decision import Ancestry, PublicationFacts, Publish, Wait, decide
from zkdeployment.strategies.state import Ending

AT_R2, AT_R1, NEW = (make_host(name, version) for name, version in (("a", "r2"), ("b", "r1"), ("c", None)))
ORDERED = Published("r2", sequence=7, strategy="deployment-strategy", ordered="r2")
HAS_IT = replace(AT_R2, sequence=7)
STRATEGY = strategy(group("one", hosts="ab", critical=True), group("two", "one", hosts="c", minimum_successful=1))
BEGUN = begun_rollout(STRATEGY, plain_hosts("abc"))


def snapshot(rollout=None, hosts=(AT_R2, AT_R1), published=ORDERED, cluster=Cluster("r2")):  # noqa: B008  a constant
    return PublicationSnapshot(cluster, published, hosts=hosts, rollout=rollout)


def decision_on(seen: PublicationSnapshot, tip: str, *, force: bool = False) -> type:
    """Return the kind of the decision on a tip with the right ancestry."""
    facts = PublicationFacts(seen, tip, lambda: seen, lambda _before: Ancestry(Origin("me", "x", 1.0)))
    return type(decide(facts, SyncOptions(force=force)))


def test_a_host_with_an_unfinished_deployment_blocks_convergence_whatever_its_former_version():
    half = make_host("d", former="r2")
    plain = snapshot(hosts=(AT_R2, half), published=Published("r2"))
    assert not is_converged(plain)
    assert "d.example.com (d) has no version (before its last deployment r2); " in refusal(plain, "r3")


def test_no_publication_waits_for_a_host_that_can_be_leased():
    late = make_host("d", "r1", "ci", idle_role="spare")
    assert is_converged(snapshot(hosts=(AT_R2, late), published=Published("r2")))
    assert count_excluded(STRATEGY, [late]) == 0


@pytest.mark.parametrize(
    ("hosts", "unfinished"),
    [
        ((HAS_IT,), False),
        ((HAS_IT, replace(AT_R1, sequence=6)), True),
        ((HAS_IT, NEW), True),
        ((HAS_IT, make_host("d")), False),
        ((HAS_IT, make_host("c", role="ci", idle_role="spare")), False),
    ],
    ids=["all have it", "one has another", "one has none", "in no group", "can be leased"],
)
def test_hosts_of_groups_without_the_publication_may_try_again(hosts, unfinished):
    assert has_unfinished_hosts(snapshot(BEGUN, hosts)) is unfinished
    assert not has_unfinished_hosts(snapshot(None, hosts))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"cluster": Cluster(False)}, True),
        ({"cluster": Cluster(None)}, False),
        ({"cluster": Cluster("r1")}, False),
        ({"published": replace(ORDERED, revision=None)}, False),
        ({"published": Published("r2", ordered="r2")}, False),
        ({"rollout": None}, False),
        ({"rollout": replace(BEGUN, ended=9.0)}, False),
        ({"rollout": replace(BEGUN, revision="r1")}, False),
    ],
)
def test_a_rollout_of_the_same_revision_is_under_way_until_it_ends_or_the_fleet_stops(change, expected):
    under_way = {"rollout": replace(BEGUN, revision="r2"), "published": ORDERED, "cluster": Cluster("r2")}
    assert is_under_way(snapshot(**(under_way | change)), "r2") is expected


def test_a_refusal_names_all_hosts_that_are_behind_with_their_versions():
    plain = snapshot(hosts=(AT_R2, AT_R1, NEW), published=Published("r2"))
    assert behind(Cluster("r2"), plain.hosts) == (AT_R1, NEW)
    assert refusal(plain, "r3") == (
        "not converged, so r3 is not published: expected version r2, but b.example.com (b) has r1,"
        " c.example.com (c) has no version; wait for these hosts or use --force"
    )


REBOOT = RebootRecord("d", "d.example.com", "r2", 7, "/os/web", 0, "reboot", "boot-1", 0.0, 900.0)


def test_a_host_that_reboots_blocks_convergence_and_the_refusal_names_its_deadline():
    away = replace(snapshot(hosts=(AT_R2,), published=Published("r2")), reboots=(REBOOT,))
    assert not is_converged(away)
    assert refusal(away, "r3") == (
        "not converged, so r3 is not published: expected version r2, but d.example.com (d) reboots, expected back"
        " by 00:15 UTC; wait for these hosts or use --force"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"reboots": (replace(REBOOT, expired=True),)},
        {"reboots": (replace(REBOOT, alone=True),)},
        {"maintenance": frozenset("d")},
        {"hosts": (make_host("d", "r2"),)},
    ],
    ids=["reported", "can be leased", "in maintenance", "is back"],
)
def test_no_publication_waits_for_a_reboot_whose_end_it_does_not_change(change):
    away = replace(snapshot(hosts=(AT_R2,), published=Published("r2")), reboots=(REBOOT,))
    assert is_converged(replace(away, **change))


@pytest.mark.parametrize(
    ("rollout", "converged"),
    [
        pytest.param(ended_rollout(advanced_rollout(BEGUN)), True, id="success"),
        pytest.param(ended_rollout(advanced_rollout(BEGUN, "c")), True, id="success with failures"),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout(strategy(group("g", hosts="ab")), plain_hosts("abc")))),
            True,
            id="not all",
        ),
        pytest.param(BEGUN, False, id="begun"),
        pytest.param(advanced_rollout(BEGUN), False, id="not ended yet"),
        pytest.param(ended_rollout(advanced_rollout(BEGUN), Ending.ABORTED), False, id="aborted"),
        pytest.param(
            ended_rollout(
                advanced_rollout(
                    begun_rollout(strategy(group("g", critical=True, maximum_failed=0)), plain_hosts("a")), "a"
                )
            ),
            False,
            id="failed",
        ),
        pytest.param(None, False, id="not begun"),
    ],
)
def test_with_a_strategy_the_result_of_the_rollout_decides_convergence(rollout, converged):
    state = snapshot(rollout)
    assert is_converged(state) == converged
    assert decision_on(state, "r3") is (Publish if converged else Wait)
    assert decision_on(state, "r3", force=True) is Publish


def test_no_rollout_is_awaited_if_all_hosts_have_the_version():
    assert is_converged(snapshot(None, hosts=(AT_R2,)))
    assert is_converged(snapshot(None, hosts=()))
    assert not is_converged(snapshot(BEGUN, hosts=(AT_R2,)))


def test_a_version_set_by_hand_is_not_governed_by_the_strategy():
    by_hand = snapshot(ended_rollout(advanced_rollout(BEGUN)), cluster=Cluster("r1"))
    assert not is_converged(by_hand)
    assert "expected version r1, but a.example.com (a) has r2;" in refusal(by_hand, "r3")


def test_an_import_by_hand_ends_no_rollout():
    imported = replace(ORDERED, revision=None)
    assert decision_on(snapshot(BEGUN, published=imported), "r2") is Wait
    assert decision_on(snapshot(ended_rollout(advanced_rollout(BEGUN)), published=imported), "r2") is Publish


def test_a_held_cluster_gets_the_tip_even_during_a_rollout():
    assert decision_on(snapshot(BEGUN, cluster=Cluster(False)), "r3") is Publish


PAUSE = Act("me@here", "rollout pause", "lunch", 1.0)


@pytest.mark.parametrize(
    ("rollout", "text"),
    [
        pytest.param(
            active_rollout(BEGUN, granted="ab", done="a"),
            "the rollout 7-1 of r2 by deployment-strategy is under way; group one is in its prepare phase,"
            " b.example.com (b) busy",
            id="busy hosts",
        ),
        pytest.param(
            active_rollout(begun_rollout(strategy(group("g")), plain_hosts("hijklmn")), granted="hijklmn"),
            "g is in its prepare phase, h, i, j, k, l and 2 more busy",
            id="many busy hosts",
        ),
        pytest.param(
            replace(BEGUN, waiting="group one waits for its window"),
            "is under way; group one waits for its window;",
            id="waiting",
        ),
        pytest.param(
            replace(BEGUN, paused=PAUSE, waiting="paused"),
            "is under way; it is paused (rollout pause by me@here: lunch);",
            id="paused",
        ),
        pytest.param(ended_rollout(BEGUN, Ending.ABORTED), "failed, and the next has not begun", id="over"),
    ],
)
def test_a_refusal_names_the_progress_of_the_rollout(rollout, text):
    message = refusal(snapshot(rollout), "r3")
    assert message.startswith("not converged, so r3 is not published: the rollout 7-1 of r2")
    assert text in message
    assert message.endswith("; see 'zkdeployment rollout show', wait for its end or use --force")


def test_a_refusal_names_the_missing_coordinator():
    assert refusal(snapshot(None), "r3") == (
        "not converged, so r3 is not published: no coordinator has begun the rollout by deployment-strategy;"
        " expected version r2, but b.example.com (b) has r1; wait for the rollout or use --force"
    )


def test_hosts_in_no_group_of_a_strategy_are_counted():
    assert count_excluded(STRATEGY, (AT_R2, AT_R1, NEW, make_host("z"))) == 1
    assert count_excluded(None, (AT_R2,)) == 0


def test_hosts_in_maintenance_are_excluded_with_and_without_a_strategy():
    maintenance = {AT_R1.identity.id, "z"}
    assert count_excluded(STRATEGY, (AT_R2, AT_R1, NEW, make_host("z")), maintenance) == 2
    assert count_excluded(None, (AT_R2, AT_R1), maintenance) == 1


@pytest.mark.parametrize("wanted", [None, "r2", "None"])
def test_a_host_without_a_version_has_no_revision(wanted):
    assert not NEW.has(wanted)


def test_revisions_are_compared_as_text():
    assert Host(Identity("a", "a"), version=12).has("12")
    assert behind(Cluster("12"), [Host(Identity("a", "a"), version=12)]) == ()


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (None, {"a": None, "b": None}),
        (SyncerReport("s", "ok", 60, 1000.0), {"a": None, "b": None}),  # of an older syncer
        (SyncerReport("s", "ok", 60, 1000.0, absent={}), {"a": 1100.0, "b": 1100.0}),
        (SyncerReport("s", "ok", 60, 1000.0, absent={"a": 500.0, "c": 400.0}), {"a": 500.0, "b": 1100.0}),
        (SyncerReport("s", "ok", 60, 1000.0, absent={"a": None}), {"a": None, "b": 1100.0}),
        (SyncerReport("s", "ok", 60, 900.0, absent={"a": 500.0}), {"a": 500.0, "b": None}),  # a late report
    ],
)
def test_a_syncer_dates_the_hosts_that_disappeared_since_its_last_report(last, found):
    assert disappearances(last, ["a", "b"], 1100.0) == found
