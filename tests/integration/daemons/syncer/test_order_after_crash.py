"""The order between services after a syncer was interrupted in the middle of a large publication."""

import pytest

from support.publishing import Publishing
from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.publication import builder
from zkdeployment.adapters.zookeeper.publication.service_order import decode_entry
from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
from zkdeployment.daemons.syncer.syncer import Syncer
from zkdeployment.model.publication import GuardOverrides, OrderEntry, SyncOptions

OPTIONS = {"force": True, "overrides": GuardOverrides(mass_removal=True)}


class InterruptedSyncError(Exception):
    """The end of a syncer."""


def tree(host):
    others = "".join(f"  /n{number}\n    v = '{host}'\n" for number in range(12))
    return f"/shop\n  /x : foo\n    version = '1.0'\n    undeploy = 'last'\n    /deploy\n      /{host}\n{others}"


@pytest.mark.parametrize("crash", [1, 3])
def test_a_host_still_keeps_its_service_if_the_new_tree_was_half_published(
    publishing: Publishing, monkeypatch, crash
):
    publishing.push(tree("a"))
    publishing.sync()
    for host in "ab":
        publishing.register(host, str(publishing.version))
    publishing.push(tree("b"))
    monkeypatch.setattr(builder, "OPERATIONS_LIMIT", 5)
    commits = []

    def reach(place):
        if place == "before:commit":
            commits.append(place)
            if len(commits) > crash:
                raise InterruptedSyncError

    with Session(publishing.zookeeper, session_timeout=6) as session:
        store = ZooKeeperPublications(session, identity="c", reach=reach)
        syncer = Syncer(publishing.source(), store, SystemClock(), publishing.memory())
        with pytest.raises(InterruptedSyncError):
            syncer.sync(SyncOptions(**OPTIONS))
    publishing.sync(**OPTIONS)
    (sequence,) = publishing.client.get_children("/zkdeployment/order")
    with Session(publishing.zookeeper, session_timeout=6) as session:
        node = session.get(f"/zkdeployment/order/{sequence}/shop,x")
    assert decode_entry(node)[0] == OrderEntry(("b",), ("b",))
