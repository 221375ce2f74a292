"""A fleet with all features shows and leaves the recorded JSON, znodes, files and answers.

The fleet deploys by a strategy, with a role's controller, an intent, a check and its monitoring system, a lent
host, and providers with a filter. At the end a script fails, which stops it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import zlib
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from kazoo.exceptions import NoNodeError

from support.hosts.rpms import build_rpm
from support.pools.ssh_nodes import make_key
from support.recordings import shape
from support.sandboxes import PROGRAMS
from support.service import form_token
from support.waiting import UNLIMITED, wait_until
from support.zookeeper import connected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from support.sandboxes import SandboxCommands

pytestmark = [pytest.mark.timeout(900), pytest.mark.all_features]

HOSTS = """\
host1: {tags: [canary], rack: r1, labels: {site: ams}}
host2: {role: web}
host3: {role: "lease:spare"}
"""

TREE = """\
/demo
  /texts
    greeting = 'hello'
  /hello : hello
    version = '%s'
    greeting => ../texts greeting
    /providers
    /deploy
      /host1
        n = 2
      /ci-web
  /worker : worker
    version = '2.0'
    queue = 'letters'
    /providers
    /deploy
      /web
/roles
  /web : bracket
    version = '1'
"""

DOCUMENTS = {
    "strategy.yaml": """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - name: canary
      critical: true
      depends_on: []
      selectors: [{node_tags: [canary]}]
      success_criteria: {percent_successful_nodes: 100}
    - name: rest
      critical: false
      depends_on: [canary]
      selectors: []
      success_criteria: {maximum_failed_nodes: 1}
""",
    "intents.yaml": """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: letters}
data:
  composite-profile: plain
  apps: {worker: [/demo/worker]}
  state: Created
""",
    "checks.yaml": """\
schema: zkdeployment/MonitoringSystem/v1
metadata: {name: nagios1}
data: {}
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: greeting}
data:
  object: /demo/hello
  monitoring: nagios1
  interval: 60
  check: {command: check_dummy, arguments: ["0", "{property.greeting}"]}
""",
    "pools.yaml": """\
schema: zkdeployment/Pools/v1
metadata: {name: pools}
data:
  nodepools:
    concrete:
      web:
        fill-level: 1
        mechanism: {type: role, role: {idle: spare, leased: ci-web}}
""",
}

SCRIPT = "#!/bin/sh\necho deployed\n"
PACKAGES = (
    ("hello", "1.0", SCRIPT),
    ("worker", "2.0", SCRIPT),
    ("hello", "9.9", "#!/bin/sh\necho no >&2\nexit 3\n"),
)
LETTERS = "p1/store/v1/letters"

#: What differs from run to run, and what stands for it.
VARYING = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r"[0-9a-f]{32}__lock__\d*", "LOCK"),
        (r"(instances|results)/[0-9a-f]{3}$", r"\1/BUCKET"),
        (r"[0-9a-f]{64}", "DIGEST"),
        (r"[0-9a-f]{40}", "REVISION"),
        (re.escape(socket.gethostname()) + r"|" + re.escape(socket.getfqdn()), "MACHINE"),
        (r"MACHINE(\W+|%[0-9A-F]{2})*(process|%20)?.*", "PROCESS"),
        (r"\d{8}T\d{6}\.\d+Z", "TIME"),
        (r"host\d", "HOST"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"(?<![a-zA-Z.])[0-9a-f]{6,}(?![a-zA-Z])|\d{6,}", "ID"),
        (r"(?<=^)\d+(?=$)|(?<=/)\d+(?=$|/)", "N"),
    )
]


def steady(text: str) -> str:
    """Return a text in which names replace the values that differ from run to run."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text


#: The verbs that print an object for programs, on the fleet that converged; {} stands for names of that fleet.
VERBS = """
status
status host1
why host1
services
services /demo/hello
locks
history
history show {revision}
plan {tree}
tree show
tree diff
providers /demo/hello/providers
rollout show
verify
quarantine list
intent list
intent show {intent}
intent diff {intent}
intent history {intent}
intent instances {intent}
intent status {intent}
checks list
checks show greeting
checks instances
checks summary
checks drift
checks on-call
checks preview {tree}/checks.yaml
checks diff {revision}
checks allow-removal --system nagios1 --reason test
pool list
pool show web
pool fill web
node list
node log {node}
session list
session show {session}
session extend {session} --by 1h
session retire {session}
session history
node drain {node}
user list
user reset-key nagios1
sandbox status -d {directory}
""".strip().splitlines()

#: The verbs that show a failure.
AFTER_A_FAILURE = ("status", "why host1", "history", "rollout show", "services", "locks")

#: The answers that do not end.
STREAMS = {"/api/v1/events"}

#: The parameters that an operation needs.
QUERIES = {"/api/v1/discovery/prometheus": {"service": "/demo/hello"}}

#: ZooKeeper's own node, and one that exists only while the job has work.
NOT_NOTED = {"/zookeeper", "/zkdeployment/checks/due"}

#: The name of a file that is to replace another one, as ``files.replace`` makes it.
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")


@dataclass
class RecordedFleet:
    """A sandbox in which each feature has done its work, and the facts that were found in it."""

    box: SandboxCommands
    place: Path
    facts: dict[str, set[str]] = field(default_factory=dict)

    def act(self, *words: str) -> str:
        """Run a verb that has to succeed, and return its output."""
        done = self.box.zkdeployment(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        """Return the object that a verb prints."""
        return json.loads(self.act(*words, "-o", "json"))

    def note(self, name: str, facts: Iterable[str]) -> None:
        """Add facts to a recording."""
        self.facts.setdefault(name, set()).update(facts)

    def push(self, version: str) -> str:
        """Push the tree with a version of hello, and the unchanged documents of the branch."""
        documents = {name: self.at_tip(name) or text for name, text in DOCUMENTS.items()}
        return self.box.push(TREE % version, f"hello {version}", documents)

    def at_tip(self, name: str) -> str:
        """Return a file at the tip of the branch; empty if the file does not exist."""
        show = ["git", "--git-dir", self.box.status["tree"], "show", f"main:{name}"]
        return subprocess.run(show, capture_output=True, text=True, check=False).stdout

    def note_verbs(self, verbs: Iterable[str], suffix: str = "", **names: str) -> None:
        """Note the exit code and the shape of what verbs print."""
        for verb in verbs:
            done = self.box.zkdeployment(*(word.format(**names) for word in verb.split()), "-o", "json")
            lines = {f"{verb}{suffix}: exit code = {done.returncode}"}
            if done.stdout:
                printed = json.loads(done.stdout)
                lines |= shape(printed, f"{verb}{suffix}: ", steady)
                if isinstance(printed, dict) and "schema" in printed:
                    lines.add(f"{verb}{suffix}: schema = {printed['schema']}")
            self.note("json", lines)

    def note_nodes(self) -> None:
        """Note each node of ZooKeeper with the shape of its data and its access list."""
        with connected(self.box.status["zookeeper"]) as client:
            self._note_node(client, "/")

    def _note_node(self, client: Any, path: str) -> None:
        data, stat = client.get(path)
        place = steady(path)
        rights = [f"{entry.id.scheme}:{entry.perms}" for entry in client.get_acls(path)[0]]
        self.note("znodes", [f"{place}: {'ephemeral' if stat.ephemeralOwner else 'persistent'}, access {rights}"])
        # Whether a commit waits for the publication of another one depends on the pace of the syncer.
        shape = data_shape(data, f"{place} = ")
        self.note("znodes", [line for line in shape if not line.startswith("/zkdeployment/syncer = .waiting")])
        for name in client.get_children(path):
            below = f"{path.rstrip('/')}/{name}"
            if below not in NOT_NOTED:
                with suppress(NoNodeError):  # a daemon has removed it since
                    self._note_node(client, below)

    def note_files(self) -> None:
        """Note the mode of each file that the programs wrote, and the shape of JSON content."""
        box = self.box.directory
        roots = ("var/lib/zkdeployment", "var/log/zkdeployment", "etc", "root/.ssh")
        places = [box / "hosts" / host / "root" / root for host in ("host1", "host2", "host3") for root in roots]
        places += [box / "hosts" / host / "run" for host in ("host1", "host2", "host3")]
        for place in places:
            for file in sorted([place, *place.rglob("*")]):
                if "packages" not in file.parts and not TEMPORARY.fullmatch(file.name):
                    self._note_file(file)
        for file in [*box.glob("sandbox.*"), *(box / "syncer").glob(".tree.*")]:
            if file.name != ".tree.unfinished":  # exists only while the syncer works
                self._note_file(file)

    def _note_file(self, file: Path) -> None:
        place = steady(str(file.relative_to(self.box.directory)))
        with suppress(FileNotFoundError):  # a daemon has removed it since
            kind = "directory" if file.is_dir() else "file"
            self.note("files", [f"{place}: {kind} {file.stat().st_mode & 0o7777:o}"])
            if kind == "file":
                self.note("files", data_shape(file.read_bytes(), f"{place} = "))

    def note_answers(self, client: httpx.Client) -> None:
        """Note the answer of each operation that needs no names in its path, and where the pages lead."""
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            if "get" in methods and "{" not in path and path not in STREAMS:
                answer = client.get(path, params=QUERIES.get(path))
                self.note("answers", [f"GET {path}: {answer.status_code} {answer.headers.get('content-type')}"])
                if answer.headers.get("content-type", "").startswith("application/json"):
                    self.note("answers", shape(answer.json(), f"GET {path}: ", steady))


def data_shape(data: bytes, place: str) -> set[str]:
    """Return the shape of JSON, which may be compressed, or whether there is text."""
    if not data:
        return {f"{place}empty"}
    try:
        return shape(json.loads(zlib.decompress(data) if data[:1] == b"x" else data), place, steady)
    except (ValueError, zlib.error):
        return {f"{place}text"}


@pytest.fixture(scope="module")
def fleet(make_box: Any, place: Path) -> Iterator[RecordedFleet]:
    hosts = place / "hosts.yaml"
    hosts.write_text(HOSTS, encoding="utf-8")
    box = make_box("recorded")
    box.up("--hosts", hosts, "--server")
    bracket = ("bin/starting-deployments", "bin/ending-deployments")
    packages = [build_rpm(place, name, version, script=script) for name, version, script in PACKAGES]
    packages.append(build_rpm(place, "bracket", "1", script=SCRIPT, places=bracket))
    assert box.sandbox("rpm", *packages).returncode == 0
    found = RecordedFleet(box, place)
    converge(found)
    with providing(found):
        names = use_features(found)
        found.note_nodes()
        found.note_files()
        server = box.status["server"]
        with httpx.Client(base_url=server["url"], auth=(server["user"], server["key"]), timeout=None) as client:
            found.note_answers(client)
        found.note_verbs(VERBS, **names)
        fail(found)
        yield found


def converge(fleet: RecordedFleet) -> None:
    """Publish the tree with its documents, approve and instantiate the intent."""
    waited = fleet.box.wait(fleet.push("1.0"))
    assert waited.returncode == 0, waited.stdout + waited.stderr
    for verb in ("approve", "instantiate"):
        fleet.act("intent", verb, LETTERS, "--reason", "a test", "--wait", "--timeout", str(UNLIMITED))


@contextmanager
def providing(fleet: RecordedFleet) -> Iterator[None]:
    """Run the instances of hello that the hosts are to run, and a filter that keeps a list of them."""
    path, listed = "/demo/hello/providers", "/in-service/hello"
    instances = [("host1", 0), ("host1", 1), ("host3", 0)]
    lines = [["provide", path, f"127.0.0.1:{8001 + place}", "-p", "zone=a"] for place in range(len(instances))]
    stated = [{"HOST_ID": host, "DEPLOYMENT": f"/demo/hello {number}"} for host, number in instances]
    with ExitStack() as programs, connected(fleet.box.status["zookeeper"]) as client:
        for line, variables in zip((*lines, ["filter", path, listed]), (*stated, {}), strict=True):
            words = [str(PROGRAMS / "zkdeployment"), *line]
            names = {f"ZKDEPLOYMENT_{name}": value for name, value in {**variables, "VERSION": "1.0"}.items()}
            environment = {**os.environ, **fleet.box.environment, **names}
            program = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
            programs.enter_context(program)
            programs.callback(program.terminate)
        wait_until(
            lambda: client.exists(listed) and len(client.get_children(listed)) == len(instances),
            "the filter lists all",
        )
        yield


def lend_a_host(fleet: RecordedFleet) -> str:
    """Lend the host of the pool to a tenant, and return the number of the session."""
    make_key(fleet.place / "team_key")
    fleet.act("user", "add", "team", "--role", "tenant", "--ssh-key", str(fleet.place / "team_key.pub"))
    wait_until(lambda: states(fleet) == ["ready"], "a node is ready")
    fleet.act("session", "request", "web=1", "--tenant", "team", "--reason", "a test")
    wait_until(lambda: states(fleet) == ["deployed"], "the tenant has the host")
    (session,) = fleet.json("session", "list")["sessions"]
    return str(session["id"])


def monitor(fleet: RecordedFleet) -> None:
    """Deploy all check instances in a monitoring system, and send their results."""
    key = fleet.json("user", "add", "nagios1", "--role", "monitoring")["key"]
    url = f"{fleet.box.status['server']['url']}/deployments"
    with httpx.Client(base_url=url, auth=("nagios1", key), timeout=None) as client:

        def waiting() -> Any:
            return client.get("monitoring/nagios1").json()["deploymentsList"]

        def all_active() -> bool:
            for instance in waiting():
                client.get(f"id/{instance}")
                client.patch(f"id/{instance}/success")
            return len(client.get("monitoring/nagios1/active").json()["deploymentsList"]) == 3

        wait_until(
            lambda: len(fleet.json("checks", "instances")["instances"]) == 3,
            "each instance of hello has a check",
        )
        fleet.note_nodes()
        wait_until(all_active, "the check of each instance of hello is active")
        active = client.get("monitoring/nagios1/active").json()["deploymentsList"]
        results = {name: {"state": "ok", "output": "hello", "since": 1} for name in active}
        assert client.put("monitoring/nagios1/results", json=results).is_success


def use_features(fleet: RecordedFleet) -> dict[str, str]:
    """Lend a host, monitor, forbid a version, fail to log in; return the names that verbs show."""
    session = lend_a_host(fleet)
    assert fleet.box.wait().returncode == 0
    monitor(fleet)
    revision = fleet.act("quarantine", "add", "hello", "6.6", "--reason", "a test").split()[0]
    assert fleet.box.wait(revision).returncode == 0
    server = fleet.box.status["server"]
    with httpx.Client(base_url=server["url"], timeout=None) as browser:
        assert browser.get("/api/v1/status", auth=(server["user"], "wrong")).status_code == 401
        token = form_token(browser.get("/login").text)
        browser.post("/login", data={"name": server["user"], "key": server["key"], "csrf_token": token})
    (node,) = fleet.json("node", "list")["nodes"]
    tree = fleet.place / "tree"
    tree.mkdir()
    for name, text in {"tree.zk": TREE % "1.1", "checks.yaml": DOCUMENTS["checks.yaml"]}.items():
        (tree / name).write_text(text, encoding="utf-8")
    return {
        "session": session,
        "node": str(node["id"]),
        "tree": str(tree),
        "intent": LETTERS,
        "revision": revision,
        "directory": str(fleet.box.directory),
    }


def states(fleet: RecordedFleet) -> list[str]:
    """Return the states of all nodes of pools."""
    return [node["state"] for node in fleet.json("node", "list")["nodes"]]


def fail(fleet: RecordedFleet) -> None:
    """Push a version that is forbidden, and publish one whose script fails, which stops the fleet."""
    wait_until(lambda: states(fleet) == ["ready"], "the host of the retired session is ready again")
    refused = fleet.push("6.6")
    wait_until(lambda: refused in fleet.act("status", "-o", "json"), "the syncer refuses the forbidden version")
    fleet.note_verbs(["status"], " (after a refusal)")
    assert fleet.box.wait(fleet.push("9.9")).returncode != 0
    fleet.note_verbs(AFTER_A_FAILURE, " (after a failure)")
    fleet.note_nodes()
    fleet.note_files()


@pytest.mark.parametrize("name", ["json", "znodes", "files", "answers"])
def test_a_fleet_shows_and_leaves_the_recorded_state(fleet: RecordedFleet, recorded: Any, name: str) -> None:
    recorded(f"fleet-{name}", sorted(fleet.facts[name]))
