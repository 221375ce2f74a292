"""The intents of a revision: their snapshots, and problems at their places in the documents."""

import pytest

from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.intents.documents import IntentState
from zkdeployment.intents.rules.governance import intent_problems
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.targets.compiler import compile_targets
from zkdeployment.tree.parse import parse

TREE = """\
/p1
  /front : front
    version = '1'
    /deploy
      /web
"""
DOCUMENTS = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data:
  composite-profile: plain
  apps:
    front: [/p1/front]
    db: [/p1/db]
  state: Created
---
schema: zkdeployment/Cluster/v1
metadata: {provider: ams, name: web}
data:
  network-intents: {front: [/p1/front]}
  state: Applied
"""


def test_problems_of_intents_with_the_tree_have_the_place_of_the_path():
    tree = parse("t.zk", TREE).tree
    documents = read_documents([SourceFile("i.yaml", DOCUMENTS.encode())])
    found = [str(problem) for problem in intent_problems(documents, tree, compile_targets(tree)[0])]
    assert found == [
        "i.yaml:7:10: data.apps.db[0]: there is no node /p1/db; expected the path of a node of the tree",
        (
            "i.yaml:13:29: data.network-intents.front[0]: /p1/front for web is governed by p1/store/v1/shop, too;"
            " expected one intent for each service and target"
        ),
    ]


def test_each_intent_has_its_content_and_state():
    tree = parse("t.zk", TREE).tree
    documents = read_documents([SourceFile("i.yaml", DOCUMENTS.encode())])
    snapshots = intent_snapshots(documents, tree)
    assert {subject: snapshot.state for subject, snapshot in snapshots.items()} == {
        ("p1", "store", "v1", "shop"): IntentState.CREATED,
        ("ams", "web"): IntentState.APPLIED,
    }
    assert all("/p1/front/deploy/web" in snapshot.content.nodes for snapshot in snapshots.values())


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("", "1:1: expected the key schema with zkdeployment/DeploymentIntentGroup/v1"),
        ("schema: zkd/Group\n", "1:9: schema: expected zkdeployment/DeploymentIntentGroup/v1, found"),
        ("shcema: zkdeplyoment/DeploymentIntentGroup/v1\n", "1:1: expected the key schema with"),
    ],
)
def test_a_document_with_the_keys_of_an_intent_and_without_its_schema_is_an_error(schema, expected):
    text = f"{schema}metadata: {{name: shop, composite-app: store}}\ndata: {{apps: {{}}}}\n"
    (found,) = read_documents([SourceFile("a.yaml", text.encode())]).problems
    assert str(found).startswith(f"a.yaml:{expected}")


def test_intents_without_any_tree_are_not_compared_with_one():
    document = """\
schema: zkdeployment/Cluster/v1
metadata: {provider: ams, name: web}
data: {network-intents: {vlan12: [/net/vlan12]}, state: Applied}
"""
    alone = SourceFile("c.yaml", document.encode())
    assert review([alone]).problems == ()
    with_tree = review([alone, SourceFile("a.zk", b"/net\n")]).problems
    assert [str(problem).split(": ", 1)[0] for problem in with_tree] == ["c.yaml:3:35"]
