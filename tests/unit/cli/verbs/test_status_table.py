"""The fleet as a table, on terminals of several widths."""

import io

import pytest
from rich.console import Console

from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.cli.tables import console_for
from zkdeployment.cli.verbs.status import render_table
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status

NAME = "application1.example.com"


def shown(width, *hosts):
    printed = io.StringIO()
    status = fleet_status(FleetSnapshot(cluster=Cluster("r1"), published="r1", hosts=hosts))
    Console(file=printed, width=width).print(render_table(status))
    return printed.getvalue()


HOST = Host(Identity("h1", NAME), version="r1")
ROLE = Host(Identity("h2", "application2.example.com", "web-server"), version="r1")


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_has_colours_unless_they_are_not_wanted(monkeypatch, environment, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", terminal)
    status = fleet_status(FleetSnapshot(cluster=Cluster("r1"), published="r1", hosts=(HOST,)))
    console_for(stderr=False).print(render_table(status))
    assert "converged" in terminal.getvalue()
    assert ("\x1b[32m" in terminal.getvalue()) == coloured


def test_a_host_without_a_version_shows_the_one_that_it_had():
    assert "- (had r0)" in shown(200, Host(Identity("h1", NAME), former="r0"))


def test_a_wide_terminal_has_all_columns():
    heads = shown(200, HOST).splitlines()[1].split()
    assert heads == ["HOST", "ID", "ROLE", "STATE", "VERSION", "WANTED", "STEP", "SINCE"]


def test_a_narrow_terminal_has_no_columns_in_which_all_hosts_are_alike():
    assert shown(65, HOST).splitlines()[1].split() == ["HOST", "ID", "STATE", "VERSION", "SINCE"]
    assert "web-server" in shown(78, HOST, ROLE)


@pytest.mark.parametrize("width", [50, 80, 200])
def test_names_and_states_are_whole(width):
    assert NAME in shown(width, HOST, ROLE)
    assert "converged" in shown(width, HOST, ROLE)
