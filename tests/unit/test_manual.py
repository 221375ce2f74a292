"""The manual: its commands are valid, its quotations are messages of the program, each alarm has a page."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import runpy
import shlex
import textwrap
from typing import TYPE_CHECKING

import click
import pytest
import yaml

from benchmarks.keeping import RESULTS, files, highlights, load
from benchmarks.results import HIGHLIGHTS
from support.manual import HERE, MANUAL, PAGES, blocks, commands
from zkdeployment.base.source_files import SourceFile
from zkdeployment.config.settings import load as load_settings
from zkdeployment.config.settings import section_tables
from zkdeployment.programs.verbs import program
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.tree.lint import lint
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType


pytestmark = pytest.mark.all_features

README = HERE / "README.rst"
SOURCE = HERE / "src" / "zkdeployment"

#: The length of the shortest piece that counts, in characters.
_LEAST = 9

Pieces = tuple[str, ...]


@functools.cache
def parsed_modules() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module, by file."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}


def error_classes_below(name: str) -> set[str]:
    """Return the names of an error class and of all its subclasses."""
    classes = [
        node for module in parsed_modules().values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)
    ]
    names: set[str] = set()
    more = {name}
    while more - names:
        names |= more
        more = {
            definition.name
            for definition in classes
            if {base.id for base in definition.bases if isinstance(base, ast.Name)} & names
        }
    return names


def messages(node: ast.AST) -> Iterator[Pieces]:
    """Yield each message in a piece of source, without docstrings."""
    match node:
        case ast.Expr(value=ast.Constant()):  # a docstring
            return
        case ast.JoinedStr(values=values):
            pieces = [
                text.value for text in values if isinstance(text, ast.Constant) and isinstance(text.value, str)
            ]
            if message := tuple(piece.strip() for piece in pieces if is_phrase(piece)):
                yield message
        case ast.Constant(value=str(text)):
            if is_phrase(text):
                yield (text.strip(),)
        case _:
            for below in ast.iter_child_nodes(node):
                yield from messages(below)


def is_phrase(piece: str) -> bool:
    """Whether a piece of text has several words."""
    return len(piece.strip()) >= _LEAST and " " in piece.strip()


def refusals() -> Iterator[tuple[str, Pieces]]:
    """Yield the module and the pieces of each message of a refusal."""
    errors = error_classes_below("RefusedError")
    for file, module in parsed_modules().items():
        for node in ast.walk(module):
            name = getattr(getattr(node, "func", None), "id", None)
            if name in errors or (isinstance(node, ast.FunctionDef) and node.name.endswith("refusal")):
                for pieces in messages(node):
                    yield str(file.relative_to(SOURCE)), pieces


OURS = {"zkdeployment", "check_zkdeployment"}

#: The page that tests/system/test_first_deployment.py carries out.
CARRIED_OUT = "operations/first-deployment"

#: The commands for hosts, which cannot be run here, and those of our programs for a sandbox, except compound ones.
TYPED = [
    command
    for page in PAGES
    for command in commands(page)
    if (command.prompt == "#" and page != CARRIED_OUT)
    or (command.text.split()[0] in OURS and "$(" not in command.text)
]
UNITS = {unit.stem for unit in (HERE / "etc" / "systemd").glob("*.service")} | {"system-zkdeployment.slice"}


@pytest.fixture(autouse=True)
def _nothing_is_done(monkeypatch):
    monkeypatch.setattr(click.Command, "invoke", lambda *_: None)


def examples(group, context):
    """All lines of examples in the help of a group's verbs."""
    for name in group.list_commands(context):
        verb = group.get_command(context, name)
        below = click.Context(verb, info_name=name, parent=context)
        _, _, text = verb.get_help(below).partition("Example:\n")
        yield from (line.strip() for line in text.split("\n\n")[0].splitlines())
        if isinstance(verb, click.Group):
            yield from examples(verb, below)


def pipeline(text):
    """Split a line for the shell into the words of its commands; redirections are the shell's business."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    result = [[]]
    tokens = iter(lexer)
    for word in tokens:
        if set(word) <= set("|&;"):
            result.append([])
        elif set(word) <= set("<>"):
            next(tokens)
        else:
            result[-1].append(word)
    return result


def understand(name, *arguments):
    """Fail unless a program would understand these words."""
    match name:
        case "zkdeployment":
            program.main([*arguments], standalone_mode=False)
        case "check_zkdeployment":
            program.main(["monitor", *arguments], standalone_mode=False)
        case "systemctl" | "journalctl":
            units = [re.sub("@.*", "@", word) for word in arguments if "zkdeployment" in word]
            assert units
            assert set(units) <= UNITS
        case "runuser":
            assert arguments[:3] == ("-u", "zkdeployment", "--")
            understand(*arguments[3:])
        case "ansible-inventory" | "ansible-playbook":
            assert arguments[0] == "-i"
            assert (HERE / arguments[1].removeprefix("/usr/share/zkdeployment/")).is_file()
            for playbook in (word for word in arguments[2:] if not word.startswith("-")):
                assert (MANUAL / "examples" / "ansible" / playbook).is_file()
        case "ls" | "tail" | "less":
            assert any(word.startswith(("/etc/", "/opt/", "/var/")) for word in arguments)
        case _:
            pytest.fail(f"{name} is not what an administrator is told to call here")


@pytest.mark.parametrize("command", TYPED, ids=lambda command: command.place)
def test_command_lines_are_valid(command):
    for message in pipeline(command.text):
        understand(*message)


@pytest.mark.parametrize(
    "line", [*examples(program, program.make_context("zkdeployment", [], resilient_parsing=True))]
)
def test_the_examples_of_help_are_understood(line):
    line, _, _ = line.partition("  #")
    ours = [command for command in pipeline(line.removeprefix("exec ")) if command[0] in OURS]
    assert ours
    for command in ours:
        understand(*command)


#: The messages that pages of operations quote, by the page.
QUOTED = {
    page: [line for _, block in blocks(page, "text") for line in block.splitlines()]
    for page in PAGES
    if page.startswith(("operations/alarms/", "operations/refusals/"))
}

#: Modules of alarms, and functions with alarms in other modules.
ALARMS = (
    ("fleet/views/health.py", None),
    ("fleet/views/fleet_health.py", None),
    ("fleet/daemon_failures.py", None),
    ("checks/rules/listing.py", "check_alarms"),
    ("pools/rules/listing.py", "pool_alarms"),
    ("system/alarms.py", None),
)


def alarms(name: str, function: str | None) -> Iterator[Pieces]:
    """Yield each message of a module, or of one function in it."""
    module = parsed_modules()[SOURCE / name]
    parts = [part for part in module.body if function is None or getattr(part, "name", None) == function]
    assert parts, f"{name} has no function {function}"
    for part in parts:
        yield from messages(part)


def cut(line):
    """A quoted line, cut where values stand."""
    return [piece.strip() for piece in line.split("...") if is_phrase(piece)]


def test_each_refusal_and_each_alarm_has_a_page():
    quoted = [piece for lines in QUOTED.values() for line in lines for piece in cut(line)]
    texts = [*refusals()]
    texts += [(name, pieces) for name, function in ALARMS for pieces in alarms(name, function)]
    assert len(texts) > len(QUOTED)
    without = [
        f"{place}: {pieces}"
        for place, pieces in texts
        if not any(piece in quotation or quotation in piece for piece in pieces for quotation in quoted)
    ]
    assert without == [], "quote these on pages in etc/manual/operations"


def test_each_alert_has_a_page_and_no_page_is_of_another():
    content = yaml.safe_load((HERE / "etc" / "prometheus" / "zkdeployment.yml").read_text(encoding="utf-8"))
    alerts = sorted(rule["alert"] for group in content["groups"] for rule in group["rules"])
    quoted = (line for lines in QUOTED.values() for line in lines if line.startswith("Zkdeployment"))
    assert sorted(quoted) == alerts


def test_messages_that_pages_quote_are_those_of_the_program():
    texts = [piece for module in parsed_modules().values() for pieces in messages(module) for piece in pieces]
    for page, lines in QUOTED.items():
        assert lines, page
        for line in lines:
            assert [piece for piece in cut(line) if not any(piece in text for text in texts)] == [], page


def test_each_page_of_operations_is_in_their_index():
    index = (MANUAL / "operations" / "index.rst").read_text(encoding="utf-8")
    assert [page for page in QUOTED if f"   {page.removeprefix('operations/')}\n" not in index] == []


def constants(module: ModuleType) -> set[str]:
    """Return the texts that a module keeps as constants."""
    return {value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def test_every_node_that_the_program_creates_is_documented():
    text = (MANUAL / "reference" / "places.rst").read_text(encoding="utf-8")
    ours = {path for path in constants(paths) if path.startswith("/")}
    for file in SOURCE.rglob("*.py"):
        if re.search(r"\bOURS\b|\bPROMOTION\b", file.read_text(encoding="utf-8")):
            name = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
            ours |= {path for path in constants(importlib.import_module(name)) if path.startswith(paths.OURS)}
    assert paths.STOPS in ours
    assert {"/zkdeployment/pools/leases", "/zkdeployment/promotion/report"} <= ours
    assert {path for path in ours - {paths.OURS} if f"``{path}" not in text} == set()


def test_the_sample_of_the_configuration_follows_from_its_tables():
    script = runpy.run_path(str(HERE / "scripts" / "configuration.py"))
    assert script["sample"]() == script["SAMPLE"].read_text(encoding="utf-8"), (
        "run: python scripts/configuration.py"
    )


def test_the_page_of_the_configuration_has_the_table_of_each_section():
    page = (MANUAL / "reference" / "configuration.rst").read_text(encoding="utf-8")
    tables = re.findall(
        r"^``\[([a-z]+)(?: NAME)?\]``\n-+\n\n.*?\.\. configuration-keys:: (\w+)$", page, re.MULTILINE | re.DOTALL
    )
    assert tables == [(section, section) for section in section_tables()]


def test_the_readme_fits_on_a_few_screens():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def readme_part(title):
    """The text of a part of the README."""
    text = README.read_text(encoding="utf-8").partition(f"\n{title}\n{'=' * len(title)}\n")[2]
    return re.split(r"\n[^\n]+\n====+\n\n", text, maxsplit=1)[0]


def test_the_terms_of_the_readme_are_those_of_the_glossary():
    glossary = " ".join((MANUAL / "reference" / "glossary.rst").read_text(encoding="utf-8").split())
    rows = re.findall(r"^(\S.*?\S|)   +(\S.*)$", readme_part("Terms"), flags=re.MULTILINE)
    terms: dict[str, str] = {}
    last = ""
    for term, text in rows[1:]:
        last = term or last
        terms[last] = f"{terms.get(last, '')} {text}".strip()
    assert len(terms) > 5
    assert [term for term, meaning in terms.items() if f"{term} {meaning}" not in glossary] == []


def test_the_configuration_of_the_readme_loads(tmp_path):
    shown = re.search(r"(?:\n|^    .*\n)+", readme_part("Configuration").partition("::\n")[2], flags=re.MULTILINE)
    file = tmp_path / "zkdeployment.cfg"
    file.write_text(textwrap.dedent(shown[0]), encoding="utf-8")
    assert load_settings(file, host=False).require(SyncSettings).interval == 60


def test_the_commands_of_the_readme_are_understood():
    commands = re.findall(r"``(zkdeployment [^`]+)``", readme_part("Operations"))
    assert len(commands) > 5
    for command in commands:
        understand(*shlex.split(command))


def test_the_tree_in_the_readme_is_free_of_errors():
    _, _, text = README.read_text(encoding="utf-8").partition("what runs where::\n")
    shown = re.match(r"(?:\n|    .*\n)+", text)
    assert shown is not None
    linted = lint([SourceFile("readme.zk", textwrap.dedent(shown[0]).encode())])
    assert linted.problems == ()
    assert "/demo/hello/deploy/host2" in linted.tree.nodes


def test_the_places_that_the_map_names_exist():
    text = README.read_text(encoding="utf-8")
    shown = text.partition(".. map begins here")[2].partition(".. map ends here")[0]
    rooms = re.findall(r"^      ([a-z]\S*) ", shown, flags=re.MULTILINE)
    ours = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(name for name in ours - {"__init__.py", "__main__.py"} if f" {name}" not in shown) == []
    assert [room for room in rooms if not (SOURCE / room).exists()] == []
    assert [
        top for top in re.findall(r"^    ([a-z]\S*) ", shown, flags=re.MULTILINE) if not (HERE / top).exists()
    ] == []


def test_the_pages_about_speed_and_scale_include_the_tables_of_the_kept_results():
    shown, tables = highlights(results := load()), files(results)
    assert {(row.work, row.size, row.against) for rows in shown.values() for row in rows} >= HIGHLIGHTS
    assert [name for name, text in tables.items() if (RESULTS / name).read_text(encoding="utf-8") != text] == []
    pages = [
        (MANUAL / f"{page}.rst").read_text(encoding="utf-8") for page in ("reference/speed", "operations/scale")
    ]
    included = re.findall(r"include:: \S*/tests/benchmarks/results/(\S+)", "".join(pages))
    assert sorted([*included, "table.txt"]) == sorted(tables)
    assert len(tables) == 7


def test_the_page_about_scale_claims_no_more_than_the_kept_results():
    values = {(result.work, result.size): result.value for result in load()["scale"]}
    few, many = (values["bytes of a publication, one property", f"{size} hosts"] for size in ("1,000", "10,000"))
    assert many < 3 * few
    assert all(0.9 < value < 1.1 for (work, _), value in values.items() if work == "bytes that a host reads")


def test_the_files_that_contributors_are_sent_to_exist():
    text = (HERE / "CONTRIBUTING.rst").read_text(encoding="utf-8")
    named = set(re.findall(r"``((?:src|tests|etc|scripts|\.ci)/[a-z0-9_/.]+)``", text))
    assert len(named) > 20
    assert sorted(path for path in named if not (HERE / path).exists()) == []


def test_each_page_begins_with_what_it_is_for():
    # Pages about one message or decision, and man pages, have a form of their own.
    others = ("decisions/", "operations/alarms/", "operations/refusals/", "reference/zkdep", "reference/check_zk")
    first = {page: (MANUAL / f"{page}.rst").read_text(encoding="utf-8").split("\n\n")[1].strip() for page in PAGES}
    assert [
        page
        for page, text in first.items()
        if not page.startswith(others) and (len(text.split()) < 10 or text.startswith(".."))
    ] == []
