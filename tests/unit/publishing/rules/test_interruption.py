import re

import pytest

from zkdeployment.base.cluster import BY_HAND, Cluster
from zkdeployment.base.publication import Published
from zkdeployment.base.source_files import SourceFile
from zkdeployment.publishing.rules.changes import (
    incompleteness,
    ordered_revision,
    ordered_targets,
    ordered_tree,
)
from zkdeployment.publishing.rules.review import review
from zkdeployment.tree.values import LiveTree

SERVICE = "  /{} : foo\n    version = '1.0'\n    /deploy\n      /a\n"
INTERRUPTED = Published(ordered="r1", begun=frozenset({"/new"}))
IMPORTING = Cluster("r1", importing="r2")


def read(text):
    return review([SourceFile("a.zk", text.encode())])


LAST = read("/shop\n" + SERVICE.format("db"))
NEXT = read("/shop\n" + SERVICE.format("web") + "/new\n" + SERVICE.format("x"))
LIVE = read("/shop\n" + SERVICE.format("web") + "/new\n" + SERVICE.format("x") + "/hand\n" + SERVICE.format("y"))


def paths(targets):
    return {name: [assignment.path for assignment in of_name] for name, of_name in targets.items()}


def test_hosts_were_ordered_to_deploy_the_last_text_and_nodes_without_a_file():
    assert ordered_revision(INTERRUPTED) == "r1"
    targets = ordered_targets(INTERRUPTED, IMPORTING, LIVE.targets, NEXT, LAST)
    assert paths(targets) == {"a": ["/shop/db", "/hand/y"]}
    tree = ordered_tree(INTERRUPTED, IMPORTING, LiveTree(LIVE.linted.tree), LAST)
    assert [path for path in sorted(tree) if path.count("/") < 3] == ["/hand", "/hand/y", "/shop", "/shop/db"]


def test_hosts_have_a_complete_publication():
    complete = Published(revision="r1", ordered="r1")
    assert ordered_revision(complete) is None
    assert ordered_targets(complete, Cluster("r1"), LIVE.targets, NEXT, LAST) is None
    assert ordered_tree(complete, Cluster("r1"), LiveTree(LIVE.linted.tree), LAST) is None
    assert incompleteness(complete, Cluster("r1"), is_known=False) is None


def test_a_fleet_without_a_publication_had_the_targets_that_the_first_one_did_not_begin():
    first = Published(begun=frozenset({"/new"}))
    importing = Cluster("initial", importing="r1")
    assert paths(ordered_targets(first, importing, LIVE.targets, NEXT, None)) == {"a": ["/hand/y"]}
    assert set(ordered_tree(first, importing, LiveTree(LIVE.linted.tree), None).tops) == {"/hand", "/shop"}
    assert ordered_tree(first, Cluster("initial"), LiveTree(LIVE.linted.tree), None) is None


def test_hosts_with_a_version_that_was_set_by_hand_have_the_live_tree():
    assert ordered_tree(INTERRUPTED, Cluster("r7", importing="r2"), LiveTree(LIVE.linted.tree), LAST) is None


@pytest.mark.parametrize(
    ("cluster", "is_known", "expected"),
    [
        (IMPORTING, True, "the publication of r2 is not complete: .* last ordered to deploy r1$"),
        (IMPORTING, False, "last ordered to deploy r1, whose tree cannot be read, .* with --config, or"),
        (Cluster("r1", importing=BY_HAND), True, "an import by hand is not complete: "),
        (Cluster("r7", importing="r2"), False, "r2 is not complete: it is under way, or was interrupted$"),
    ],
)
def test_a_warning_names_the_incomplete_publication(cluster, is_known, expected):
    assert re.search(expected, incompleteness(INTERRUPTED, cluster, is_known=is_known))
