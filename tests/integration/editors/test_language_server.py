"""The language server, as a process that an editor talks to."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from support.builders import make_inventory, make_known_host, make_package
from support.commands import invoke
from support.editor import open_editor
from zkdeployment.publishing.store.hosts import write_inventory

if TYPE_CHECKING:
    from support.editor import Editor

TREE = """\
/demo
  /hello : hello
    version = '1.1'
    greeting => /demo/texts greeting
    /providers
    /deploy
      /host1
        n = 2
  /texts
    greeting = 'Hello'
  words -> /demo/texts
  /other : other
    version = '2.0'
    note => /demo/words greeting
    deploy_after = ['/demo/hello']
    /deploy
      /host1
"""

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
    - node_names: [host1]
"""

CHECK = """\
schema: zkdeployment/MonitoringSystem/v1
metadata: {name: nagios1}
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: web}
data:
  object: /demo/hello
  monitoring: nagios1
  check:
    command: check_http
"""


@pytest.fixture
def tree(tmp_path):
    directory = tmp_path / "tree"
    directory.mkdir()
    (directory / "main.zk").write_text(TREE)
    return directory


@pytest.fixture(scope="module")
def editing(tmp_path_factory):
    """Runs coroutines with an editor that has opened a valid tree with a document; the text does not change."""
    directory = tmp_path_factory.mktemp("shared")
    (directory / "main.zk").write_text(TREE)
    (directory / "check.yaml").write_text(CHECK)
    with asyncio.Runner() as runner:
        context = open_editor(directory / "main.zk")
        editor = runner.run(context.__aenter__())
        yield lambda session: runner.run(session(editor))
        runner.run(context.__aexit__(None, None, None))


def path_of(uri: str) -> str:
    return unquote(urlsplit(uri).path)


async def reported(editor: Editor) -> list[str]:
    """Return all published problems in the form of ``lint``; the word warning is in front of the message."""
    lines = []
    await editor.diagnostics()
    for uri in editor.files:
        for one in await editor.diagnostics(uri):
            warning = "warning: " if one.severity is types.DiagnosticSeverity.Warning else ""
            start = one.range.start
            place = f"{path_of(uri)}:{start.line + 1}:{start.character + 1}"
            lines.append(f"{place}: {warning}{one.message}")
    return sorted(lines)


def test_people_write_a_valid_tree_from_an_empty_file_with_completion_alone(tmp_path):
    """The session chooses completions; the only keys besides are line breaks and indentation."""

    async def session() -> str:
        async with open_editor(tmp_path / "first.zk") as editor:
            assert (await editor.labels())[0] == "tree"
            places = await editor.choose("tree")
            assert [place.word for place in places] == ["shop", "web", "package", "1.0", "host"]
            editor.type("  ")
            places = await editor.choose("service")
            # The package, its version and the host are those that the tree has already.
            await editor.fill(places, None, "package", "1.0", "/host")
            editor.go_to("/web : package\n    version = '1.0'", end=True)
            editor.type("\n    ")
            await editor.fill(await editor.choose("rerun"), "changed")
            editor.go_to("      /host\n", end=True)
            editor.cursor -= 1
            editor.type("\n        ")
            await editor.choose("n")
            assert await editor.diagnostics() == []
            return editor.text

    text = asyncio.run(session())
    assert text.count("rerun = 'changed'") == text.count("n = 1") == 1
    (tmp_path / "first.zk").write_text(text)
    done = invoke("lint", "--strict", tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), text


def test_people_write_a_valid_document_from_an_empty_file_with_completion_alone(tree):
    async def session() -> str:
        async with open_editor(tree / "rollout.yaml", language="yaml") as editor:
            places = await editor.choose("DeploymentStrategy")
            assert [place.word for place in places] == ["name", "name", "false", "", ""]
            await editor.fill(places, None, None, "true", None, "host1")
            editor.go_to("      critical: true", end=True)
            editor.type("\n      ")
            assert {"max_parallel", "bake_time", "windows"} <= set(await editor.labels())
            await editor.fill(await editor.choose("manual"), "true")
            (problem,) = await editor.diagnostics()
            assert "strategy name is not in force" in problem.message
            editor.cursor = len(editor.text)
            editor.type("---\n")
            await editor.fill(await editor.choose("DeploymentConfiguration"), "name")
            assert await editor.diagnostics() == []
            return editor.text

    text = asyncio.run(session())
    assert "      manual: true\n" in text
    (tree / "rollout.yaml").write_text(text)
    done = invoke("lint", tree)
    assert (done.returncode, done.stdout) == (0, ""), text


def test_every_problem_of_lint_is_published_at_its_place(tree):
    broken = (
        TREE.replace("version = '1.1'", "version = 1.1")
        .replace("n = 2", "n = -1")
        .replace("=> /demo/words", "=> /demo/wrods")
    )
    (tree / "main.zk").write_text(broken + "/äö🎉\n  x\n/hosts\n  a = 1\n")
    (tree / "more.zkx").write_text("/demo\n    /hello\n  bad\n")
    (tree / "strategy.yaml").write_text(STRATEGY.replace("critical: true", "critical: maybe"))
    (tree / "check.yaml").write_text(
        CHECK.replace("/demo/hello", "/demo/nowhere").replace("name: web", "name: w w")
    )
    (tree / "bad.yaml").write_text("schema: zkdeployment/Quarantine/v1\n  x: [\n")
    (tree / "below").mkdir()
    (tree / "below" / "lost.yaml").write_text(STRATEGY)
    expected = sorted(invoke("lint", tree).stdout.splitlines())
    assert len(expected) > 9

    async def session() -> list[str]:
        async with open_editor(tree / "main.zk") as editor:
            return await reported(editor)

    found = asyncio.run(session())
    assert found == sorted(map(_in_utf16, expected))


def _in_utf16(line: str) -> str:
    """Return a line of ``lint`` with its column in UTF-16, and the word warning in front of the message."""
    match = re.fullmatch(r"(.*?):(\d+):(\d+): (\S+: )?(warning: )?(.*)", line)
    assert match is not None, line
    file, number, column, node, warning, message = match.groups()
    text = Path(file).read_text(encoding="utf-8").split("\n")[int(number) - 1][: int(column) - 1]
    units = len(text.encode("utf-16-le")) // 2 + 1
    return f"{file}:{number}:{units}: {warning or ''}{node or ''}{message}"


def test_problems_come_and_go_while_people_type(tree):
    async def session() -> None:
        async with open_editor(tree / "main.zk") as editor:
            assert await editor.diagnostics() == []
            editor.go_to("version = '1.1'", end=True)
            for key in "\n    pat":
                editor.type(key)
            (problem,) = await editor.diagnostics()
            assert problem.range.start == types.Position(3, 4)
            assert problem.message.startswith("/demo/hello: expected /NODE, /NODE : TYPE, NAME = VALUE")
            assert problem.range.end == types.Position(3, 7)
            editor.type("h = 'x'")
            assert await editor.diagnostics() == []

    asyncio.run(session())


def test_open_texts_count_before_files_on_disk(tree):
    async def session() -> None:
        async with open_editor(tree / "check.yaml", language="yaml") as editor:
            editor.type(CHECK)
            assert await editor.diagnostics() == []
            editor.go_to("/demo/hello")
            editor.replace(editor.cursor, editor.cursor + len("/demo/hello"), "/demo/hallo")
            messages = [problem.message for problem in await editor.diagnostics()]
            assert any("there is no node /demo/hallo" in message for message in messages)

    asyncio.run(session())


def test_only_directories_with_a_tree_are_read_with_their_subdirectories(tmp_path):
    """YAML files of other programs stand above millions of files."""
    choice = "schema: shipyard/DeploymentConfiguration/v1\ndata: {deployment_strategy: careful}\n"
    (tmp_path / "choice.yaml").write_text(choice)
    (tmp_path / "strategy.yaml").write_text(STRATEGY)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "lost.yaml").write_text(STRATEGY)

    async def session() -> list[str]:
        async with open_editor(tmp_path / "choice.yaml", language="yaml") as editor:
            return await reported(editor)

    assert asyncio.run(session()) == []
    (tmp_path / "main.zk").write_text(TREE)
    (problem,) = asyncio.run(session())
    assert problem.startswith(f"{tmp_path}/below/lost.yaml:")


def test_links_lead_to_their_targets(editing):
    async def session(editor: Editor) -> None:
        lines = TREE.splitlines()
        for word, line in (
            ("greeting => /demo/te", "    greeting = 'Hello'"),
            ("greeting => /de", "/demo"),
            ("words -> /demo/te", "  /texts"),
            ("=> /demo/wor", "    greeting = 'Hello'"),
            ("['/demo/hel", "  /hello : hello"),
        ):
            editor.go_to(word, end=True)
            assert await editor.definition() == (editor.uri, lines.index(line) + 1), word
        editor.go_to("version")
        assert await editor.definition() is None

    editing(session)


def test_documents_lead_to_the_nodes_that_they_name(tree):
    (tree / "check.yaml").write_text(CHECK)

    async def session() -> None:
        async with open_editor(tree / "check.yaml", language="yaml") as editor:
            editor.go_to("/demo/hel", end=True)
            assert await editor.definition() == ((tree / "main.zk").as_uri(), 2)
            assert "A service: package `hello 1.1`" in await editor.hover()
            editor.go_to("command")
            assert "Expected: the name of a plugin" in await editor.hover()

    asyncio.run(session())


def test_references_are_all_places_that_lead_to_the_word(tree):
    (tree / "check.yaml").write_text(CHECK)

    async def session() -> None:
        async with open_editor(tree / "main.zk") as editor:
            for word, definition, references in (
                ("/hel", (2, "hello"), [("check.yaml", 7, ""), ("main.zk", 15, "hello")]),
                (
                    "/texts\n",
                    (9, "texts"),
                    [("main.zk", 4, "texts"), ("main.zk", 11, "texts"), ("main.zk", 14, "words")],
                ),
                ("greeting = ", (10, "greeting"), [("main.zk", 4, "greeting"), ("main.zk", 14, "greeting")]),
                ("version", (3, "version"), []),
            ):
                editor.go_to(word)
                editor.cursor += 1
                assert await editor.references() == references, word
                everything = sorted([*references, ("main.zk", *definition)])
                assert await editor.references(with_definitions=True) == everything, word
            editor.go_to("n = 2")
            editor.cursor += 4
            assert await editor.references() == []

    asyncio.run(session())


@pytest.mark.parametrize("encoding", types.PositionEncodingKind)
def test_the_outline_nests_nodes_and_properties_at_their_places(tree, encoding):
    (tree / "main.zk").write_text("/é : 🎉\n\tx = '🎉' \n\t/deploy\n\t\t/h1\n\t\t\tn = 2  # 🎉\n\tl -> ../c\n/c\n")

    async def session() -> None:
        async with open_editor(tree / "main.zk", encoding=encoding) as editor:
            assert await editor.outline() == [
                (0, "/é", "l -> ../c"),
                (1, "x", "x = '🎉'"),
                (1, "/deploy", "n = 2  # 🎉"),
                (2, "/h1", "n = 2  # 🎉"),
                (3, "n", "n = 2  # 🎉"),
                (1, "l", "l -> ../c"),
                (0, "/c", "/c"),
            ]

    asyncio.run(session())


def test_descriptions_explain_nodes_and_properties(editing):
    async def session(editor: Editor) -> None:
        for word, shown in (
            ("/hello : hel", "A service: package `hello 1.1`"),
            ("/deploy\n", "The targets of the service `/demo/hello`"),
            ("/host1", "A target of the service `/demo/hello`"),
            ("/providers", "Running instances of `/demo/hello`"),
            ("/texts\n", "A node"),
            ("n = 2", "The number of instances"),
            ("greeting =>", "The link leads to the value `Hello`"),
            ("note =>", "The link leads to the value `Hello`"),
            ("/other : other", "Deployed after: /demo/hello"),
        ):
            editor.go_to(word)
            editor.cursor += 2
            assert shown in await editor.hover(), word

    editing(session)


def test_a_node_is_renamed_with_everything_that_names_it(tree):
    (tree / "check.yaml").write_text(CHECK)
    (tree / "layer.zkx").write_text("/demo\n  /hello\n    extra = 'x'\n")

    async def session() -> None:
        async with open_editor(tree / "main.zk") as editor:
            before = invoke("lint", tree).stdout
            editor.go_to("/hello : hello")
            editor.cursor += 1
            assert await editor.can_rename()
            changes = await editor.rename("greeter")
            assert {path_of(uri).rpartition("/")[2]: len(edits) for uri, edits in changes.items()} == {
                "main.zk": 2,
                "layer.zkx": 1,
                "check.yaml": 1,
            }
            for uri, edits in changes.items():
                file = tree / path_of(uri).rpartition("/")[2]
                lines = file.read_text().split("\n")
                for edit in reversed(edits):
                    line = edit.range.start.line
                    text = lines[line]
                    lines[line] = (
                        text[: edit.range.start.character] + edit.new_text + text[edit.range.end.character :]
                    )
                file.write_text("\n".join(lines))
            assert invoke("lint", tree).stdout == before
            shown = json.loads(invoke("tree", "show", "--file", tree / "main.zk", "-o", "json").stdout)
            assert shown["/demo/other"]["deploy_after"] == ["/demo/greeter"]
            assert "/demo/greeter/deploy/host1" in shown

    asyncio.run(session())


@pytest.mark.parametrize(
    ("place", "name", "message"),
    [
        ("/texts", "hello", "there is a node or a link /demo/hello"),
        ("/texts", "a b", "is not a node name"),
        ("/deploy", "targets", "has a meaning for zkdeployment"),
        ("version", "x", "there is no name of a node at the cursor"),
    ],
)
def test_impossible_renamings_are_refused_with_their_reason(editing, place, name, message):
    async def session(editor: Editor) -> None:
        editor.go_to(place)
        editor.cursor += 1
        with pytest.raises(JsonRpcException, match=message):
            await editor.rename(name)

    editing(session)


def test_a_tree_with_errors_is_not_renamed(tree):
    (tree / "main.zk").write_text(TREE + "x\n")

    async def session() -> None:
        async with open_editor(tree / "main.zk") as editor:
            editor.go_to("/texts")
            editor.cursor += 1
            with pytest.raises(JsonRpcException, match="the tree has errors"):
                await editor.rename("y")

    asyncio.run(session())


def test_a_text_is_formatted_as_the_verb_does_and_not_with_errors(tree):
    sloppy = TREE.replace(" = ", "=").replace("  ", "\t") + "# the end: 🎉"

    async def session() -> None:
        async with open_editor(tree / "main.zk") as editor:
            await editor.format()
            assert editor.text == TREE
            editor.replace(0, len(TREE), sloppy)
            (tree / "main.zk").write_text(sloppy)
            assert invoke("tree", "fmt", tree).returncode == 0
            await editor.format()
            assert editor.text == (tree / "main.zk").read_text() == f"{TREE}# the end: 🎉\n"
            editor.type("x")
            with pytest.raises(JsonRpcException, match=r"not formatted; correct .*main.zk:19:1: "):
                await editor.format()

    asyncio.run(session())


def test_quick_fixes_resolve_problems_of_the_line(tree):
    (tree / "main.zk").write_text(
        "/é : 🎉\n\tnote = '🎉'\n/a : a\n  b = true\n  verison = 1.10\n  /deploy\n    /h1\n"
        "/c : c\n  version = '1'\n"
    )

    async def session() -> None:
        async with open_editor(tree / "main.zk") as editor:
            for place, title in (
                ("  b =", "Indent with spaces; a tab is 8 columns wide"),
                ("  b =", "Replace true by True"),
                ("/a", "Replace verison by version"),
                ("version", "Replace 1.10 by '1.10'"),
                ("/c", "Add /deploy"),
            ):
                editor.go_to(place)
                assert title in await editor.fix(title)
            assert editor.text == (
                "/é : 🎉\n        note = '🎉'\n/a : a\n  b = True\n  version = '1.10'\n  /deploy\n    /h1\n"
                "/c : c\n  version = '1'\n  /deploy\n"
            )
            assert await editor.diagnostics() == []

    asyncio.run(session())


def test_an_editor_that_can_watch_files_is_asked_to_and_sees_problems_of_changed_files(tree):
    (tree / "check.yaml").write_text(CHECK)

    async def session() -> None:
        async with open_editor(tree / "check.yaml", language="yaml", watches=True) as editor:
            assert await editor.diagnostics() == []
            await editor.until(lambda: bool(editor.registered))
            (registered,) = editor.registered
            assert registered.method == "workspace/didChangeWatchedFiles"
            (watcher,) = registered.register_options["watchers"]
            assert watcher["globPattern"] == "**/*{.zk,.zkx,.yaml,.yml}"
            (tree / "main.zk").write_text(TREE.replace("/hello", "/hallo"))
            editor.report_change(tree / "main.zk")
            await editor.until(lambda: any("/demo/hello" in message for message in editor.messages()))

    asyncio.run(session())


def test_an_editor_that_cannot_watch_files_sees_changed_files_after_its_next_request(tree):
    (tree / "check.yaml").write_text(CHECK)

    async def session() -> None:
        async with open_editor(tree / "check.yaml", language="yaml") as editor:
            assert await editor.diagnostics() == []
            (tree / "main.zk").write_text(TREE.replace("/hello", "/hallo"))
            editor.go_to("/demo/hello", end=True)
            await editor.hover()
            await editor.until(lambda: any("/demo/hello" in message for message in editor.messages()))
            (tree / "main.zk").unlink()
            (tree / "other.zk").write_text(TREE)
            assert (await editor.hover()).startswith("**/demo/hello**")
            await editor.until(lambda: editor.messages() == [])
            (tree / "other.zk").write_text(TREE.replace("/hello", "/hallo"))
            editor.type("")
            assert any("/demo/hello" in problem.message for problem in await editor.diagnostics())
            assert editor.registered == []

    asyncio.run(session())


def test_a_renaming_reads_the_files_again(tree):
    """Some editors do not report files that other programs changed."""
    (tree / "check.yaml").write_text(CHECK)

    async def session() -> None:
        async with open_editor(tree / "main.zk") as editor:
            await editor.diagnostics()
            (tree / "check.yaml").write_text(f"# A comment.\n{CHECK}")
            editor.go_to("/hello : hello")
            editor.cursor += 1
            changes = await editor.rename("greeter")
            (edit,) = next(edits for uri, edits in changes.items() if uri.endswith("check.yaml"))
            line = CHECK.split("\n").index("  object: /demo/hello") + 1
            assert (edit.range.start.line, edit.range.start.character) == (line, len("  object: /demo/"))
            os.mkfifo(tree / "more.zk")
            with pytest.raises(JsonRpcException, match="files that are not read may have links to the node"):
                await editor.rename("greeter")

    asyncio.run(session())


def test_hosts_packages_and_published_values_come_from_zookeeper(tree, zookeeper, client, session):
    client.create("/hosts", b'{"version": "1"}')
    client.create("/demo", b"{}")
    client.create("/demo/hello", b'{"type": "hello", "version": "1.0"}')
    for host in ("host1", "host2"):
        write_inventory(session, make_known_host(host, make_inventory(make_package("hello", "3.0"))))

    async def editing() -> None:
        async with open_editor(tree / "main.zk", "--zookeeper", zookeeper) as editor:
            editor.go_to("/hello : hello")
            editor.cursor += 1
            while "Published" not in (text := await editor.hover()):  # ZooKeeper is read in the background
                assert "A service" in text
            assert "version = `1.0`" in text
            assert "Hosts: host1.example.com (host1)" in text
            editor.go_to("version")
            assert "Published: `1.0`" in await editor.hover()
            editor.go_to("        n = 2\n", end=True)
            editor.type("      ")
            assert {"/host2", "/host2.example.com"} <= set(await editor.labels())

    asyncio.run(editing())


def test_texts_and_messages_of_the_editor_are_not_logged(tree):
    """Trees may hold secrets, and an editor that does not read the log would block the server."""

    async def session() -> str:
        async with open_editor(tree / "main.zk") as editor:
            await editor.diagnostics()
            editor.go_to("version")
            assert "The version of the package" in await editor.hover()
        return editor.log

    assert asyncio.run(session()) == ""


def test_an_unreachable_zookeeper_does_not_delay_the_editor(tree):
    async def session() -> None:
        async with open_editor(tree / "main.zk", "--zookeeper", "127.0.0.1:1") as editor:
            assert await editor.diagnostics() == []
            editor.go_to("/hello : hello")
            editor.cursor += 1
            assert "A service" in await editor.hover()

    asyncio.run(session())


def test_a_missing_library_is_named_with_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.delitem(sys.modules, "zkdeployment.editors.server", raising=False)
    done = invoke("language-server")
    assert done.returncode == 2
    assert "pip install -e '.[editors]' in" in done.stderr
