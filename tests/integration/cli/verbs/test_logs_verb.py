"""The logs verb, on a real agent whose script runs, and then fails."""

from __future__ import annotations

import json
import time
from pathlib import Path

from support.agents import Fleet, put_script
from support.commands import invoke
from support.waiting import UNLIMITED, wait_until
from zkdeployment.cli.verbs import logs
from zkdeployment.zookeeper import paths

SCRIPT = """\
#!/bin/sh
echo "unpacking with --password hunter2"
touch "$ZKDEPLOYMENT_ROOT/began"
while [ ! -e "$ZKDEPLOYMENT_ROOT/end" ]; do sleep 0.02; done
echo "the disk is full"
exit 1
"""


def test_the_output_of_a_running_script_and_of_a_failed_one_are_shown_with_their_file(
    zookeeper, client, tmp_path, monkeypatch
):
    monkeypatch.setattr(logs, "_PATIENCE", UNLIMITED)

    def run(*argv):
        done = invoke("logs", *argv, "-z", zookeeper)
        return done.returncode, done.stdout, done.stderr

    nothing = (0, "", "no output of a script is known; on the hosts, outputs are under /var/log/zkdeployment\n")
    host = Fleet(tmp_path, zookeeper, client).host("h1")
    put_script(host.root, "foo", SCRIPT)
    host.fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    host.fleet.set_version("r1")
    with host.process():
        try:
            wait_until(lambda: host.node.get("step") == "deploy /who/myfoo 0", "the step")
            wait_until((host.root / "began").exists, "the script runs")
            assert run() == nothing
            assert run("/who/myfoo") == nothing
            (live,) = json.loads(run("h1", "-o", "json")[1])["outputs"]
        finally:
            host.root.joinpath("end").touch()
        host.wait_for_error()
        wait_until(lambda: client.exists(paths.output_path("h1")), "the output of the failed script")
    assert (live["host"], live["running"], live["step"]) == ("h1", True, "deploy /who/myfoo 0")
    assert live["output"] == "unpacking with --password ***\n"
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)  # outputs have their age
    code, shown, _ = run("h1", "/who/myfoo")
    heading, *lines, place = shown.splitlines()
    assert code == 0
    assert ": deploy /who/myfoo 0 of r1 failed " in heading
    assert lines == ["  unpacking with --password ***", "  the disk is full"]
    file = Path(place.removeprefix("The whole output is on the host, in ").removesuffix("."))
    assert file.read_text().endswith("the disk is full\n")
    assert file == Path(live["file"])
    assert run()[1] == run("/who/myfoo")[1] == shown
    assert run("/who/other") == nothing
    assert run("h1", "who/myfoo")[0] == 2
    code, _, error = run("h9")
    assert (code, "there is no host h9" in error) == (3, True)
