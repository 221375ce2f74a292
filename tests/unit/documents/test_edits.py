"""Changes of the text of documents: the wanted values, with every other byte unchanged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.errors import TreeError
from zkdeployment.documents.edits import (
    REMOVED,
    add_document,
    change_document,
    remove_document,
    render_document,
)
from zkdeployment.documents.yaml_values import parse_yaml

TEXT = """\
# Versions that broke production.
schema: zkdeployment/Quarantine/v1   # do not change
metadata: {name: hello, version: 1.10}
data:
  # from the incident report
  reason: 'crashes at start'   # really
  by: alice
  notes: |
    first line
    second line
  seen:
  - ams
  - {site: fra, times: 3}

# The next one.
---
schema: zkdeployment/Quarantine/v1
metadata:
    name: other
    version: "2"
data: {reason: slow, by: bob, time: 2026-01-01}
"""


def values(text):
    return [document.value for document in parse_yaml(text)]


@pytest.mark.parametrize(
    ("position", "way", "value", "before", "after"),
    [
        (0, ("data", "by"), "bob", "  by: alice\n", "  by: bob\n"),
        (0, ("data", "reason"), "yes: no", "'crashes at start'   # really", '"yes: no"   # really'),
        (0, ("metadata", "version"), "1.20", "version: 1.10}", 'version: "1.20"}'),
        (0, ("metadata", "epoch"), 3, "version: 1.10}", "version: 1.10, epoch: 3}"),
        (0, ("metadata", "version"), REMOVED, "name: hello, version: 1.10}", "name: hello}"),
        (0, ("metadata", "name"), REMOVED, "name: hello, version: 1.10}", "version: 1.10}"),
        (0, ("data", "by"), REMOVED, "  by: alice\n", ""),
        (0, ("data", "notes"), "short", "notes: |\n    first line\n    second line\n", "notes: short\n"),
        (0, ("data", "seen"), ["ams"], "  - ams\n  - {site: fra, times: 3}\n", "  - ams\n"),
        (0, ("data", "seen"), REMOVED, "  seen:\n  - ams\n  - {site: fra, times: 3}\n", ""),
        (0, ("data", "new"), {"a": ["x", True]}, "3}\n", "3}\n  new:\n    a:\n      - x\n      - true\n"),
        (0, ("data", "seen", 1, "times"), 4, "times: 3}", "times: 4}"),
        (1, ("metadata", "name"), "hello", "    name: other\n", "    name: hello\n"),
        (1, ("data", "reason"), "slow, and wrong", "reason: slow,", 'reason: "slow, and wrong",'),
        (1, ("metadata", "site"), "ams", '    version: "2"\n', '    version: "2"\n    site: ams\n'),
    ],
)  # fmt: skip
def test_only_the_changed_key_changes(position, way, value, before, after):
    assert TEXT.count(before) == 1
    assert change_document(TEXT, position, {way: value}) == TEXT.replace(before, after)


def test_a_mapping_with_one_key_gets_another_one_below():
    text = "metadata:\n    name: hello\n"
    assert change_document(text, 0, {("metadata", "site"): "ams"}) == f"{text}    site: ams\n"


def test_a_document_in_another_layout_is_written_anew_with_its_comments():
    text = "- a\n---\nfirst: 1 # one\nsecond:\n  only: x # two\n"
    changed = change_document(text, 1, {("second", "only"): REMOVED})
    assert values(changed) == [["a"], {"first": "1", "second": {}}]
    assert "first: 1 # one\n" in changed


def test_a_place_that_does_not_exist_is_refused():
    for way in [("data", "seen", 7), ("nothing", "below"), ("data", "by", "deeper")]:
        with pytest.raises(TreeError, match="no such place"):
            change_document(TEXT, 0, {way: "x"})
    with pytest.raises(TreeError, match="no such place"):
        change_document(TEXT, 0, {("data", "nothing"): REMOVED})


@pytest.mark.parametrize("other", ["a: 1\na: 2\n", "a: [\n"])
def test_an_error_in_another_document_of_the_file_is_refused_with_its_place(other):
    text = f"{TEXT}---\n{other}"
    place = rf"its file has an error at {TEXT.count(chr(10)) + 3}:1: "
    with pytest.raises(TreeError, match=place):
        change_document(text, 0, {("data", "by"): "bob"})
    with pytest.raises(TreeError, match=place):
        remove_document(text, 0)


def test_a_document_is_added_at_the_end():
    content = {"schema": "zkdeployment/Quarantine/v1", "metadata": {"name": "x", "version": "010"}}
    added = add_document(TEXT, content)
    assert added == TEXT + '---\nschema: zkdeployment/Quarantine/v1\nmetadata:\n  name: x\n  version: "010"\n'
    assert values(added) == [*values(TEXT), content]
    assert add_document("\n", content) == render_document(content)
    assert values(add_document("a: 1", content)) == [{"a": "1"}, content]


def test_a_document_is_removed_and_the_others_stay_unchanged():
    first, second = TEXT.split("---\n")
    assert remove_document(TEXT, 1) == first
    assert remove_document(TEXT, 0) == "# Versions that broke production.\n---\n" + second
    assert remove_document(first, 0) == ""


CHARACTERS = st.one_of(
    st.characters(exclude_categories=["C", "Z"]), st.sampled_from(" \"'#:-{}[]&*!|>%@`,?0123456789")
)
KEYS = st.text(CHARACTERS, min_size=1, max_size=6)
LEAVES = st.one_of(st.text(CHARACTERS, max_size=12), st.integers(-99, 99), st.booleans(), st.none())
CONTENTS = st.recursive(
    st.dictionaries(KEYS, LEAVES, min_size=1, max_size=4),
    lambda inner: st.dictionaries(
        KEYS, st.one_of(LEAVES, inner, st.lists(inner, max_size=2)), min_size=1, max_size=4
    ),
    max_leaves=12,
)


def as_text(value):
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return value if isinstance(value, str) else json.dumps(value)


@given(CONTENTS)
def test_any_content_is_rendered_so_that_it_reads_the_same(content):
    assert values(render_document(content)) == [as_text(content)]


@given(CONTENTS, CONTENTS, st.data())
def test_a_changed_key_leaves_every_other_line_byte_for_byte(content, other, data):
    text = f"# top\n{render_document(content)}# between\n---\n{render_document(other)}# end\n"
    key = data.draw(st.sampled_from(sorted(content)))
    value = data.draw(st.one_of(LEAVES, CONTENTS))
    changed = change_document(text, 0, {(key,): value})
    assert values(changed) == [as_text(content | {key: value}), as_text(other)]
    _, _, rest = text.partition("# between\n")
    assert changed.startswith("# top\n")
    assert changed.endswith(f"# between\n{rest}")
    kept = changed.partition("# between\n")[0].splitlines()
    others = {name: item for name, item in content.items() if name != key}
    assert [line for line in (render_document(others) if others else "").splitlines() if line not in kept] == []
