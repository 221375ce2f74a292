"""A fleet converges one host at a time although agents and the syncer are killed at random moments."""

import contextlib
import random
import re

import pytest

from support.hosts.rpms import build_rpm
from support.waiting import wait_until

#: A deployment script that fails and records a violation when it runs on two hosts at once.
SCRIPT = """\
#!/bin/sh
set -eu
[ "$1" != -u ] || exit 0
shared=$ZKDEPLOYMENT_ROOT/../../../shared
if ! mkdir "$shared/busy" 2>/dev/null; then
  echo "$ZKDEPLOYMENT_HOST_ID came while $(cat "$shared/busy/host") was at work" >> "$shared/violations"
  exit 1
fi
echo "$ZKDEPLOYMENT_HOST_ID" > "$shared/busy/host"
sleep 0.3
echo "$ZKDEPLOYMENT_HOST_ID $ZKDEPLOYMENT_VERSION" >> "$shared/done"
rm -r "$shared/busy"
"""

TREE = """\
/s
  /turns : turns
    version = '1'
    round = {round}
    /deploy
      /host1
      /host2
      /host3
"""

STATUS = re.compile(r"\d+(\.\d+)? \d+ \S+ \S.*\n?")


@pytest.fixture(scope="module")
def box(make_box, place):
    box = make_box("crashes")
    box.up("--hosts", "3")
    (box.directory / "shared").mkdir()
    package = build_rpm(place / "rpms", "turns", "1", script=SCRIPT)
    assert box.sandbox("rpm", package).returncode == 0
    return box


def check_files(box):
    """Check that the files of all hosts are complete, at any moment of a deployment."""
    for host in box.status["hosts"].values():
        status = (box.directory / host["run-directory"] / "status").read_text(encoding="utf-8")
        assert STATUS.fullmatch(status), status


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_a_fleet_whose_daemons_are_killed_converges_one_host_at_a_time(box, seed):
    chance = random.Random(seed)
    revision = box.push(TREE.format(round=seed), f"round {seed}")
    for _ in range(3):
        names = chance.sample(["host1", "host2", "host3", "syncer"], k=2)
        moment = chance.uniform(0, 1.5)
        ran = len(lines(box, "done"))
        # The kill may hit work in progress or an idle daemon: the test covers both.
        with contextlib.suppress(AssertionError):
            wait_until(lambda ran=ran: len(lines(box, "done")) > ran, "a script has run", timeout=moment)
        assert box.sandbox("stop", "--kill", *names).returncode == 0
        check_files(box)
        assert box.sandbox("start", *names).returncode == 0
    waited = box.wait(revision)
    assert waited.returncode == 0, waited.stdout + waited.stderr
    assert lines(box, "violations") == []
    done = {line.split()[0] for line in lines(box, "done") if line.endswith(revision)}
    assert done == {"host1", "host2", "host3"}
    check_files(box)


def lines(box, name):
    file = box.directory / "shared" / name
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
