"""Hosts are lent to tenants in a sandbox: hosts of the fleet as the manual shows, and machines of playbooks."""

import json
import re
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from support.manual import MANUAL, blocks, commands
from support.pools.machines import DataCentre
from support.pools.ssh_nodes import make_key
from support.sandboxes import SANDBOX, SandboxCommands, opened_shell
from support.waiting import wait_until
from zkdeployment.base.machine import process
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.processes import sandbox_processes

EXAMPLES = MANUAL / "examples" / "pools"

*TOUR, EXIT, DOWN = [command for command in commands("pools") if command.prompt == "$"]

#: What the manual shows of the client of Duffy.
DUFFY = [line.split() for _, block in blocks("pools", "sh") for line in block.splitlines() if line[:6] == "duffy "]

VERBS = {"list-pools", "show-pool", "request-session", "list-sessions", "show-session", "retire-session"}

# The tests in ``integration/pools`` run in every commit: the same client, worker, playbooks and changes of roles.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def shell(place):
    """Return a shell in which the page about pools was followed up to its end."""
    with opened_shell(place) as shell:
        for command in TOUR:
            shell.show(command)
        yield shell


@pytest.fixture(scope="module")
def box(shell):
    """Return the sandbox of the shell."""
    return SandboxCommands(shell.directory.parent / SANDBOX)


@pytest.fixture(scope="module")
def centre(place):
    """Return a data centre without machines."""
    return DataCentre.build(place / "centre")


@pytest.fixture(scope="module")
def tenant_key(place):
    """Return the file of a tenant's private key."""
    make_key(place / "team_key")
    return place / "team_key"


@pytest.fixture(scope="module")
def duffy(shell, box, place, centre, tenant_key):
    """Return the client of Duffy, as the manual configures it, for a sandbox that lends machines of playbooks."""
    with Path(box.status["config"]).open("a") as configuration:
        configuration.write(f"[pools]\nssh-key = {centre.key}\nssh-config = {centre.configuration}\n")
    box.sandbox("stop", "pools")
    box.sandbox("start", "pools")
    document = (EXAMPLES / "pools.yaml").read_text(encoding="utf-8").replace("fill-level: 3", "fill-level: 1")
    document = document.replace("/srv/playbooks", str(EXAMPLES)).replace(
        "/usr/local/bin/machines", str(centre.program)
    )
    (shell.directory / "tree/pools.yaml").write_text(document, encoding="utf-8")
    Sandbox(box.directory).push(shell.directory / "tree", "machines")
    added = box.zkdeployment(
        "user", "add", "team", "--role", "tenant", "--ssh-key", f"{tenant_key}.pub", "-o", "json"
    )
    key = json.loads(added.stdout)["key"]
    server = box.status["server"]
    client = (EXAMPLES / "duffy-client.yaml").read_text(encoding="utf-8")
    client = client.replace("https://deploy.example.com", server["url"]).replace("name: ci", "name: team")
    configuration = place / "duffy.yaml"
    configuration.write_text(re.sub("key: .*", f"key: {key}", client))

    def run(*words):
        program = Path(sys.executable).parent / "duffy"
        done = process.run([str(program), "-c", str(configuration), *map(str, words)])
        return json.loads(done.check().stdout)

    return run


def test_a_host_of_the_fleet_is_lent_and_clean_afterwards_as_documented(box):
    """The page ends with a retired session; then the host is in its pool again."""
    wait_until(lambda: states(box) == ["ready", "unused"], "the pool is filled again")
    for host in ("host1", "host2"):
        keys = box.root(host) / "root/.ssh/authorized_keys"
        assert not keys.exists() or keys.read_text() == ""
    ready = next(node for node in nodes(box) if node["state"] == "ready")
    deployed = {host: (box.root(host) / "opt/hello").exists() for host in ("host1", "host2")}
    assert deployed == {host: ready["host"] == host for host in deployed}
    assert answering_hosts(box) == [ready["hostname"]]
    assert box.zkdeployment("status").returncode == 0


def answering_hosts(box):
    """Return the names of the hosts whose instances of hello answer."""
    shown = json.loads(box.zkdeployment("services", "/demo/hello", "-o", "json").stdout)
    (service,) = shown["services"]
    return [httpx.get(f"http://{address}/", timeout=None).json()["host"] for address in service["providers"]]


def nodes(box):
    """Return the nodes of all pools that are not done."""
    return json.loads(box.zkdeployment("node", "list", "-o", "json").stdout)["nodes"]


def states(box):
    """Return the states of the nodes, sorted."""
    return sorted(node["state"] for node in nodes(box))


def test_the_client_of_duffy_leases_machines_that_playbooks_make_and_remove(duffy, box, centre, tenant_key):
    wait_until(lambda: ready(box, "el9"), "playbooks made a machine")
    (first,) = centre.machines()
    shown = {words[2]: words[3:] for words in DUFFY}
    assert {pool["name"] for pool in duffy("client", "list-pools")["pools"]} == {"el9", "web"}
    assert duffy("client", "show-pool", *shown["show-pool"])["pool"]["levels"]["ready"] == 1
    session = duffy("client", "request-session", *shown["request-session"])["session"]
    (node,) = session["nodes"]
    assert (node["ipaddr"], node["state"]) == (centre.node(first).address, "deployed")
    (listed,) = duffy("client", "list-sessions")["sessions"]
    assert listed["id"] == session["id"] == duffy("client", "show-session", session["id"])["session"]["id"]
    assert shown.keys() == VERBS

    login = ["ssh", "-F", str(centre.configuration), "-i", str(tenant_key), "-o", "IdentitiesOnly=yes"]
    assert process.run([*login, "-l", "root", node["ipaddr"], "id", "-u"]).check().stdout == "0\n"

    ended = duffy("client", "retire-session", session["id"])["session"]
    assert (ended["active"], ended["retired_at"] is None) == (False, False)
    wait_until(lambda: first not in centre.machines(), "a playbook removed the machine")
    wait_until(lambda: ready(box, "el9"), "playbooks made another machine")
    (second,) = centre.machines()
    assert second != first


def ready(box, pool):
    """Return the addresses of the nodes of a pool that are ready."""
    return {node["ipaddr"] for node in nodes(box) if (node["pool"], node["state"]) == (pool, "ready")}


def test_nothing_is_left_after_the_last_command_of_the_page(shell, box, centre):
    shell.show(EXIT)
    shell.show(DOWN)
    assert (sandbox_processes(box.directory), box.directory.exists()) == ([], False)
    commands_left = [found.info["cmdline"] for found in psutil.process_iter(["cmdline"])]
    assert [found for found in commands_left if str(centre.directory) in " ".join(found or ())] == []
