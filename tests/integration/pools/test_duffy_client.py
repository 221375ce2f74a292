"""The released client of Duffy against a service and a worker: real machines, made by real playbooks."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from support.duffy import DuffyClient, lend_and_return
from support.machines import DataCentre
from support.manual import MANUAL
from support.service import running_service
from support.ssh_nodes import SshNodes, make_key
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.service.users.user import NewUser, Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.publishing import Publishing

EXAMPLES = MANUAL / "examples" / "pools"
TREE = "/demo\n  /hello : hello\n    version = '1.0'\n    /deploy\n      /h1\n"


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[DataCentre]:
    built = DataCentre.build(tmp_path / "centre")
    yield built
    for name in built.machines():
        built.delete(name)


@contextmanager
def running_worker(directory: Path, zookeeper: str, centre: DataCentre) -> Iterator[None]:
    """Run ``zkdeployment pools`` as a process of its own."""
    configuration = directory / "pools.cfg"
    configuration.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\n"
        f"[pools]\ninterval = 5s\nssh-key = {centre.key}\nssh-config = {centre.configuration}\n"
    )
    words = [sys.executable, "-m", "zkdeployment", "pools", str(configuration)]
    with (directory / "worker.log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as child:
        try:
            yield
        finally:
            child.terminate()
            assert child.wait() == 0, (directory / "worker.log").read_text()


def test_the_released_client_leases_real_machines_and_gives_them_back(
    tmp_path: Path, zookeeper: str, publishing: Publishing, centre: DataCentre
):
    text = (EXAMPLES / "pools.yaml").read_text(encoding="utf-8")
    text = text.replace("/srv/playbooks", str(EXAMPLES)).replace("/usr/local/bin/machines", str(centre.program))
    publishing.push(TREE, pools_yaml=text.replace("fill-level: 3", "fill-level: 1"))
    publishing.sync()
    key = make_key(tmp_path / "tenant")

    def admits(node: dict[str, Any]) -> bool:
        name = node["hostname"].partition(".")[0]
        nodes = SshNodes((), centre.configuration, centre.key)
        return (
            name in centre.machines() and nodes.login(centre.node(name), tmp_path / "tenant", "true").status == 0
        )

    with running_worker(tmp_path, zookeeper, centre), running_service(zookeeper) as service:
        new = NewUser(name="ci", role=Role.TENANT, ssh_key=key, node_quota=1)
        issued = service.adapters.users.add(new, Act("tests", "user", "a test", 0.0))
        client = DuffyClient.configured(tmp_path / "duffy.yaml", service.url, ("ci", issued.key))
        store = pool_adapters_of(service.adapters).store
        wait_until(lambda: NodeState.READY in {node.state for node in store.read().nodes.values()}, "a ready node")
        session = lend_and_return(client, "el9", 1, admits)
        refused = client.call("request-session", "pool=el9,quantity=2")
        assert "quota exceeded" in refused["error"]["detail"]
        number = session["nodes"][0]["id"]
        wait_until(lambda: (node := store.node(number)) is not None and not node.is_active, "the end of the node")
        assert f"node-{number}" not in centre.machines()
