"""A live fleet is upgraded from the last release, agents first and servers first, and back, and deploys meanwhile.

The last release is the last tag of this repository. A repository without a tag of a release upgrades from its own
version.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.commands import run
from support.hosts.rpms import build_rpm
from support.limits import outliving_the_test
from support.sandboxes import PROGRAMS

PROJECT = Path(__file__).parents[2]

AGENTS = ("host1", "host2")
#: The daemons beside the agents.
SERVERS = ("syncer", "coordinator")

TREE = """\
/shop
  /web : web
    version = '{}'
    greeting = '{}'
    /deploy
      /host1
      /host2
"""


def git(*words):
    done = subprocess.run(["git", "-C", PROJECT, *words], capture_output=True, check=False)
    return done.stdout


def last_release():
    """Return the tag of the last release, or an empty text."""
    tags = git("tag", "--list", "[0-9]*.[0-9]*.[0-9]*", "--sort=-version:refname").decode().split()
    return next(iter(tags), "")


@pytest.fixture(scope="module")
def release(place):
    """The modules of the last release."""
    directory = place / "release"
    directory.mkdir()
    if tag := last_release():
        archive = git("archive", tag, "src")
        subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)
    else:
        shutil.copytree(PROJECT / "src/zkdeployment", directory / "src/zkdeployment")
    return directory / "src"


@pytest.fixture(scope="module")
def fleet(make_box, place, release):
    """A fleet of the last release, with two versions of a package."""
    box = make_box("upgrade")
    start(release, box, "up", "--hosts", len(AGENTS))
    script = 'echo "$ZKDEPLOYMENT_VERSION" >>"$ZKDEPLOYMENT_ROOT/calls"\n'
    packages = [build_rpm(place / "rpms", "web", version, script=f"#!/bin/sh\n{script}") for version in ("1", "2")]
    assert box.sandbox("rpm", *packages).returncode == 0
    return box


def start(source, box, verb, *names):
    """Start parts of the sandbox with the modules in ``source``."""
    words = [PROGRAMS / "zkdeployment", "sandbox", verb, "-d", box.directory, *names]
    done = run(*words, env={**outliving_the_test(), "PYTHONPATH": str(source)})
    assert done.returncode == 0, done.stderr


def replace(source, box, *names):
    """Stop these daemons and start them with the modules in ``source``."""
    assert box.sandbox("stop", *names).returncode == 0
    start(source, box, "start", *names)
    status = box.status
    pids = [status["hosts"][name]["pid"] if name in AGENTS else status[name] for name in names]
    for pid in pids:
        assert f"PYTHONPATH={source}" in Path(f"/proc/{pid}/environ").read_text().split("\0")


#: The states of a fleet of the last release that is upgraded and taken back: the daemons that are replaced, and
#: whether by the new version.
AGENTS_FIRST = (
    ("the release", (), False),
    ("new agents", AGENTS, True),
    ("new agents and servers", SERVERS, True),
    ("old agents, new servers", AGENTS, False),
    ("the release again", SERVERS, False),
)
SERVERS_FIRST = (
    ("new servers", SERVERS, True),
    ("new servers and agents", AGENTS, True),
    ("old servers, new agents", SERVERS, False),
    ("the release at the end", AGENTS, False),
)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "steps",
    [AGENTS_FIRST, SERVERS_FIRST],
    ids=["agents first", "servers first"],
)
def test_a_fleet_of_two_versions_deploys_and_can_go_back(fleet, release, steps):
    calls = [fleet.root(host) / "calls" for host in AGENTS]
    before = [len(file.read_text().splitlines()) if file.exists() else 0 for file in calls]
    for number, (state, names, is_new) in enumerate(steps):
        if names:
            replace(PROJECT / "src" if is_new else release, fleet, *names)
        revision = fleet.push(TREE.format(1 + number % 2, state), state)
        done = fleet.wait(revision)
        assert done.returncode == 0, f"{state}: {done.stdout}{done.stderr}"
    after = [len(file.read_text().splitlines()) for file in calls]
    assert after == [number + len(steps) for number in before]
