"""Values of a hostile tree never become arguments of the programs that change packages."""

import os
import shutil

import pytest

from support.waiting import wait_until

#: Records its arguments, each terminated by a NUL, and then runs the real program.
SPY = """\
#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done >> {log}
exec {program} "$@"
"""


@pytest.mark.parametrize(
    ("kind", "version", "hostile"),
    [
        ("--nogpgcheck", "1.0", "--nogpgcheck"),
        ("foo", "1.0\n--nogpgcheck", "--nogpgcheck"),
        ("foo", "http://127.0.0.1:1/x.rpm", "http://"),
    ],
)
def test_a_hostile_value_stops_the_fleet_before_it_is_passed_to_a_program(fleet, tmp_path, kind, version, hostile):
    log, programs = tmp_path / "argv", tmp_path / "programs"
    programs.mkdir()
    for name in ("dnf", "rpm"):
        spy = programs / name
        spy.write_text(SPY.format(log=log, program=shutil.which(name)))
        spy.chmod(0o755)
    host = fleet.host("h1", packages="dnf")
    fleet.set_version("r1")
    with host.process(PATH=f"{programs}:{os.environ['PATH']}"):
        host.wait_for_version("r1")
        assert log.read_bytes(), "the spies see what is called"
        fleet.service("/who/bad", kind, version, h1=1)
        fleet.set_version("r2")
        wait_until(lambda: fleet.version is None and host.node.get("error"), "the fleet is stopped")
        assert "/who/bad" in host.node["error"]
        assert "\n" not in host.node["error"]
    assert hostile.encode() not in log.read_bytes()
