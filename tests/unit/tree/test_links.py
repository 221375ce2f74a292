import pytest

from zkdeployment.base.errors import LinkError
from zkdeployment.tree.links import MissingTargetError, property_value, resolve, resolved_properties
from zkdeployment.tree.parse import parse


def lookup(text):
    parsed = parse("a.zk", text)
    assert parsed.problems == ()
    return parsed.tree.properties


README = """
/lb : ipvs
  /pools
    /cms
      providers -> /cms/providers
/cms
  /providers
    /1.2.3.4:5
  /databases
    main -> /databases/cms
/databases
  /cms
    /providers
"""

CIRCLES = """
/top
  /a
    top -> /top
    loop -> /top/a/b/loop
    grow -> grow/x
    /b
      top -> /top
      loop -> /top/a/loop
      /c
        top -> /top
        /d
          name = 'd'
          top -> /top
          loop -> /top/a/b/c/d/loop
"""

RELATIVE = """
/a
  /b
    l -> c
    l2 -> ../c
    l4 -> /a/c/
    l3 -> ./../c/.
    up -> ..
    out -> ../..
    far -> ../../..
    /c
      /d
  /c
"""


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (README, "/cms", "/cms"),
        (README, "/lb/pools/cms/providers", "/cms/providers"),
        (README, "/lb/pools/cms/providers/1.2.3.4:5", "/cms/providers/1.2.3.4:5"),
        (README, "/cms/databases/main/providers", "/databases/cms/providers"),
        (README, "/cms/./databases//main/", "/databases/cms"),
        (README, "/", ""),
        (README, "/cms/..", ""),
        (RELATIVE, "/a/b/l", "/a/b/c"),
        (RELATIVE, "/a/b/l/d", "/a/b/c/d"),
        (RELATIVE, "/a/b/l2", "/a/c"),
        (RELATIVE, "/a/b/l3", "/a/c"),
        (RELATIVE, "/a/b/l4", "/a/c"),
        (RELATIVE, "/a/b/up/b/up/c", "/a/c"),
        (RELATIVE, "/a/b/out/a/c", "/a/c"),
        (RELATIVE, "/a/b/l2/../c", "/a/b/c"),  # dots are taken out of a path before links are followed
        (CIRCLES, "/top/a/b/c/d", "/top/a/b/c/d"),
        (CIRCLES, "/top/a/top/a/b/top/a/b/c/top/a/b/c/d", "/top/a/b/c/d"),
        (CIRCLES, "/top/a/b/c/d/./../..", "/top/a/b"),
    ],
)
def test_links_are_followed_anywhere_in_a_path(text, path, expected):
    assert resolve(lookup(text), path) == expected


def test_a_child_hides_a_link_of_its_name():
    assert resolve(lookup("/a\n  b -> /c\n  /b\n/c\n"), "/a/b") == "/a/b"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/top/x", "there is no node /top/x"),
        ("/top/x/y", "/top/x/y: there is no node /top/x"),
        ("/top/a/top/a/b/top/x", "/top/a/top/a/b/top/x -> /top/a/b/top/x -> /top/x: there is no node /top/x"),
        (
            "/top/a/b/c/d/loop",
            "links in a circle: /top/a/b/c/d/loop -> /top/a/b/c/d/loop",
        ),
        (
            "/top/a/loop/b/c/d",
            "links in a circle: /top/a/loop/b/c/d -> /top/a/b/loop/b/c/d -> /top/a/loop/b/c/d",
        ),
        ("/..", "/.. leads out of the tree"),
        ("top", "'top' is not the path of a node: expected a path that begins with /"),
        ("", "'' is not the path of a node: expected a path that begins with /"),
    ],
)
def test_the_message_of_a_broken_link_shows_the_links_to_it(path, message):
    with pytest.raises(LinkError) as error:
        resolve(lookup(CIRCLES), path)
    assert str(error.value) == message


def test_link_out_of_the_tree_is_an_error():
    with pytest.raises(LinkError, match=r"/a/b/\.\./\.\./\.\. leads out of the tree"):
        resolve(lookup(RELATIVE), "/a/b/far")


def test_path_that_grows_too_long_is_an_error():
    nodes = {"/a": {"l ->": "x/" * 3000}, "/b": {"m ->": "m/" + "y/" * 1000}}
    with pytest.raises(LinkError, match=r"/a/x/x/.*\.\.\. has 6003 characters; expected at most 4096"):
        resolve(nodes.get, "/a/l")
    with pytest.raises(LinkError, match="expected at most 4096"):
        resolve(nodes.get, "/b/m")
    longest = "/a/" + "x" * 4093
    assert resolve({"/a": {}, longest: {}}.get, longest) == longest


def test_growing_circle_ends_at_the_limit():
    with pytest.raises(LinkError, match="more than 64 links to follow: /top/a/grow -> /top/a/grow/x"):
        resolve(lookup(CIRCLES), "/top/a/grow")


def chain(count):
    nodes = [f"/n{n}\n  l -> /n{n + 1}/l\n  x => /n{n + 1}\n" for n in range(count)]
    return lookup("".join(nodes) + f"/n{count}\n  x = 1\n  /l\n")


def test_long_chains_are_followed_up_to_the_limit():
    assert resolve(chain(64), "/n0/l") == "/n64/l"
    assert property_value(chain(64), "/n0", "x") == 1
    for count in (65, 10_000):
        with pytest.raises(LinkError, match="more than 64 links to follow: /n0/l -> /n1/l -> "):
            resolve(chain(count), "/n0/l")
        with pytest.raises(LinkError, match="more than 64 links to follow: /n0 x -> /n1 x -> "):
            property_value(chain(count), "/n0", "x")


def test_missing_nodes_are_named():
    with pytest.raises(MissingTargetError) as error:
        resolve(lookup("/a\n  b -> /c/d\n/c\n"), "/a/b/x")
    assert error.value.path == "/c/d"


RELATIVE_PROPERTIES = """
/a
  /b
    x => c x
    xx => ./c x
    x2 => .. x
    x3 => ../c x
    x22 => ./.. x
    x33 => ./../c x
    x333 => .././c x
    same => ../c
    via => link x
    link -> /a/c
    /c
      x=1
  /c
    x = 3
    same = 'same'
  x = 2
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [("x", 1), ("xx", 1), ("x2", 2), ("x22", 2), ("x3", 3), ("x33", 3), ("x333", 3), ("same", "same"), ("via", 3)],
)
def test_property_links_are_followed(name, value):
    assert property_value(lookup(RELATIVE_PROPERTIES), "/a/b", name) == value


def test_relative_property_link_starts_at_the_node_that_holds_it():
    resolved = lookup("/a\n  x => ../b\n/b\n  x = 1\n/c\n  /d\n    l -> /a\n")
    assert property_value(resolved, "/c/d/l", "x") == 1


def test_property_links_may_pass_a_node_twice():
    resolved = lookup("/x\n  a = 1\n  b => ../y\n/y\n  a => ../x\n  b => ../x c\n/x2\n")
    with pytest.raises(MissingTargetError, match="/x b -> /y b -> /x c: /x has no property c"):
        property_value(resolved, "/x", "b")
    assert property_value(resolved, "/y", "a") == 1


@pytest.mark.parametrize(
    ("properties", "name", "message"),
    [
        ({}, "x", "/a x: /a has no property x"),
        ({"x =>": "/b"}, "x", "there is no node /b"),
        ({"x =>": ". y"}, "x", "/a x -> /a y: /a has no property y"),
        ({"x =>": "/a"}, "x", "links in a circle: /a x -> /a x"),
        ({"x =>": "/a y", "y =>": ". x"}, "x", "links in a circle: /a x -> /a y -> /a x"),
        ({"x =>": ""}, "x", "/a x: expected PATH [PROPERTY], found ''"),
        ({"x =>": "/a b c"}, "x", "/a x: expected PATH [PROPERTY], found '/a b c'"),
        ({"x =>": 1}, "x", "/a x: expected PATH [PROPERTY], found 1"),
        ({"x =>": "/ y"}, "x", "/a x -> / y: / has no property y"),
    ],
)
def test_invalid_property_links_have_messages(properties, name, message):
    with pytest.raises(LinkError) as error:
        property_value({"/a": properties}.get, "/a", name)
    assert message in str(error.value)
    assert str(error.value).count("None") == 0


@pytest.mark.parametrize("target", [1, "", None, ["/b"]])
def test_a_symbolic_link_whose_target_is_not_a_path_is_an_error(target):
    with pytest.raises(LinkError):
        resolve({"/a": {"x ->": target}}.get, "/a/x")


def test_resolved_properties_contain_the_values_of_links():
    resolved = lookup("/a\n  x = 1\n  y => /b\n  x => /b\n  l -> /b\n/b\n  x = 2\n  y = [1]\n/c\n  l -> /a")
    assert resolved_properties(resolved, "/a") == {"x": 1, "y": [1], "l ->": "/b"}
    assert resolved_properties(resolved, "/c/l") == {"x": 1, "y": [1], "l ->": "/b"}
    with pytest.raises(LinkError):
        resolved_properties({"/a": {"x =>": "/b"}}.get, "/a")


@pytest.mark.parametrize(
    ("name", "shown"), [("x" * 197, "/a/" + "x" * 197), ("x" * 198, "/a/" + "x" * 194 + "...")]
)
def test_each_step_of_a_chain_is_shown_up_to_200_characters(name, shown):
    with pytest.raises(LinkError) as error:
        resolve({"/a": {f"{name} ->": "b"}}.get, f"/a/{name}")
    assert str(error.value) == f"{shown} -> /a/b: there is no node /a/b"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (7, "/n0/l -> /n1/l -> /n2/l -> /n3/l -> /n4/l -> /n5/l -> /n6/l -> /n7/l"),
        (8, "/n0/l -> /n1/l -> /n2/l -> /n3/l -> ... -> /n7/l -> /n8/l"),
    ],
)
def test_a_chain_of_more_than_8_steps_is_shown_without_its_middle(count, shown):
    nodes = {f"/n{n}": {"l ->": f"/n{n + 1}/l"} for n in range(count)} | {f"/n{count}": {}}
    with pytest.raises(LinkError) as error:
        resolve(nodes.get, "/n0/l")
    assert str(error.value) == f"{shown}: there is no node /n{count}/l"
