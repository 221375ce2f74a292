"""The order between services after a syncer was interrupted in the middle of a large publication."""

import pytest

from support.publishing import Publishing
from zkdeployment.base.publication import OrderEntry
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.store.service_order import decode_entry
from zkdeployment.zookeeper.session import Session


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
    publishing.interrupt(monkeypatch, after=crash)
    publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
    (sequence,) = publishing.client.get_children("/zkdeployment/order")
    with Session(publishing.zookeeper, session_timeout=6) as session:
        node = session.get(f"/zkdeployment/order/{sequence}/shop,x")
    assert decode_entry(node)[0] == OrderEntry(("b",), ("b",))
