"""The released client of Duffy against a service and a worker: real machines, made by real playbooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.manual import MANUAL
from support.pools.machines import DataCentre
from support.pools.ssh_nodes import SshNodes, make_key
from support.service import running_service
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.base.machine import process
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.service.users.user import NewUser, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.publishing import Publishing


_EXAMPLE = MANUAL / "examples" / "pools" / "duffy-client.yaml"
_PROGRAM = Path(sys.executable).with_name("duffy")


@dataclass(frozen=True, slots=True)
class DuffyClient:
    """The client with its configuration file."""

    configuration: Path

    @classmethod
    def configured(cls, file: Path, url: str, login: tuple[str, str]) -> DuffyClient:
        """Write the file of the manual with the URL of a service, and the name and the key of a tenant."""
        name, key = login
        text = _EXAMPLE.read_text(encoding="utf-8")
        for example, value in (
            ("https://deploy.example.com", url),
            ("name: ci", f"name: {name}"),
            ("00000000-0000-4000-8000-000000000000", key),
        ):
            assert example in text, f"expected {example} in {_EXAMPLE}"
            text = text.replace(example, value)
        file.write_text(text)
        return cls(file)

    def call(self, *arguments: str) -> Any:
        """Return the answer to a request."""
        return json.loads(self.printed("json", *arguments))

    def printed(self, form: str, *arguments: str) -> str:
        """Return what the client prints in one of its formats."""
        words = [str(_PROGRAM), "-c", str(self.configuration), "client", "--format", form, *arguments]
        return process.run(words, env=dict(os.environ)).check().stdout


def lend_and_return(
    client: DuffyClient, pool: str, quantity: int, admits: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Lease ready nodes of a pool with every request of the client, give them back, and return the session.

    ``admits`` is whether a node, given as the answers show it, admits the tenant as root.
    """
    assert pool in [listed["name"] for listed in client.call("list-pools")["pools"]]
    shown = client.call("show-pool", pool)["pool"]
    assert (shown["name"], shown["levels"]["ready"] >= quantity) == (pool, True)
    asked = client.call("request-session", f"pool={pool},quantity={quantity}")
    assert asked.get("action") == "post", asked
    session: dict[str, Any] = asked["session"]
    assert session["active"]
    assert [(node["pool"], node["state"]) for node in session["nodes"]] == [(pool, "deployed")] * quantity
    assert all(admits(node) for node in session["nodes"])
    number = str(session["id"])
    assert client.call("list-sessions")["sessions"] == [session]
    shown = client.printed("flat", "show-session", number)
    assert all(f"ipaddr='{node['ipaddr']}'" in shown for node in session["nodes"]), shown
    ended = client.call("retire-session", number)
    assert (ended["action"], ended["session"]["active"]) == ("put", False)
    assert client.call("list-sessions") == {"action": "get", "sessions": []}
    again = client.call("retire-session", number)
    assert again == {"error": {"detail": f"session {number} is retired"}}
    wait_until(lambda: not any(admits(node) for node in session["nodes"]), "the end of the tenant's access")
    return session


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


@pytest.mark.nightly  # test_leasing_api.py has the requests and answers of Duffy
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
