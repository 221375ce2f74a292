"""Acts on a group of services in a sandbox: an update in place, a host that fails, and one that is absent."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.hosts.rpms import build_rpm
from support.waiting import UNLIMITED, wait_until
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.commands import Done
    from support.sandboxes import SandboxCommands

SHOP = "p1/store/v1/shop"
TREE = """\
/shop
  /web : web
    version = '1'
    greeting = '{greeting}'
    /deploy
      /host1
      /host2
"""
INTENTS = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data: {composite-profile: plain, apps: {front: [/shop/web]}, state: Created, update: approve}
"""

#: A deployment script that notes each call, and fails if its host's fail file exists.
SCRIPT = """\
#!/bin/sh
shared=$ZKDEPLOYMENT_ROOT/../../..
echo "$ZKDEPLOYMENT_HOST_ID $1" >> "$shared/calls"
[ ! -e "$shared/fail-$ZKDEPLOYMENT_HOST_ID" ]
"""


class Shop:
    """A sandbox with one group of services."""

    def __init__(self, box: SandboxCommands) -> None:
        self.box = box
        self.longest = 0.0

    def act(self, verb: str, *words: str) -> Done:
        return self.box.zkdeployment("intent", verb, SHOP, *words)

    def wait(self, verb: str, timeout: float = UNLIMITED) -> Done:
        begun = time.monotonic()
        done = self.act(verb, "--wait", "--timeout", str(timeout))
        self.longest = max(self.longest, time.monotonic() - begun)
        return done

    @property
    def hosts(self) -> list[str]:
        """The registered hosts."""
        with Session(self.box.status["zookeeper"]) as session:
            return session.children(paths.HOSTS) or []

    def body(self, verb: str, *words: str) -> Any:
        return json.loads(self.act(verb, *words, "-o", "json").stdout)

    @property
    def document(self) -> str:
        """The document at the tip of the branch."""
        show = ["git", "--git-dir", self.box.status["tree"], "show", "main:intents.yaml"]
        return subprocess.run(show, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def shop(make_box: Callable[[str], SandboxCommands], place: Path) -> Shop:
    box = make_box("intents")
    box.up("--hosts", "2")
    assert box.sandbox("rpm", build_rpm(place / "rpms", "web", "1", script=SCRIPT)).returncode == 0
    revision = box.push(TREE.format(greeting="hello"), "a shop", {"intents.yaml": INTENTS})
    assert box.wait(revision).returncode == 0
    return Shop(box)


@pytest.mark.nightly
def test_a_group_is_updated_in_place_terminated_and_fails_later(shop: Shop, tmp_path: Path) -> None:
    calls = shop.box.directory / "calls"
    assert not calls.exists()
    assert shop.wait("approve").returncode == 0
    done = shop.wait("instantiate")
    assert (done.returncode, "done: 2 deployments" in done.stderr) == (0, True), done.stderr
    assert sorted(calls.read_text().split("\n")[:-1]) == ["host1 /shop/web", "host2 /shop/web"]

    # An update in place: the approval of the new content is in the same push.
    for name, text in {"tree.zk": TREE.format(greeting="good day"), "intents.yaml": shop.document}.items():
        (tmp_path / name).write_text(text)
    assert shop.act("approve", "--work-tree", str(tmp_path)).returncode == 0
    revision = Sandbox(shop.box.directory).push(tmp_path, "another greeting")
    assert shop.box.wait(revision).returncode == 0
    body = shop.body("status", "--output", "detail")
    resources = [resource for cluster in body["resources"][0]["clusters"] for resource in cluster["resources"]]
    assert (body["state"], body["rsync-status"]) == ("Instantiated", {"Applied": 2})
    assert {resource["spec"]["properties"]["greeting"] for resource in resources} == {"good day"}
    assert len(shop.body("instances")["instances"]) == 1

    # A termination waits for the host that is absent.
    assert shop.box.sandbox("stop", "host2", "--kill").returncode == 0
    wait_until(lambda: "host2" not in shop.hosts, "the session of host2 has ended")
    late = shop.wait("terminate", timeout=max(10.0, 2 * shop.longest))
    assert (late.returncode, "host2:/shop/web.0 (its host is absent)" in late.stderr) == (5, True), late.stderr
    twice = shop.act("terminate")
    assert (twice.returncode, "it is terminated already" in twice.stderr) == (3, True)
    assert shop.box.sandbox("start", "host2").returncode == 0
    wait_until(lambda: shop.body("status")["rsync-status"] == {"Terminated": 2}, "host2 undeploys")

    # The next instance fails on one host.
    (shop.box.directory / "fail-host1").touch()
    failed = shop.wait("instantiate")
    assert (failed.returncode, "host1:/shop/web.0 (failed)" in failed.stderr) == (1, True), failed.stderr
    assert [instance["terminated"] is None for instance in shop.body("instances")["instances"]] == [True, False]
