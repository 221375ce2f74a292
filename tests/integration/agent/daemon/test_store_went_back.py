"""ZooKeeper was wiped or restored from an old backup: no deployment starts until the next publication."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NotEmptyError
from structlog.testing import capture_logs

from support.agents import put_script
from support.waiting import wait_until
from zkdeployment.base.errors import AllStopError, StalePublicationError
from zkdeployment.publishing.records import SyncOptions

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from support.agents import AgentHost, Fleet
    from support.publishing import Publishing

TREE = """\
/who
  /web : foo
    version = '{version}'
    /deploy
      /h1
        n = 1
"""


def backup(client: KazooClient, path: str = "") -> dict[str, bytes]:
    """Return all nodes that are not ephemeral, parents first."""
    nodes = {}
    for name in client.get_children(path or "/"):
        child = f"{path}/{name}"
        data, stat = client.get(child)
        if name != "zookeeper" and not stat.ephemeralOwner:
            nodes |= {child: data, **backup(client, child)}
    return nodes


def wipe(client: KazooClient) -> None:
    """Delete all nodes."""
    for name in client.get_children("/"):
        if name != "zookeeper":
            delete(client, f"/{name}")


def delete(client: KazooClient, path: str) -> None:
    """Delete a node and all nodes below it, also those that an agent creates meanwhile."""
    while True:
        with suppress(NotEmptyError):
            client.delete(path, recursive=True)
            return


def restore(client: KazooClient, nodes: dict[str, bytes]) -> None:
    """Restore all nodes of a backup."""
    for path in backup(client).keys() - nodes.keys():
        delete(client, path)
    for path, data in reversed(nodes.items()):  # so that /hosts, which agents watch, is not restored last
        client.ensure_path(path)
        client.set(path, data)


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    return fleet.host("h1")


@pytest.fixture
def saved(publishing: Publishing, client: KazooClient, host: AgentHost) -> dict[str, bytes]:
    """A host at version 1.1, and a backup from when it was at 1.0."""
    publishing.push(TREE.format(version="1.0"))
    publishing.sync()
    with host.agent():
        wait_until(lambda: host.has_finished(publishing.version), "the first version")
        old = backup(client)
        publishing.push(TREE.format(version="2.0"))
        publishing.sync()
        wait_until(lambda: host.has_finished(publishing.version), "the second version")
    return old


def remembered(host: AgentHost) -> object:
    return json.loads((host.lasting / "published").read_text())["sequence"]


@pytest.mark.parametrize("how", ["wiped", "restored"])
def test_an_agent_refuses_a_store_that_went_back_until_the_next_publication(
    fleet, host, publishing, saved, client, how
):
    calls, latest = fleet.calls(), publishing.version
    with host.agent():
        wait_until(lambda: host.has_finished(latest), "the agent registers")
        sequence = remembered(host)
        wipe(client)
        if how == "restored":
            restore(client, saved)
        wait_until(lambda: "the store went back" in host.node.get("error", ""), "the agent refuses")
        assert f"expected publication {sequence}" in host.node["error"]
        assert "sync --force" in host.node["error"]
        wait_until(lambda: host.status == "error", "the status")
        assert fleet.calls() == calls
        assert publishing.version is not None
        with pytest.raises(StalePublicationError, match="the store went back"):
            publishing.sync()
        publishing.sync(force=True)
        assert publishing.version == latest
        wait_until(lambda: host.has_finished(latest) and "error" not in host.node, "the agent continues")
        assert fleet.calls() == calls
        assert remembered(host) > sequence
        newer = publishing.push(TREE.format(version="1.0"))
        publishing.sync()
        wait_until(lambda: host.has_finished(newer), "the next version")


def test_an_agent_that_starts_on_a_store_that_went_back_refuses(host, publishing, saved, client):
    latest = publishing.version
    restore(client, saved)
    put_script(host.root, "foo")
    for options in (["--run-once"], ["--dry-run"]):
        done = host.command(*options)
        assert done.returncode == 3
        assert "the store went back" in done.stderr
    assert json.loads((host.run / "host_version").read_text()) == latest
    with host.agent():
        wait_until(lambda: "the store went back" in host.node.get("error", ""), "the agent refuses")
    publishing.sync(force=True)
    with host.agent():
        wait_until(lambda: host.has_finished(latest), "the agent continues")
        assert "error" not in host.node


def test_a_host_refuses_a_store_that_went_back_also_after_a_boot(fleet, host, saved, client):
    restore(client, saved)
    calls = fleet.calls()
    shutil.rmtree(host.run)
    with host.agent():
        wait_until(lambda: "the store went back" in host.node.get("error", ""), "the agent refuses")
    assert fleet.calls() == calls


def test_a_version_set_by_hand_is_refused_too_on_a_store_that_went_back(fleet, host, saved, client):
    restore(client, saved)
    calls = fleet.calls()
    fleet.set_version("by hand")
    with host.agent():
        wait_until(lambda: "the store went back" in host.node.get("error", ""), "the agent refuses")
        assert fleet.calls() == calls
        assert fleet.version == "by hand"


@pytest.mark.usefixtures("saved")
def test_a_version_set_by_hand_is_deployed_while_the_store_has_the_known_publication(fleet, host):
    with host.agent():
        fleet.set_version("by hand")
        wait_until(lambda: host.has_finished("by hand"), "the version set by hand")
        assert "error" not in host.node
        assert fleet.version == "by hand"


def test_a_syncer_detects_an_older_store_by_publications_of_other_syncers(publishing, saved, client):
    with publishing.syncer("other") as other:
        other.sync()
    restore(client, saved)
    with publishing.syncer("other") as other:
        with pytest.raises(StalePublicationError, match="went back"):
            other.sync()
        with pytest.raises(StalePublicationError, match="went back"):
            other.preview()
        other.sync(SyncOptions(force=True))
        other.sync()


def test_a_store_that_went_back_to_a_stop_is_reported_as_a_store_that_went_back(publishing, saved, client):
    restore(client, {**saved, "/hosts": b'{"version": null}'})
    with pytest.raises(StalePublicationError):
        publishing.sync()
    publishing.sync(force=True)
    publishing.put("/hosts", {"version": None})
    with pytest.raises(AllStopError):
        publishing.sync()


def test_a_refusal_is_logged_once(host, publishing, saved, client):
    restore(client, saved)
    with capture_logs() as logs, host.agent():
        wait_until(lambda: "the store went back" in host.node.get("error", ""), "the agent refuses")
        publishing.put("/hosts", {"version": "another"})
        publishing.sync(force=True)
        wait_until(lambda: "error" not in host.node, "the agent continues")
    assert len([line for line in logs if line["event"] == "deployment-refused"]) == 1
