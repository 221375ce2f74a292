"""The outline of a tree file."""

from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.editors.rules.outline import outline
from zkdeployment.tree.parse import LIMITS, parse


def shown(entries, level=0):
    for entry in entries:
        yield f"{'  ' * level}{entry.name} [{entry.detail}] {entry.first}-{entry.last}:{entry.start}"
        yield from shown(entry.children, level + 1)


def test_nodes_are_nested_with_their_properties_and_links():
    text = "# c\n/a : web  x\n\t/bé\n\t\tx = {'k': '=🎉'}  # c\n\n\tl -> ../c\n\tp => /a x\n\t# c\n/c\n"
    assert [*shown(outline(text.split("\n")))] == [
        "/a [web  x] 1-6:0",
        "  /bé [] 2-3:1",
        "    x [{'k': '=🎉'}  # c] 3-3:2",
        "  l [-> ../c] 5-5:1",
        "  p [=> /a x] 6-6:1",
        "/c [] 8-8:0",
    ]


def test_lines_with_errors_leave_the_rest_of_the_outline():
    text = "  x = 1\n/a\n      /b\n  y =\n  what\n /c c\n  z = 1"
    assert [*shown(outline(text.split("\n")))] == [
        "x [1] 0-0:2",
        "/a [] 1-6:0",
        "  /b [] 2-2:6",
        "  y [] 3-3:2",
        "  z [1] 6-6:2",
    ]


def test_the_depth_is_limited():
    lines = [" " * level + "/n" for level in range(3 * LIMITS.depth)]
    (entry,) = outline(lines)
    depth = 1
    while entry.children:
        entry, depth = entry.children[0], depth + 1
    assert depth == LIMITS.depth + 1


LINES = st.sampled_from(["/a", "/b", "x = 1", "l -> /a", "# c", "", "y", "/a b"])


@given(st.lists(st.tuples(st.integers(0, 3), LINES), max_size=12))
def test_every_node_of_the_file_is_in_the_outline_at_its_place(given_lines):
    lines = [f"{'  ' * indent}{line}" for indent, line in given_lines]
    parsed = parse("a.zk", "\n".join(lines))
    found = {}

    def collect(entries, above):
        for entry in entries:
            if entry.name.startswith("/"):
                found.setdefault((entry.first + 1, entry.start + 1), f"{above}{entry.name}")
            collect(entry.children, f"{above}{entry.name}")

    collect(outline(lines), "")
    if not parsed.problems:
        assert found == {place: path for path, place in parsed.positions.items()}
