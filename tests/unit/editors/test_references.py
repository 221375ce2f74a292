"""References: all places whose definition is the same node or property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.source_files import SourceFile
from zkdeployment.editors.rules.completion import node_under
from zkdeployment.editors.rules.naming import (
    Subject,
    definition_at,
    node_in_documents,
    reference_places,
    subject_at,
)
from zkdeployment.editors.rules.tree_text import TreeContext
from zkdeployment.publishing.rules.review import review

FILES = {
    "main.zk": """\
/a : t-1
  x = 1
  /b
    x = 2
    y => /a x
    z => .. x
    up -> ..
  l -> b
/c : c-1
  deploy_after = ['/a', '/a/b']
  x => /a/l
  w => /a/b y
  v => /a type
  gone -> /nowhere
  /deploy
    /h1
/d
  m -> /a/l
  w => /d/m x
""",
    "more.zkx": "/a\n  x = 3\n  /b\n    new = 1\n",
    "duty.yaml": "schema: zkdeployment/OnCall/v1\nmetadata: {name: n}\n"
    "data: {object: '/a', contacts: [{name: ann, email: ann@example.com}]}\n",
}


def context_of(files):
    return TreeContext(review(SourceFile(name, text.encode()) for name, text in files.items()))


def found(subject, *, files=FILES, with_definitions=False):
    """Return the references as file, line from 1, and text."""
    texts = {file: text.split("\n") for file, text in files.items()}
    places = reference_places(context_of(files), subject, texts, with_definitions=with_definitions)
    return [
        f"{place.file}:{place.line + 1} {texts[place.file][place.line][place.start : place.end]}"
        for place in places
    ]


@pytest.mark.all_features
@pytest.mark.parametrize(
    ("subject", "references", "definitions"),
    [
        (
            ("/a", None),
            ["duty.yaml:3 a"]
            + [f"main.zk:{line} {text}" for line, text in [(5, "a"), (7, ".."), (10, "a"), (10, "a"), (11, "a")]]
            + [f"main.zk:{line} a" for line in (12, 13, 18)],
            ["main.zk:1 a", "more.zkx:1 a"],
        ),
        (
            ("/a/b", None),
            ["main.zk:8 b", "main.zk:10 b", "main.zk:11 l", "main.zk:12 b", "main.zk:18 l", "main.zk:19 m"],
            ["main.zk:3 b", "more.zkx:3 b"],
        ),
        (("/a", "x"), ["main.zk:5 x", "main.zk:6 x"], ["main.zk:2 x", "more.zkx:2 x"]),
        (("/a/b", "x"), ["main.zk:11 /a/l", "main.zk:19 x"], ["main.zk:4 x"]),
        (("/a/b", "y"), ["main.zk:12 y"], ["main.zk:5 y"]),
        (("/a", "type"), ["main.zk:13 type"], ["main.zk:1 t-1"]),
        (("/nowhere", None), ["main.zk:14 nowhere"], []),
        (("/c/deploy/h1", None), [], ["main.zk:16 h1"]),
        (("/c", "x"), [], ["main.zk:11 x"]),
    ],
)
def test_all_places_that_lead_to_a_node_or_a_property_are_found(subject, references, definitions):
    assert found(subject) == references
    assert found(subject, with_definitions=True) == sorted(references + definitions, key=_place)


def _place(line):
    place, _ = line.split(" ")
    file, number = place.split(":")
    return file, int(number)


@pytest.mark.parametrize(
    ("line", "word", "subject"),
    [
        ("  x = 1", "x", ("/a", "x")),
        ("    y => /a x", "y", ("/a/b", "y")),
        ("    y => /a x", "/a", ("/a", "x")),
        ("    y => /a x", " x", ("/a", "x")),
        ("  l -> b", "l ", ("/a/b", None)),
        ("  x = 1", " 1", None),
        ("  gone -> /nowhere", "nowhere", ("/nowhere", None)),
    ],
)
def test_the_word_at_a_place_decides_what_is_looked_for(line, word, subject):
    lines = FILES["main.zk"].split("\n")
    number, context = lines.index(line), context_of({"main.zk": FILES["main.zk"]})
    column = line.rindex(word) + len(word)
    assert subject_at(context, lines, number, column, node_under(context, lines, number, column)) == subject


@pytest.mark.all_features
@pytest.mark.parametrize(
    ("word", "node"),
    [
        ("{object: '/a", "/a"),
        ("{object: '/a/b", "/a/b"),
        ("{object: '/a/", "/a/b"),
        ("{object", None),
        ("name: /a/b", None),
    ],
)
def test_only_words_in_the_paths_of_a_document_stand_for_nodes(word, node):
    lines = [
        "schema: zkdeployment/CheckConfiguration/v1",
        "metadata: {name: n}",
        "data: {object: '/a/b', check: {command: c}, constraints: [{property: {name: /a/b}}], fault: x}",
        "---",
        "schema: another.example.com/Program/v1",
    ]
    column = lines[2].index(word) + len(word)
    assert node_in_documents(context_of(FILES), lines, 2, column) == node
    assert node_in_documents(context_of(FILES), [*lines, "["], 2, column) is None


NAMES = st.sampled_from(["a", "b", "c"])


@st.composite
def trees(draw: st.DrawFn) -> str:
    """Return the text of a tree with symbolic links and property links, of which some may be broken."""
    lines: list[str] = []
    steps = st.lists(st.sampled_from(["a", "b", "l0", "..", "."]), min_size=1, max_size=3).map("/".join)
    targets = st.tuples(st.sampled_from(["", "/"]), steps).map("".join)
    for top in draw(st.lists(NAMES, unique=True, min_size=1)):
        lines += [f"/{top}", "  p = 1"]
        lines += [f"  l{number} -> {target}" for number, target in enumerate(draw(st.lists(targets, max_size=2)))]
        lines += [
            f"  q{number} => {target} p" for number, target in enumerate(draw(st.lists(targets, max_size=2)))
        ]
        for below in draw(st.lists(NAMES, unique=True)):
            lines += [f"  /{below}", "    p = 2"]
    return "\n".join(lines) + "\n"


@given(trees())
def test_references_are_the_inverse_of_definitions(text):
    lines = text.split("\n")
    context = context_of({"main.zk": text})

    def node_at(number, column):
        return node_under(context, lines, number, column)

    leads: dict[Subject, set[int]] = {}
    for number, line in enumerate(lines):
        for column in range(len(line) + 1):
            definition = definition_at(context, lines, number, node_at(number, column))
            if definition is not None:
                leads.setdefault(definition, set()).add(number)
    for subject, numbers in leads.items():
        places = [*reference_places(context, subject, {"main.zk": lines}, with_definitions=True)]
        assert numbers <= {place.line for place in places}, subject
        for place in places:
            found_back = subject_at(context, lines, place.line, place.end, node_at(place.line, place.end))
            # The path of a property link names a node, but leads to the property.
            assert found_back == subject or (found_back[0] == subject[0] and subject[1] is None)
