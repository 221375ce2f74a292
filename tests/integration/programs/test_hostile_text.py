"""Every command that prints text of live nodes escapes terminal control characters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.strategies import begun_rollout, group, strategy
from support.zookeeper import write_node
from zkdeployment.base.host import Facts
from zkdeployment.base.text import is_printable
from zkdeployment.programs.main import main
from zkdeployment.strategies.store.records import encode_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kazoo.client import KazooClient

#: Clears the screen, reverses text, adds a line, and contains unassigned and invisible characters.
EVIL = "\x1b[2J\x9b31m\u202eevil\nALL GOOD\r\u0378\u200b\u2028"

#: The part of the hostile text that ZooKeeper accepts in a node name.
NAME = "n\u202e\u200b\u0378"

Run = "Callable[..., tuple[int, str, str]]"


@pytest.fixture
def run(zookeeper: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as end:
            main([*argv, "-z", zookeeper])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


@pytest.fixture
def fleet(client: KazooClient) -> KazooClient:
    """Return a client of a fleet in which every text is hostile."""
    write_node(client, "/hosts", {"version": "r2"})
    host = {"name": f"app{EVIL}", "role": f"role{EVIL}", "version": f"r1{EVIL}", "deploying": "r2"}
    write_node(client, f"/hosts/{NAME}", host | {"step": f"step{EVIL}", "steps": [1, 2]}, ephemeral=True)
    write_node(client, "/hosts/h2", host | {"error": f"error{EVIL}", "pid": 1}, ephemeral=True)
    stop = {
        "host": "h2",
        "name": f"app{EVIL}",
        "step": f"step{EVIL}",
        "reason": EVIL,
        "time": 5.0,
        "revision": EVIL,
    }
    write_node(client, "/zkdeployment/stops/h2", stop)
    write_node(client, f"/role-locks/{NAME}/lr-0000000001", {"requestor": "h2", "hostname": f"app{EVIL}"})
    client.create(f"/agent-locks/{NAME}/x-lock-0000000001", f"app{EVIL} (h2)".encode(), makepath=True)
    record = {"revision": "r2", "time": 1.0, "sequence": 7, "author": EVIL, "subject": EVIL, "forced_by": EVIL}
    write_node(client, "/zkdeployment/history/0000000007", record | {"reason": EVIL, "hosts": 2})
    result = {"name": f"app{EVIL}", "time": 2.0, "seconds": 1.0, "error": EVIL}
    write_node(client, "/zkdeployment/history/0000000007/h2", result)
    write_node(
        client, "/zkdeployment/targets", {"version": "r2", "ordered": "r2", "sequence": 7, "strategy": f"s{EVIL}"}
    )
    begun = begun_rollout(strategy(group("one")), {"h2": Facts()}, errors={"h2": EVIL}, waiting=EVIL)
    write_node(client, "/zkdeployment/rollouts", {"current": begun.id})
    client.create(f"/zkdeployment/rollouts/{begun.id}", encode_state(replace(begun, errors={"h2": EVIL})))
    write_node(client, f"/a/{NAME}", {EVIL: EVIL, f"l{EVIL} ->": f"/{EVIL}", f"p{EVIL} =>": EVIL, "type": EVIL})
    return client


def is_safe(text: str) -> bool:
    return all(is_printable(character) or character == "\n" for character in text)


VERBS = [
    ("status",),
    ("status", "--watch", "--timeout", "0"),
    ("why", NAME),
    ("why", "h2"),
    ("locks",),
    ("history",),
    ("history", "show", "7"),
    ("rollout", "show"),
    ("tree", "show"),
    ("tree", "export"),
    ("tree", "rm", "--dry-run", "/a"),
    ("monitor", "--cluster"),
]


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("argv", VERBS, ids=" ".join)
def test_no_terminal_control_characters_are_printed(run: Run, argv: tuple[str, ...]) -> None:
    _, out, err = run(*argv)
    assert "\\u202e" in out
    assert is_safe(out)
    assert is_safe(err)
    assert not any(line.startswith("ALL GOOD") for line in out.splitlines())


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("version", [None, False])
def test_no_terminal_control_characters_are_printed_while_the_fleet_is_stopped(
    run: Run, fleet: KazooClient, version: object
) -> None:
    write_node(fleet, "/hosts", {"version": version})
    for argv in (("status",), ("why", NAME), ("monitor", "--cluster")):
        _, out, _ = run(*argv)
        assert "\\u202e" in out
        assert is_safe(out)


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_every_text_exactly_and_escaped(run: Run, output: str, read: Callable[[str], Any]) -> None:
    _, out, _ = run("status", "-o", output)
    assert out.isascii()
    assert is_safe(out)
    hosts = {host["id"]: host for host in read(out)["hosts"]}
    assert hosts[NAME]["name"] == f"app{EVIL}"
    assert hosts["h2"]["error"] == f"error{EVIL}"
    _, out, _ = run("tree", "show", "/a", "-o", output)
    assert out.isascii()
    assert read(out)[f"/a/{NAME}"][EVIL] == EVIL


@pytest.mark.usefixtures("fleet")
def test_planned_changes_are_printed_without_terminal_control_characters(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.zk").write_text("/a\n")
    _, out, err = run("tree", "diff", str(tmp_path))
    assert "\\u202e" in out
    assert is_safe(out + err)
    _, out, err = run("plan", str(tmp_path))
    assert "\\u202e" in out
    assert is_safe(out + err)
