"""A service rolls from version to version behind the real HAProxy and nginx, and no request fails."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Self

import pytest

from support.balancers import running_haproxy, running_nginx
from support.manual import MANUAL, commands
from support.sandboxes import PROGRAMS
from support.waiting import wait_until
from zkdeployment.providers import select
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.repositories import build_packages

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SOURCE, OUTPUT = "/shop/web/providers", "/in-service/web"
HOSTS = "host1: {}\nhost2: {}\nhost3: {}\n"
VERSIONS = ("1.0", "1.1", "1.2")

#: The requests through each load balancer while the service rolls to the next version, and the seconds between two
#: requests of a client: a load balancer gets all requests in about the time of a roll, and the clients do not take
#: the processors from the fleet.
FEW = 500, 0.1
MANY = 10_000, 0.004

#: The seconds for which instances go on answering after they left the list.
DRAIN = 3

#: The most seconds from a change of the list until a load balancer no longer uses the former one.
RELOADED = 10

TREE = """\
/shop
  /db : db
    version = '1.0'
    round = {round}
    /providers
    /deploy
      /host1
  /web : web
    version = '{version}'
    deploy_after = ['/shop/db']
    /providers
    /deploy
      /host1
      /host2
      /host3
"""


def tree(version):
    return TREE.format(version=version, round=VERSIONS.index(version))


def built(directory):
    """Return packages like the samples, whose instances are drained before they end."""
    source = directory / "package"
    shutil.copytree(Path(samples.__file__).parent / "package", source)
    script = source / "zookeeper-deploy"
    text, former = script.read_text(), '*("zkdeployment", "provide", '
    assert former in text
    script.write_text(text.replace(former, f'{former}"--drain", "{DRAIN}", '))
    return [
        file
        for name, version in (("db", "1.0"), *(("web", version) for version in VERSIONS))
        for file in build_packages(
            source / "service.spec",
            directory / "built",
            {"service": name, "service_version": version, "service_source": str(source)},
        )
    ]


@pytest.fixture(scope="module")
def shop(make_box, place):
    """Return a sandbox of three hosts that deploys the first version."""
    box = make_box("shop")
    hosts = place / "hosts.yaml"
    hosts.write_text(HOSTS, encoding="utf-8")
    (place / "rpms" / "built").mkdir(parents=True)
    box.up("--hosts", hosts)
    assert box.sandbox("rpm", *built(place / "rpms")).returncode == 0
    done = box.wait(box.push(tree(VERSIONS[0])))
    assert done.returncode == 0, done.stdout
    return box


class Versions:
    """The version in service over time, as consumers of the list see it."""

    def __init__(self, zookeeper) -> None:
        self.changes = []
        argv = [PROGRAMS / "zkdeployment", "providers", "-z", zookeeper, OUTPUT, "--watch", "-o", "json"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        for line in self._process.stdout:
            version = json.loads(line)["version"]
            if not self.changes or self.changes[-1][1] != version:
                self.changes.append((time.monotonic(), version))

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self.changes, "the version in service")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()

    def permitted(self, begin, end):
        """The versions that were in service, or in a load balancer that was still reloading, in this time."""
        ends = [at for at, _ in self.changes[1:]] + [float("inf")]
        return {
            version
            for (since, version), until in zip(self.changes, ends, strict=True)
            if since <= end + 1 and until + RELOADED >= begin
        }


class Clients:
    """Clients that send requests through a load balancer, one after the other, until they are told to end."""

    def __init__(self, balancer, pace, number=2) -> None:
        self.balancer, self.pace, self.answers, self.failures = balancer, pace, [], []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(number)]

    def _send(self):
        while not self._ended.is_set():
            begin = time.monotonic()
            try:
                status, body = self.balancer.get()
                version = json.loads(body)["version"] if status == 200 else f"status {status}"
            except (OSError, HTTPException, ValueError, KeyError) as error:
                status, version = 0, repr(error)
            (self.answers if status == 200 else self.failures).append((begin, time.monotonic(), version))
            time.sleep(self.pace)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def balanced(shop, tmp_path):
    """Yield the load balancers, each with a filter that keeps its file by the commands of the manual."""
    zookeeper = shop.status["zookeeper"]
    shown = [found.text for found in commands("load-balancers") if "--template" in found.text]
    assert len(shown) == 2
    with ExitStack() as stack:
        balancers = []
        for run, command in zip((running_haproxy, running_nginx), shown, strict=True):
            place = tmp_path / run.__name__
            place.mkdir()
            balancer = stack.enter_context(run(place))
            filtered = start_filter(command, balancer, zookeeper, place)
            stack.callback(filtered.wait)
            stack.callback(filtered.send_signal, signal.SIGTERM)
            balancers.append(balancer)
        for balancer in balancers:
            wait_until(balancer.answers, f"{balancer.example} forwards requests")
        yield balancers


def start_filter(command, balancer, zookeeper, place):
    """Start the filter of a command of the manual, with the places of this test."""
    words = command.replace("\\\n", " ").split("--check")[0].split()[1:]
    words[words.index("--file") + 1] = str(balancer.file)
    words[words.index("--template") + 1] = str(MANUAL / "examples" / "load-balancer" / balancer.example)
    if balancer.admin is not None:
        words[words.index("--socket") + 1] = str(balancer.admin)
    words += ["--check", balancer.check, "--reload", balancer.reload, "-z", zookeeper]
    with (place / "filter.log").open("w") as log:
        return subprocess.Popen(
            [PROGRAMS / "zkdeployment", *words],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"ZKDEPLOYMENT_CONFIG": ""},
        )


def roll(shop, balancers, version, load, disturb=lambda: None):
    """Roll to a version under a load, disturb the fleet meanwhile, and check the answers to all requests."""
    requests, pace = load
    with ExitStack() as stack:
        versions = stack.enter_context(Versions(shop.status["zookeeper"]))
        clients = [stack.enter_context(Clients(balancer, pace)) for balancer in balancers]
        before = versions.changes[-1][1]
        revision = shop.push(tree(version))
        disturb()
        done = shop.wait(revision)
        assert done.returncode == 0, done.stdout
        wait_until(lambda: all(is_answered_by(found, version) for found in clients), f"answers of {version} alone")
        for found in clients:
            wait_until(lambda found=found: len(found.answers) + len(found.failures) >= requests, "all requests")
    assert [changed for _, changed in versions.changes] == [before, version]
    for found in clients:
        assert found.failures == []
        assert len(found.answers) >= requests
        assert {answered for _, _, answered in found.answers} == {before, version}
        wrong = [answer for answer in found.answers if answer[2] not in versions.permitted(*answer[:2])]
        assert wrong == []


def is_answered_by(clients, version):
    return [answered for _, _, answered in clients.answers[-50:]] == [version] * 50


def test_no_request_fails_while_a_service_rolls_to_the_next_version(shop, balanced):
    roll(shop, balanced, VERSIONS[1], FEW)
    assert select(OUTPUT, zookeeper=shop.status["zookeeper"]).version == VERSIONS[1]


def test_no_request_of_many_fails_if_an_agent_is_killed_in_the_middle(shop, balanced):
    def kill():
        """Kill the agent of the second host while that host deploys, and start it again."""

        def deploys():
            hosts = json.loads(shop.zkdeployment("status", "-o", "json").stdout)["hosts"]
            return any(host["id"] == "host2" and host["state"] == "deploying" for host in hosts)

        wait_until(deploys, "the second host deploys")
        assert shop.sandbox("stop", "host2", "--kill").returncode == 0
        assert shop.sandbox("start", "host2").returncode == 0

    roll(shop, balanced, VERSIONS[2], MANY, kill)
