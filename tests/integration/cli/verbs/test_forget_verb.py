"""The verb forget on a real ZooKeeper: a service that runs nowhere is never hidden."""

from __future__ import annotations

import json

import pytest

from support.zookeeper import write_node
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.programs.main import main
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

ALONE = "the tree deploys /demo/worker to host3; remove it there, or use --force"
NOWHERE = "no host runs what the tree deploys to host3"


@pytest.fixture
def run(zookeeper, capsys, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "adm1")

    def call(verb: str, *argv: str):
        with pytest.raises(SystemExit) as end:
            main([verb, *argv, "-z", zookeeper])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


@pytest.fixture
def fleet(client, zookeeper):
    """A converged host, and the absent host3, to which the tree deploys a service."""
    client.create("/hosts", b'{"version": "r1"}')
    write_node(client, "/hosts/host1", {"name": "host1", "version": "r1"}, ephemeral=True)
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    worker = Assignment("/demo/worker", 1, "worker-1.0", "worker")
    client.create("/zkdeployment/targets/host3", json.dumps([worker.to_json()]).encode())
    with Session(zookeeper) as session:
        write_inventory(session, KnownHost(Identity("host3", "host3")))
        write_inventory(session, KnownHost(Identity("host4", "host4")))
        yield session


def test_a_host_to_which_the_tree_deploys_is_forgotten_only_by_force(run, fleet):
    assert run("status")[0] == 4

    code, out, err = run("forget", "host4", "host3", "--reason", "burnt")
    assert (code, out) == (3, "")
    assert ALONE in err
    assert read_acts(fleet) == ()
    assert "host4" in run("status")[1]

    assert run("forget", "host4") == (0, "forgot host4\n", "")
    assert run("forget", "host3", "--force", "--reason", "burnt") == (0, "forgot host3\n", "")
    assert [(act.by, act.what, act.reason) for act in read_acts(fleet)] == [
        ("ann@adm1", "forget host4", ""),
        ("ann@adm1", "forget host3 --force", "burnt"),
    ]

    # The services of the machine may still run.
    assert run("services")[1].startswith("/demo/worker: worker-1.0; on no known host\n")
    code, out, _ = run("status")
    assert (code, NOWHERE in out) == (4, True)
    code, out, _ = run("status", "--wait")
    assert (code, NOWHERE in out) == (4, True)
    document = json.loads(run("status", "-o", "json")[1])
    assert (document["converged"], document["unserved"]) == (False, ["host3"])
    assert run("status", "host1")[0] == 0
    code, out, _ = run("monitor", "--cluster")
    assert (code, NOWHERE in out) == (1, True)


def test_a_forgotten_host_leaves_no_maintenance(run, fleet):
    assert run("cordon", "host1", "host4", "--reason", "new disk")[0] == 0
    assert run("forget", "host4") == (0, "forgot host4\n", "")
    assert fleet.children(paths.MAINTENANCE) == ["host1"]
