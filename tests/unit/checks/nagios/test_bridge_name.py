"""The name of a bridge: the same at each start on a machine, and another one for other directories."""

from pathlib import Path

from zkdeployment.checks.nagios.service import bridge_name


def test_a_bridge_keeps_its_name_and_another_directory_has_another_one():
    assert bridge_name(Path("/a")) == bridge_name(Path("/a"))
    assert bridge_name(Path("/a")) != bridge_name(Path("/b"))


def test_a_name_fits_into_a_header():
    name = bridge_name(Path("/ä" * 300))
    assert len(name) == 200
    assert name.isascii()
