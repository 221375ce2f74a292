"""Renaming nodes: every name that leads to the node changes, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.errors import TreeError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.editors.rules.naming import check_renaming, renaming_places
from zkdeployment.editors.rules.tree_text import TreeContext
from zkdeployment.publishing.rules.review import review

if TYPE_CHECKING:
    from collections.abc import Mapping


def context_of(files: Mapping[str, str]) -> TreeContext:
    return TreeContext(review(SourceFile(name, text.encode()) for name, text in files.items()))


def renamed(files: Mapping[str, str], path: str, name: str) -> dict[str, str]:
    """Return the texts after the renaming."""
    lines = {file: text.split("\n") for file, text in files.items()}
    for edit in sorted(renaming_places(context_of(files), path, lines), reverse=True):
        text = lines[edit.file][edit.line]
        lines[edit.file][edit.line] = text[: edit.start] + name + text[edit.end :]
    return {file: "\n".join(text) for file, text in lines.items()}


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("/a\n  /b\n/c\n  l -> /a/b\n", "/a\n  /new\n/c\n  l -> /a/new\n"),
        ("/a\n  /b\n    p = 1\n/c\n  q => /a/b p\n", "/a\n  /new\n    p = 1\n/c\n  q => /a/new p\n"),
        ("/a\n  /b\n  /c\n    l -> ../b\n", "/a\n  /new\n  /c\n    l -> ../new\n"),
        ("/a\n  /b\n    /b\n  l -> b/b\n", "/a\n  /new\n    /b\n  l -> new/b\n"),
        (
            "/a\n  /b\n    /x\n/c\n  m -> /a\n  l -> /c/m/b/x\n",
            "/a\n  /new\n    /x\n/c\n  m -> /a\n  l -> /c/m/new/x\n",
        ),
        ("/a\n  /b\n/b\n  l -> /b\n", "/a\n  /new\n/b\n  l -> /b\n"),
        ("/a\n  /b\n  b2 = '/a/b'\n", "/a\n  /new\n  b2 = '/a/b'\n"),
        (
            "/a\n  /b : b-1\n  /c : c-1\n    deploy_after = ['/a/b', '/a/c']\n",
            "/a\n  /new : b-1\n  /c : c-1\n    deploy_after = ['/a/new', '/a/c']\n",
        ),
    ],
)
def test_all_names_of_a_node_change(text, after):
    assert renamed({"main.zk": text}, "/a/b", "new") == {"main.zk": after}


@pytest.mark.all_features
def test_layers_and_documents_change_too():
    files = {
        "main.zk": "/a\n  /b : b-1\n    /deploy\n      /h1\n",
        "more.zkx": "/a\n  /b\n    x = 1\n",
        "duty.yaml": "schema: zkdeployment/OnCall/v1\nmetadata: {name: n}\n"
        "data: {object: '/a/b', contacts: [{name: ann, email: ann@example.com}]}\n",
    }
    after = renamed(files, "/a/b", "new")
    assert after["more.zkx"] == "/a\n  /new\n    x = 1\n"
    assert "object: '/a/new'" in after["duty.yaml"]


NAMES = st.sampled_from(["a", "b", "c"])


@st.composite
def trees(draw: st.DrawFn) -> str:
    """Return the text of a tree with links, of which some may be broken."""
    lines: list[str] = []
    for top in draw(st.lists(NAMES, unique=True, min_size=1)):
        lines.append(f"/{top}")
        for below in draw(st.lists(NAMES, unique=True)):
            lines.append(f"  /{below}")
            lines += [f"    /{name}" for name in draw(st.lists(NAMES, unique=True))]
        steps = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=4).map("/".join)
        for number, target in enumerate(draw(st.lists(st.tuples(st.booleans(), steps), max_size=3))):
            is_absolute, path = target
            lines.append(f"  l{number} -> {'/' if is_absolute else ''}{path}")
    return "\n".join(lines) + "\n"


@given(trees(), st.data())
def test_a_renaming_keeps_the_meaning_of_all_links_and_can_be_undone(text, data):
    files = {"main.zk": text}
    context = context_of(files)
    path = data.draw(st.sampled_from(sorted(context.tree)))
    try:
        check_renaming(context, path, "new")
    except TreeError:
        return
    after = renamed(files, path, "new")
    new_path = f"{path.rpartition('/')[0]}/new"
    assert context_of(after).reviewed.errors == ()
    assert sorted(context_of(after).tree) == sorted(
        new_path + node[len(path) :] if node == path or node.startswith(f"{path}/") else node
        for node in context.tree
    )
    assert renamed(after, new_path, path.rpartition("/")[2]) == files


@pytest.mark.parametrize("path", ["/roles", "/roles/web", "/role-locks/web", "/a/b/deploy", "/missing"])
def test_nodes_with_a_meaning_keep_their_names(path):
    files = {"main.zk": "/a\n  /b : b-1\n    /deploy\n      /h1\n/roles\n  /web\n/role-locks\n  /web\n"}
    with pytest.raises(TreeError):
        check_renaming(context_of(files), path)


@pytest.mark.parametrize(
    ("path", "name", "problem"),
    [
        ("/shop/web", "w,b", "name of a service node"),
        ("/shop", "café", "name of a service node"),
        ("/shop/web/notes", "café", None),
        ("/more/deploy/web", "a=b", None),
        ("/shop/web/deploy/host1", "00:15:C5:F4:D4:F0", None),
        ("/shop/web/deploy/host1", "café", "is not a host id, a host name or a role"),
    ],
)
def test_a_new_name_follows_the_rule_for_the_node(path, name, problem):
    files = {
        "main.zk": "/shop\n  /web : shop-1\n    /deploy\n      /host1\n    /notes\n"
        "/more\n  /deploy\n    /web : shop-1\n      /deploy\n        /host2\n"
    }
    context = context_of(files)
    if problem is None:
        check_renaming(context, path, name)
        assert context_of(renamed(files, path, name)).reviewed.errors == ()
    else:
        with pytest.raises(TreeError, match=problem):
            check_renaming(context, path, name)


DUTY = """\
schema: zkdeployment/OnCall/v1
metadata: {name: n}
data:
  contacts: [{name: ann, email: ann@example.com}]
  object: PATH
"""


@pytest.mark.all_features
@pytest.mark.parametrize("spelling", ['"/a\\\n    /b"', '"/\\x61/b"', "&here /a/b", "!!str /a/b", ">-\n    /a/b"])
def test_a_path_in_another_spelling_is_not_overlooked(spelling):
    text = "/a\n  /b : b-1\n    /deploy\n      /h1\n"
    files = {"main.zk": text, "duty.yaml": DUTY.replace("PATH", spelling)}
    with pytest.raises(TreeError, match=r"^duty.yaml:5:11: expected /a/b on one line"):
        renamed(files, "/a/b", "new")


CHECK = """\
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: web}
data:
  object: /shop/web
  monitoring: nagios1
  check: {command: check_http, arguments: ["-u", "/shop/web", /shop]}
  constraints:
  - property: {docroot: /shop}
"""

GROUP = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data:
  composite-profile: plain
  apps: {front: [/shop/web], back: [/shop/db]}
  state: Created
"""


@pytest.mark.all_features
def test_texts_of_documents_that_are_not_paths_of_nodes_stay():
    files = {
        "main.zk": "/shop\n  /web : b-1\n    /deploy\n      /h1\n  /db : b-1\n    /deploy\n      /h2\n",
        "check.yaml": CHECK,
        "group.yaml": GROUP,
    }
    after = renamed(files, "/shop", "store")
    assert after["check.yaml"] == CHECK.replace("object: /shop", "object: /store")
    assert after["group.yaml"] == GROUP.replace("/shop", "/store")


@pytest.mark.all_features
def test_a_path_that_another_text_repeats_by_an_alias_is_not_overlooked():
    text = CHECK.replace("object: /shop/web", "object: &path /shop/web").replace('"/shop/web"', "*path")
    files = {"main.zk": "/shop\n  /web : b-1\n    /deploy\n      /h1\n", "check.yaml": text}
    with pytest.raises(TreeError, match=r"^check.yaml:4:11: expected /shop/web on one line"):
        renamed(files, "/shop/web", "new")


@pytest.mark.all_features
def test_documents_with_problems_forbid_a_renaming():
    text = "/a\n  /b : b-1\n    /deploy\n      /h1\n"
    files = {"main.zk": text, "duty.yaml": DUTY.replace("PATH", "/a/b\n  more: text")}
    with pytest.raises(TreeError, match=r"correct duty.yaml:6:9: "):
        check_renaming(context_of(files), "/a/b")
