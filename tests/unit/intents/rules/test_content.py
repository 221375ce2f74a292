"""The content of intents: what changes its digest, and which nodes a change names."""

from dataclasses import replace

import pytest
from hypothesis import given

from support.trees import trees
from zkdeployment.intents.documents import ClusterIntents, DeploymentIntentGroup
from zkdeployment.intents.rules.content import changed_keys, changed_paths, intent_content
from zkdeployment.tree.parse import parse

TREE = """\
/p1
  /shop
    /front : front
      version => /defaults version
      database -> /p1/db/providers
      greeting = 'hello'
      /deploy
        /web
        /host1
          n = 2
  /db
    /providers
      port = 5432
    version = '9'
/defaults
  version => /releases stable
  unrelated = 1
/releases
  stable = '1.1'
/elsewhere
  x = 1
"""
SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/p1/shop/front",)})
WEB = ClusterIntents("ams", "web", {"front": ("/p1/shop/front",)})


def content(text=TREE, intent=SHOP):
    parsed = parse("t.zk", text)
    assert parsed.problems == ()
    return intent_content(intent, parsed.tree)


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ("greeting = 'hello'", "greeting = 'bye'", ("/p1/shop/front",)),
        ("stable = '1.1'", "stable = '1.2'", ("/p1/shop/front", "/releases")),
        ("port = 5432", "port = 5433", ("/p1/db/providers",)),
        ("n = 2", "n = 3", ("/p1/shop/front/deploy/host1",)),
        ("        /web\n", "", ("/p1/shop/front/deploy/web",)),
        ("/web\n", "/web\n        /new\n", ("/p1/shop/front/deploy/new",)),
        ("-> /p1/db/providers", "-> /elsewhere", ("/elsewhere", "/p1/db/providers", "/p1/shop/front")),
    ],
)
def test_a_change_of_the_content_changes_the_digest_and_names_the_nodes(before, after, paths):
    old, new = content(), content(TREE.replace(before, after))
    assert old.digest != new.digest
    assert changed_paths(old, new) == paths


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 2"),
        ("unrelated = 1", "unrelated = 2"),
        ("version = '9'", "version = '10'"),
        ("version => /defaults version", "version = '1.1'"),
        ("version => /defaults version", "version => /releases stable"),
    ],
)
def test_changes_that_scripts_of_the_group_cannot_notice_do_not_change_the_digest(before, after):
    assert content().digest == content(TREE.replace(before, after)).digest


def test_apps_and_profile_belong_to_the_content_and_the_order_of_paths_does_not():
    assert content().digest.startswith("sha256:")
    wider = DeploymentIntentGroup("p1", "store", "v1", "shop", "big", {"front": ("/p1/shop/front", "/p1/db")})
    turned = DeploymentIntentGroup("p1", "store", "v1", "shop", "big", {"front": ("/p1/db", "/p1/shop/front")})
    assert content(intent=wider).digest == content(intent=turned).digest
    assert changed_keys(content(), content(intent=wider)) == ("apps", "composite-profile")


def test_the_content_of_a_cluster_has_no_other_targets():
    other = TREE.replace("n = 2", "n = 3")
    assert content(intent=WEB).digest == content(other, WEB).digest
    assert content(intent=WEB).digest != content(TREE.replace("/web\n", "/web\n          n = 2\n"), WEB).digest


@pytest.mark.parametrize("link", ["-> /nowhere", "-> /p1/shop/front/database", "-> /p1"])
def test_a_broken_or_circular_link_counts_in_its_written_form_and_a_wide_one_is_read_once(link):
    text = TREE.replace("-> /p1/db/providers", link)
    assert content(text).digest != content().digest


@given(trees(), trees())
def test_the_content_of_any_tree_has_a_digest_that_differs_if_a_node_of_the_subtrees_does(one, other):
    whole = replace(SHOP, apps={"all": tuple({*one.tops, *other.tops})})
    old, new = intent_content(whole, one), intent_content(whole, other)
    assert set(old.nodes) >= set(one)
    assert intent_content(whole, one).digest == old.digest
    if set(changed_paths(old, new)) & {*old.nodes, *new.nodes}:
        assert old.digest != new.digest
