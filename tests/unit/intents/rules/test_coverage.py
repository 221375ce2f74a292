"""Paths of intents that govern no service, although they read as if they did."""

import pytest

from zkdeployment.base.source_files import Severity, SourceFile
from zkdeployment.intents.documents import ClusterIntents, DeploymentIntentGroup
from zkdeployment.intents.rules.governance import idle_paths
from zkdeployment.publishing.rules.review import review

TREE = """\
/p1
  /shop
    /front : front
      version = '1'
      defaults -> /net/vlan12
      /conf
        greeting = 'hello'
      /deploy
        /web
  /links
    front -> /real/front
    gone -> /nowhere
  /data
    x = 1
/real
  /front : real
    version = '1'
    /deploy
      /web
/net
  /vlan12 : vlan
    version = '1'
    /deploy
      /db
      /web
"""
GROUP = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {{project: p1, composite-app: store, version: v1, name: shop}}
data: {{composite-profile: plain, apps: {{all: [{}]}}, state: Created}}
"""
CLUSTER = """\
schema: zkdeployment/Cluster/v1
metadata: {{provider: ams, name: {}}}
data: {{network-intents: {{all: [{}]}}, state: Created}}
"""


def warnings(document, tree=TREE):
    files = [SourceFile("a.zk", tree.encode()), SourceFile("i.yaml", document.encode())]
    reviewed = review(files)
    assert [problem.severity for problem in reviewed.problems if problem.file == "i.yaml"] == [
        Severity.WARNING for problem in reviewed.problems if problem.file == "i.yaml"
    ]
    return [problem.message for problem in reviewed.problems if problem.file == "i.yaml"]


def test_a_path_at_or_above_a_service_needs_no_warning():
    assert warnings(GROUP.format("/p1/shop")) == []
    assert warnings(GROUP.format("/p1/shop/front")) == []
    assert warnings(CLUSTER.format("web", "/net")) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/p1/data", "a path at or above a service"),
        ("/p1/shop/front/conf", "the path of the service above it, /p1/shop/front"),
    ],
)
def test_a_path_without_a_service_is_named(path, expected):
    (found,) = warnings(GROUP.format(path))
    assert found == f"there is no service at or below {path}: nothing is governed; expected {expected}"


def test_a_service_behind_a_link_is_named_unless_an_intent_governs_it():
    (found,) = warnings(GROUP.format("/p1/links"))
    assert found == (
        "the service /real/front is reached only through the link /p1/links/front: it is not governed; name"
        " /real/front among the paths"
    )
    both = warnings(GROUP.format("/p1/links, /real/front"))
    assert both == [
        "there is no service at or below /p1/links: nothing is governed; expected a path at or above a service"
    ]


def test_a_cluster_of_a_target_that_its_services_do_not_have_is_named():
    assert warnings(CLUSTER.format("wbe", "/net/vlan12")) == [
        "no service at or below /net/vlan12 has the target wbe: nothing is governed; expected one of: db, web"
    ]
    empty = TREE.replace("      /db\n      /web\n", "")
    (found,) = warnings(CLUSTER.format("web", "/net/vlan12"), empty)
    assert found.endswith("nothing is deployed there")


def test_idle_paths_have_no_service_of_the_content_at_or_below_them():
    nodes = {"/a": {}, "/a/deploy": {}, "/a/deploy/web": {}, "/b": {"x": 1}, "/c/d": {"deploy ->": "/x"}}
    group = DeploymentIntentGroup("p", "a", "v", "g", "plain", {"x": ("/a", "/b"), "y": ("/c",)})
    assert idle_paths(group, nodes) == ("/b",)
    assert idle_paths(ClusterIntents("ams", "web", {"x": ("/a", "/b", "/c")}), nodes) == ("/b",)
    assert idle_paths(ClusterIntents("ams", "db", {"x": ("/a",)}), nodes) == ("/a",)
