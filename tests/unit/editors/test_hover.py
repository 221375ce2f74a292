"""The description of a place in tree files, which is marked with | in a text."""

from __future__ import annotations

import pytest

from support.builders import make_known_host
from zkdeployment.base.source_files import SourceFile
from zkdeployment.editors.rules.completion import describe_tree_place
from zkdeployment.editors.rules.tree_text import Live, TreeContext
from zkdeployment.publishing.rules.review import review

TREE = """\
/shop
  /db : postgres-15 main
    version = '1.10'
    patches = ['db-fix 2']
    /providers
    /deploy
      /db1.example.com
  /web : web
    version = '2'
    deploy_after = ['/shop/db']
    colour = 'red'
    shade => . colour
    /deploy
      /frontend
        n = 2
      /nobody
  /idle : web
    lost => /nowhere colour
  main -> db
  gone -> /nowhere
/os : system
  release = '2026-11-20'
  exclude = ['kernel*']
  /deploy
    /w2
/roles
  /frontend : steward
"""

#: Two hosts, and what ZooKeeper has of the tree.
LIVE = Live(
    (make_known_host("db1.example.com"), make_known_host("w1", None, "frontend")),
    {
        "/shop/web": {"type": "web", "colour": "b" * 300, "shade =>": ". colour"},
        "/shop/db": {"type": "postgres-15", "main ->": "db"},
        "/shop/db/providers": {},
    },
)


def description(place: str, live: Live = LIVE) -> str:
    """Return the description at a place: the first line that begins with the text before |, and the text after."""
    before, _, after = place.partition("|")
    lines = TREE.split("\n")
    number = next(n for n, line in enumerate(lines) if line.lstrip(" ").startswith(before + after))
    column = lines[number].index(before + after) + len(before)
    return describe_tree_place(
        TreeContext(review([SourceFile("main.zk", TREE.encode())]), live), lines, number, column
    )


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("/d|b :", "A service: package `postgres-15 1.10`, subtype main."),
        ("/d|b :", "Patches: db-fix 2."),
        ("/d|b :", "- db1.example.com: 1 instance. Hosts: db1.example.com"),
        ("/d|b :", "- type = `postgres-15`"),
        ("/d|b :", "- main -> `db`"),
        ("/w|eb :", "Deployed after: /shop/db."),
        ("/w|eb :", "- frontend: 2 instances. Hosts: w1"),
        ("/w|eb :", "- nobody: 1 instance. No known host has this id, name or role."),
        ("/w|eb :", f"- colour = `{'b' * 200}…`"),
        ("/i|dle", "A service that no host deploys: it has no targets below `deploy`."),
        ("/s|hop", "A node with 3 nodes below it."),
        ("/prov|iders", "Running instances of `/shop/db` register below this node."),
        ("/prov|iders", "Published, without properties."),
        ("/dep|loy", "The targets of the service `/shop/db`"),
        ("/db1.ex|ample.com", "A target of the service `/shop/db`."),
        ("/front|end : steward", "The role frontend: its type is the package of the role's controller."),
        ("deploy_after = ['/shop/d|b", "**/shop/db**"),
        ("deploy_after = ['/sh|op/db", "**/shop**"),
        ("ver|sion", "**version** of `/shop/db`"),
        ("ver|sion", "Published: the node has no such property"),
        ("col|our", f"Published: `{'b' * 200}…`"),
        ("sha|de =>", "The link leads to the value `red`."),
        ("sha|de =>", "Published: a link to `. colour`"),
        ("lo|st =>", "/nowhere"),
        ("n| = 2", "The number of instances"),
        ("ma|in ->", "A service: package `postgres-15 1.10`"),
        ("main -> d|b", "**/shop/db**"),
        ("/o|s :", "The operating system of hosts: release `2026-11-20`."),
        ("/o|s :", "- w2. No known host has this id, name or role."),
        ("rele|ase =", "The snapshot of the repositories"),
        ("excl|ude", "Patterns of packages that no update changes."),
        ("/w|2", "A target whose operating system `/os` describes."),
        ("gone -> /now|here", "There is no such node in the files."),
    ],
)
def test_a_place_is_described(place, shown):
    assert shown in description(place)


def test_a_link_that_leads_nowhere_has_no_description():
    assert description("go|ne ->") == ""


def test_without_zookeeper_no_hosts_and_no_published_values_are_named():
    text = description("/w|eb :", Live())
    assert "- nobody: 1 instance. " in text
    assert "host" not in text
    assert "Published" not in text
