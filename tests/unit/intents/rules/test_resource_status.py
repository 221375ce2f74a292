"""The two tables of statuses."""

import itertools

import pytest

from zkdeployment.intents.rules.reality import (
    CLUSTER_RULES,
    RSYNC_RULES,
    ClusterStatus,
    ResourceFacts,
    RsyncStatus,
    cluster_status,
    rsync_status,
)


def facts(*, wanted=True, failed=False, recorded=False, marker=False, present=True, seen=True):
    return ResourceFacts(wanted, failed, recorded, marker, present, seen)


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (facts(failed=True, recorded=True), RsyncStatus.FAILED),
        (facts(wanted=False, failed=True), RsyncStatus.FAILED),
        (facts(recorded=True), RsyncStatus.APPLIED),
        (facts(recorded=True, present=False), RsyncStatus.APPLIED),
        (facts(wanted=False, recorded=True), RsyncStatus.TERMINATED),
        (facts(wanted=False, present=False), RsyncStatus.TERMINATED),
        (facts(wanted=False, marker=True, present=False), RsyncStatus.RETRYING),
        (facts(present=False), RsyncStatus.RETRYING),
        (facts(), RsyncStatus.PENDING),
        (facts(wanted=False, marker=True), RsyncStatus.PENDING),
        (facts(wanted=False, marker=None), RsyncStatus.PENDING),
        (facts(marker=None, present=False, seen=False), RsyncStatus.RETRYING),
        (facts(wanted=False, marker=None, present=False, seen=False), RsyncStatus.TERMINATED),
    ],
)
def test_the_first_matching_rule_decides_the_outcome(found, status):
    assert rsync_status(found) is status


@pytest.mark.parametrize(
    ("marker", "status"),
    [(None, ClusterStatus.UNKNOWN), (False, ClusterStatus.NOT_PRESENT), (True, ClusterStatus.PRESENT)],
)
def test_the_inventory_decides_whether_a_resource_exists(marker, status):
    assert cluster_status(facts(marker=marker)) is status


def test_every_combination_of_facts_has_a_status_and_every_status_has_a_rule():
    some = (True, False)
    for wanted, failed, recorded, marker, present in itertools.product(some, some, some, (*some, None), some):
        found = facts(wanted=wanted, failed=failed, recorded=recorded, marker=marker, present=present)
        assert rsync_status(found) in RsyncStatus
    assert {status for status, _, _ in RSYNC_RULES} == set(RsyncStatus)
    assert {status for status, _ in CLUSTER_RULES.values()} == set(ClusterStatus)
