"""A fleet with ZooKeeper credentials: all nodes that it creates are closed to other clients."""

import json
import os
import subprocess

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl_credential

from support.agents import Fleet, put_script
from support.forks import run_forked
from support.publishing import Publishing
from support.waiting import wait_until
from support.zookeeper import connected

PASSWORD = "p4ssw0rd-of-agents"
TREE = "/who\n  /myfoo : foo\n    version = '1.0'\n    /deploy\n      /h1\n"


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_forked(*map(str, arguments), env={**os.environ, **environment})


def below(client: KazooClient, path: str = "/") -> list[str]:
    """Return the paths of all nodes."""
    paths = [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
    return [node for child in paths for node in (child, *below(client, child))]


def test_a_revision_is_deployed_and_its_nodes_are_closed_to_other_clients(
    fleet: Fleet, publishing: Publishing, zookeeper: str
):
    revision = publishing.push(TREE)
    credentials = fleet.directory / "credentials"
    credentials.write_text(f"agents:{PASSWORD}\n")
    credentials.chmod(0o600)
    host = fleet.host("h1", zookeeper_credentials=str(credentials), zookeeper_plain_text="yes")
    with host.config.open("a") as config:
        config.write(f"[sync]\nurl = {publishing.repository.url}\ntree-directory = {fleet.directory}/tree\n")
    put_script(host.root, "foo")
    fleet.client.add_auth("digest", f"agents:{PASSWORD}")
    with host.process("--verbose"):
        host.wait_for_version("initial")
        synced = command("sync", str(host.config), "--verbose")
        assert synced.returncode == 0, synced.stderr
        wait_until(lambda: host.has_finished(revision), "the revision")
        shown = command("status", "-o", "json", ZKDEPLOYMENT_CONFIG=str(host.config))
        assert json.loads(shown.stdout)["converged"], shown.stderr
        stopped = command("stop", "--reason", "a test", "-z", zookeeper, "--config", str(host.config))
        assert stopped.returncode == 0, stopped.stderr
        denied = command("status", "-z", zookeeper, ZKDEPLOYMENT_CONFIG="")
        assert (denied.returncode, denied.stdout) == (3, "")
        assert "ZooKeeper does not allow to read" in denied.stderr
        ours = make_digest_acl_credential("agents", PASSWORD)
        nodes = below(fleet.client)
        assert {"/who/myfoo", "/hosts/h1", "/zkdeployment/audit"} <= {*nodes}
        for path in nodes:
            acls, _ = fleet.client.get_acls(path)
            assert [(entry.id.scheme, entry.id.id) for entry in acls] == [("digest", ours)], path
        with connected(zookeeper) as nobody, pytest.raises(NoAuthError):
            nobody.get("/hosts")
    for text in (host.log.read_text(), synced.stderr, shown.stderr, stopped.stderr, denied.stderr):
        assert PASSWORD not in text
