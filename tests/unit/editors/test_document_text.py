"""Places in documents, and completion of keys and values, at the place that is marked with | in a text."""

from __future__ import annotations

import pytest

from support.builders import make_known_host
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.kinds import known_kinds
from zkdeployment.editors.rules.document_text import (
    ITEM,
    describe_place,
    document_proposals,
    form_at,
    place_at,
    skeleton,
)
from zkdeployment.editors.rules.tree_text import Live, TreeContext
from zkdeployment.publishing.rules.review import review

STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata:
  name: careful
data:
  groups:
  - name: first
    critical: true
    depends_on: []
    selectors:
      - node_tags: [a]
"""

TREE = "/shop\n  /web : web-1\n    /deploy\n      /h1\n"


def at_mark(text: str) -> tuple[list[str], int, int]:
    before, _, after = text.partition("|")
    return (before + after).split("\n"), before.count("\n"), len(before.rpartition("\n")[2])


def labels(text: str) -> list[str]:
    host = make_known_host("h1", tags=("fast",), labels={"tier": "web"}, rack="r1")
    lines, number, column = at_mark(text)
    files = [SourceFile("main.zk", TREE.encode()), SourceFile("a.yaml", STRATEGY.encode())]
    found = document_proposals(TreeContext(review(files), Live((host,))), lines, number, column)
    return [one.label for one in found]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (STRATEGY + "  |", ("data",)),
        (STRATEGY + "    |", ("data", "groups", ITEM)),
        (STRATEGY + "        |", ("data", "groups", ITEM, "selectors", ITEM)),
        (STRATEGY + "  - |", ("data", "groups", ITEM)),
        (STRATEGY + "    bake_time: |", ("data", "groups", ITEM, "bake_time")),
        (STRATEGY + "    depends_on: [|", ("data", "groups", ITEM, "depends_on", ITEM)),
        (STRATEGY.replace("  - name: first", "  -\n    na|me: first"), ("data", "groups", ITEM)),
        ("a: 1\n---\n" + STRATEGY.replace("name: careful", "name: |"), ("metadata", "name")),
    ],
)
def test_the_keys_above_a_place_follow_from_the_indentation(text, way):
    place = place_at(*at_mark(text))
    assert place.way == way
    assert place.kind is not None
    assert place.form


@pytest.mark.all_features
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("schema: |", list(known_kinds().by_schema)),
        (STRATEGY + "    bake_time: |", []),
        (STRATEGY + "    manual: |", ["false", "true"]),
        (STRATEGY + "      - node_names: [|", ["h1"]),
        (STRATEGY + "      - node_tags:\n        - |", ["fast"]),
        (STRATEGY + "      - node_labels: [|", ["'tier: web'"]),
        (STRATEGY + "      - rack_names: [|", ["r1"]),
        (STRATEGY + "      - |", ["node_labels", "node_names", "node_tags", "rack_names"]),
        (STRATEGY + "  |", ["absent_after", "deploy_timeout", "on_failure", "prepare_timeout"]),
        (STRATEGY + "  on_failure: |", ["rollback", "stop"]),
        ("schema: shipyard/DeploymentConfiguration/v1\ndata:\n  deployment_strategy: |", ["careful"]),
        ("schema: zkdeployment/OnCall/v1\ndata:\n  object: |", ["/shop/web", "/shop"]),
        ("a: |", []),
        ("# |", []),
    ],
)
def test_proposals_fit_their_place(text, expected):
    assert labels(text) == expected


def test_required_keys_come_first():
    found = labels(STRATEGY + "  - name: second\n    |")
    assert found[:3] == ["critical", "depends_on", "selectors"]
    assert "name" not in found


def test_an_empty_document_becomes_one_of_any_kind():
    assert labels("|") == [kind.title for kind in known_kinds().by_schema.values()]
    assert labels(STRATEGY + "---\n|") == labels("|")


@pytest.mark.parametrize("schema", sorted(known_kinds().by_schema))
def test_skeletons_have_all_required_keys(schema):
    form = known_kinds().by_schema[schema].form
    text = skeleton(form)
    for key in form["required"]:
        assert f"{key}:" in text
        for below in form["properties"][key].get("required", ()):
            assert f"  {below}:" in text


def test_descriptions_name_required_and_further_keys():
    place = place_at(*at_mark(STRATEGY.replace("groups:", "groups:|")))
    assert "Expected: a list." in describe_place(place)
    shown = describe_place(place_at(*at_mark(STRATEGY.replace("\ndata:", "\ndata:|"))))
    assert "Required keys: groups." in shown
    assert "Further keys: absent_after" in shown
    assert describe_place(place_at(*at_mark("a: |"))) == ""


def test_unknown_ways_have_no_form():
    assert form_at({"properties": {"a": {"type": "string"}}}, ("b", "c")) == {}
