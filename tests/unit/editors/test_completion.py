"""Completion in tree files, at the place that is marked with | in a text."""

from __future__ import annotations

import pytest

from support.builders import make_inventory, make_known_host, make_package
from zkdeployment.base.source_files import SourceFile
from zkdeployment.editors.rules.completion import (
    SERVICE_PROPERTIES,
    SYSTEM_PROPERTIES,
    TARGET_PROPERTIES,
    tree_proposals,
)
from zkdeployment.editors.rules.tree_text import Live, TreeContext
from zkdeployment.publishing.rules.review import review

TREE = """\
/shop
  /db : postgres-15 main
    /providers
    /deploy
      /db1.example.com
  /web : web
    version = '1.10'
    colour = 'red'
    patches = ['web-fix 2']
    /deploy
      /frontend
  link -> /shop/db
/roles
  /frontend : steward
    version = '3'
"""

LIVE = Live(
    (
        make_known_host("h1", make_inventory(make_package("web", "1.9"), managed={"web": "web"})),
        make_known_host("h2", None, "worker", labels={"tier": "a"}),
    )
)


def labels(text: str, live: Live = LIVE) -> list[str]:
    """Return the labels for the tree above followed by a text; | marks the cursor."""
    whole = TREE + text
    before, _, after = whole.partition("|")
    context = TreeContext(review([SourceFile("main.zk", (before + after).encode())]), live)
    lines = (before + after).split("\n")
    number = before.count("\n")
    return [one.label for one in tree_proposals(context, lines, number, len(before.rpartition("\n")[2]))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|", ["service"]),
        ("/top|", ["service"]),
        ("  # |", []),
        ("/x\n  |", ["service"]),
        ("/x\n  /a : |", ["postgres-15", "steward", "web", "web-fix", "system"]),
        ("/x\n  /a : we|", ["postgres-15", "steward", "web", "web-fix", "system"]),
        ("/x\n  /a : web |", []),
        ("/x\n  /a : web\n    version = |", ["1.10", "1.9"]),
        ("/x\n  /a : web\n    version = '1|", ["1.10", "1.9"]),
        ("/x\n  /a : web\n    version = '1.9' |", []),
        ("/x\n  /a : web\n    rerun = |", ["always", "changed"]),
        ("/x\n  /a : web\n    undeploy = '|", ["first", "last"]),
        ("/x\n  /a : web\n    deploy_after = ['|", ["/shop/db", "/shop/web"]),
        ("/x\n  /a : web\n    patches = ['web-fix |", ["web-fix 2"]),
        ("/x\n  /a : web\n    colour = |", []),
        ("/x\n  a -> |", ["/roles", "/shop", "/x"]),
        ("/x\n  a -> /shop/|", ["db", "web"]),
        ("/x\n  a -> ../shop/|", ["db", "web"]),
        ("/x\n  a -> /shop/link/|", ["deploy", "providers"]),
        ("/x\n  a => /shop/web |", ["colour", "patches", "type", "version"]),
        ("/x\n  a -> /shop/web |", []),
        (
            "/x\n  /a : web\n    /deploy\n      /|",
            ["/db1.example.com", "/frontend", "/h1", "/h1.example.com", "/worker"],
        ),
        ("/x\n  /a : web\n    /deploy\n      /h1\n        |", ["n"]),
        ("/x\n  /a : web\n    /deploy\n      /h1\n        n = |", ["1"]),
        (
            "/x\n  /a : web\n    /deploy\n    |",
            ["deploy_after", "patches", "reboot", "registers", "rerun", "undeploy", "version", "/providers"],
        ),
        (
            "/x\n  /a : system\n    release = '1'\n    |",
            ["exclude", "generation", "reboot", "reboot_timeout", "update", "/deploy"],
        ),
        ("/x\n  /a : system\n    update = |", ["all", "none", "security"]),
        ("/x\n  /a : system\n    reboot = '|", ["always", "if needed", "never"]),
        ("/x\n  /a : system\n    /deploy\n      /h1\n        |", []),
        ("/x\n  /a : web\n    reboot = |", ["allowed"]),
        ("  /worker\n    |", ["rerun", "version"]),
    ],
)
def test_proposals_fit_their_place(text, expected):
    assert labels(text) == expected


def test_without_a_fleet_targets_of_the_tree_are_proposed():
    assert labels("/x\n  /a : web\n    /deploy\n      |", Live()) == ["/db1.example.com", "/frontend"]


@pytest.mark.parametrize("name", [name for name in SERVICE_PROPERTIES if name != "type"])
def test_every_proposed_property_is_read(name):
    """A wrong value of the property is an error that names it."""
    text = f"/x\n  /a : web\n    version = '1'\n    {name} = {{'wrong': 1}}\n    /deploy\n      /h1\n"
    text = text.replace("    version = '1'\n", "") if name == "version" else text
    (problem,) = review([SourceFile("main.zk", text.encode())]).problems
    assert name.removeprefix("deploy_") in problem.message


@pytest.mark.parametrize("name", [name for name in SYSTEM_PROPERTIES if name != "type"])
def test_every_proposed_property_of_a_system_node_is_read(name):
    given = {"release": "'1'", name: "{'wrong': 1}"}
    lines = "".join(f"  {key} = {value}\n" for key, value in given.items())
    (problem,) = review([SourceFile("main.zk", f"/os : system\n{lines}  /deploy\n    /h1\n".encode())]).problems
    assert problem.message.startswith(f"{name} is ")


def test_the_proposed_property_of_a_target_is_read():
    (name,) = TARGET_PROPERTIES
    text = f"/x\n  /a : web-1\n    /deploy\n      /h1\n        {name} = 'wrong'\n"
    (problem,) = review([SourceFile("main.zk", text.encode())]).problems
    assert f"{name} is 'wrong'" in problem.message
