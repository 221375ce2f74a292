"""A bad version on a real fleet: the coordinator rolls back, and no push of the version is accepted again."""

from __future__ import annotations

import subprocess

import pytest

from support.hosts.rpms import build_rpm
from support.sandboxes import PROGRAMS, SandboxCommands
from support.strategies import canary_first
from support.waiting import wait_until
from zkdeployment.base.errors import ProgramError

TREE = """\
/shop
  /web : web
    version = '{}'
    /deploy
      /host1
      /host2
      /host3
"""
FILES = {"strategy.yaml": canary_first({"node_names": ["host1"]}, on_failure="rollback")}

#: A deployment script that notes each call; that of the bad version fails.
SCRIPT = """\
#!/bin/sh
[ "$1" != -u ] || exit 0
echo "$ZKDEPLOYMENT_HOST_ID {version}" >> "$ZKDEPLOYMENT_ROOT/../../../calls"
exit {status}
"""


class Repository:
    """The sandbox's bare repository."""

    def __init__(self, url: str) -> None:
        self.url = url

    def git(self, *words: str) -> str:
        run = ["git", "--git-dir", self.url, *words]
        return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()

    @property
    def tip(self) -> str:
        return self.git("rev-parse", "main")


@pytest.fixture(scope="module")
def box(make_box, place) -> SandboxCommands:
    box = make_box("rollback")
    box.up("--hosts", "3")
    packages = [
        build_rpm(place / "rpms", "web", version, script=SCRIPT.format(version=version, status=status))
        for version, status in (("1", 0), ("2", 1))
    ]
    assert box.sandbox("rpm", *packages).returncode == 0
    hook = place / "rollback" / "tree.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec {PROGRAMS / 'zkdeployment'} lint --hook --branch main\n")
    hook.chmod(0o755)
    return box


@pytest.mark.nightly
def test_a_bad_version_fails_on_the_canary_the_fleet_goes_back_and_the_version_stays_out(
    box: SandboxCommands,
) -> None:
    repository = Repository(box.status["tree"])
    good = box.push(TREE.format("1"), "web 1", FILES)
    converged = box.wait(good)
    assert converged.returncode == 0, converged.stdout + converged.stderr

    bad = box.push(TREE.format("2"), "web 2", FILES)
    wait_until(lambda: repository.tip != bad, "the coordinator commits the rollback")
    rollback = repository.tip
    # Until the rollback is published, the fleet is stopped, which ends each wait.
    wait_until(lambda: box.wait(rollback, timeout=5).returncode == 0, "the fleet is at the rollback")
    assert repository.git("diff", "--stat", good, rollback) == ""
    assert repository.git("log", "-1", "--format=%P %an", "main") == f"{bad} coordinator"
    assert repository.git("log", "-1", "--format=%B", "main").startswith(f"Roll back to {good[:12]}: rollout ")
    calls = (box.directory / "calls").read_text().splitlines()
    assert {call for call in calls if call.endswith(" 2")} == {"host1 2"}

    added = box.zkdeployment("quarantine", "add", "web", "2", "--reason", "fails on the canary")
    assert (added.returncode, added.stdout.strip()) == (0, repository.tip), added.stderr
    converged = box.wait(repository.tip)
    assert converged.returncode == 0, converged.stdout + converged.stderr
    quarantine = {"quarantine-web-2.yaml": repository.git("show", "main:quarantine-web-2.yaml") + "\n"}
    with pytest.raises(ProgramError, match=r"web 2 is quarantined by .*: fails on the canary"):
        box.push(TREE.format("2"), "web 2 again", FILES | quarantine)
    assert box.zkdeployment("rollback", bad, "--reason", "forward", "--yes").returncode == 1

    back = box.zkdeployment("rollback", good, "--reason", "to be sure", "--now", "--yes")
    assert (back.returncode, back.stdout.strip()) == (0, repository.tip), back.stderr
    assert "nothing changes" in back.stderr
