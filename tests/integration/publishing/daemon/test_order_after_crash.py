"""The order between services after a syncer was interrupted in the middle of a large publication."""

import pytest

from support.publishing import Publishing
from zkdeployment.base.publication import OrderEntry
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.store.service_order import decode_entry
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session


def tree(host):
    others = "".join(f"  /n{number}\n    v = '{host}'\n" for number in range(12))
    return f"/shop\n  /x : foo\n    version = '1.0'\n    undeploy = 'last'\n    /deploy\n      /{host}\n{others}"


def publish_first(publishing):
    """Publish the service on the host a, which the host b is to get next."""
    publishing.push(tree("a"))
    publishing.sync()
    for host in "ab":
        publishing.register(host, str(publishing.version))


@pytest.mark.parametrize("crash", [1, 3])
def test_a_host_still_keeps_its_service_if_the_new_tree_was_half_published(
    publishing: Publishing, monkeypatch, crash
):
    publish_first(publishing)
    publishing.push(tree("b"))
    publishing.interrupt(monkeypatch, after=crash)
    publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
    assert_order(publishing)


@pytest.mark.parametrize("has_order", [True, False])
def test_the_next_publication_replaces_an_unfinished_order_that_has_the_same_sequence(
    publishing: Publishing, monkeypatch, has_order
):
    """The sequences follow the last one while it is ahead of the clock."""
    publish_first(publishing)
    targets = publishing.get("/zkdeployment/targets")
    ahead = targets["sequence"] + 3600
    publishing.put("/zkdeployment/targets", targets | {"sequence": ahead, "since": ahead})
    publishing.push(tree("b"))
    publishing.interrupt(monkeypatch, after=5)
    unfinished = paths.order_path(ahead + 1)
    assert publishing.client.exists(unfinished)
    publishing.put(f"{unfinished}/shop,gone", {})
    publishing.put(f"{unfinished}/shop,x", {})
    if not has_order:
        publishing.push(tree("b").replace("    undeploy = 'last'\n", ""))
    publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
    assert publishing.get("/zkdeployment/targets")["sequence"] == ahead + 1
    if has_order:
        assert publishing.client.get_children(unfinished) == ["shop,x"]
        assert_order(publishing)
    else:
        assert publishing.client.get_children("/zkdeployment/order") == []


def assert_order(publishing: Publishing):
    """The order has the service, for which its new host is awaited."""
    (sequence,) = publishing.client.get_children("/zkdeployment/order")
    with Session(publishing.zookeeper, session_timeout=6) as session:
        node = session.get(f"/zkdeployment/order/{sequence}/shop,x")
    assert decode_entry(node)[0] == OrderEntry(("b",), ("b",))
