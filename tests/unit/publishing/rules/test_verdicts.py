"""Whether the tip of a branch is published."""

from __future__ import annotations

import pytest

from zkdeployment.base.cluster import INITIAL, Cluster, Revision
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.publication import Published
from zkdeployment.publishing.rules.convergence import PublicationSnapshot, PublishedState
from zkdeployment.publishing.rules.verdicts import PublicationVerdict, is_stopped, is_up_to_date, judge


def host(host_id: str, version: str | None) -> Host:
    return Host(Identity(host_id, f"{host_id}.example.com"), version=version)


def verdict_on(
    tip: Revision,
    cluster: Cluster | None,
    hosts: list[Host],
    *,
    published: Revision | None,
    force: bool = False,
    held: bool = False,
) -> PublicationVerdict:
    snapshot = PublicationSnapshot(cluster, Published(published), hosts=hosts, held_by_operator=held)
    return judge(snapshot, tip, force=force)


AT_R1, AT_R0, NEW = host("a", "r1"), host("b", "r0"), host("c", None)


@pytest.mark.parametrize(
    ("cluster", "hosts", "published", "force", "verdict"),
    [
        (None, [], None, False, PublicationVerdict.PUBLISH),
        (Cluster(INITIAL), [], None, False, PublicationVerdict.PUBLISH),
        (Cluster(INITIAL), [NEW], None, False, PublicationVerdict.NOT_CONVERGED),
        (Cluster("r1"), [AT_R1], "r1", False, PublicationVerdict.PUBLISH),
        (Cluster("r1"), [AT_R1, AT_R0], "r1", False, PublicationVerdict.NOT_CONVERGED),
        (Cluster("r1"), [AT_R1, NEW], "r1", False, PublicationVerdict.NOT_CONVERGED),
        (Cluster("r1"), [AT_R1, AT_R0], "r1", True, PublicationVerdict.PUBLISH),
        (Cluster("r2"), [], "r2", False, PublicationVerdict.PUBLISH),
        (Cluster("r2"), [AT_R1], "r2", False, PublicationVerdict.NOT_CONVERGED),
        (Cluster("r2"), [AT_R1], "r2", True, PublicationVerdict.PUBLISH),
        (Cluster("r2"), [AT_R1], None, False, PublicationVerdict.PUBLISH),
        (Cluster("r2"), [AT_R1], "r1", False, PublicationVerdict.PUBLISH),
        (Cluster("r1", importing="r2"), [AT_R0], None, False, PublicationVerdict.PUBLISH),
        (Cluster("r2", importing="r2"), [AT_R0], None, False, PublicationVerdict.PUBLISH),
        (Cluster(None), [AT_R0], "r1", True, PublicationVerdict.PUBLISH),
        (Cluster(False), [AT_R0], "r1", False, PublicationVerdict.PUBLISH),
        (Cluster(False), [AT_R0], "r2", False, PublicationVerdict.PUBLISH),
    ],
)
def test_whether_the_tip_r2_is_published(
    cluster: Cluster | None, hosts: list[Host], published: str | None, force: bool, verdict: PublicationVerdict
):
    assert verdict_on("r2", cluster, hosts, published=published, force=force) is verdict


@pytest.mark.parametrize(
    ("cluster", "tip", "published", "force", "verdict"),
    [
        (Cluster(False), "r1", "r1", False, PublicationVerdict.UP_TO_DATE),
        (Cluster(False), "r2", "r1", False, PublicationVerdict.PUBLISH),
        (Cluster(False), "r1", None, False, PublicationVerdict.PUBLISH),
        (Cluster(False), "r1", "r1", True, PublicationVerdict.PUBLISH),
        (Cluster(False, importing="r1"), "r1", "r1", False, PublicationVerdict.PUBLISH),
    ],
)
def test_a_hold_of_an_operator_lasts_until_there_is_a_new_tip(cluster, tip, published, force, verdict):
    assert verdict_on(tip, cluster, [AT_R0], published=published, force=force, held=True) is verdict


@pytest.mark.parametrize(
    ("cluster", "tip", "published", "up_to_date"),
    [
        (Cluster("r2"), "r2", "r2", True),
        (Cluster(7), 7, 7, True),
        (Cluster(7), 8, 7, False),
        (Cluster("r2"), "r2", "r1", False),
        (Cluster("r2"), "r2", None, False),
        (Cluster("r2", importing="r2"), "r2", "r2", False),
        (Cluster(False), "r2", "r2", False),
        (None, "r2", "r2", False),
    ],
)
def test_a_tip_is_up_to_date_if_its_publication_was_completed(cluster, tip, published, up_to_date):
    assert is_up_to_date(PublishedState(cluster, Published(published)), tip) is up_to_date


def test_nothing_is_published_while_all_is_stopped_unless_forced():
    assert is_stopped(Cluster(None))
    assert is_stopped(Cluster(None, importing="r2"))
    assert not is_stopped(Cluster(None), force=True)
    assert not is_stopped(Cluster(False))
    assert not is_stopped(None)
