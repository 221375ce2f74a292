"""The table of somaadm's commands: all of its nouns and verbs, and commands of ours that exist."""

import re

import click
import pytest

from support.manual import MANUAL
from zkdeployment.programs.verbs import program

#: The nouns and verbs of somaadm.
SOMAADM = """\
init
attributes: create delete list show
buckets: create delete restore purge freeze thaw rename list show tree property
capabilities
checks: create delete
clusters: create delete rename list show tree members add property
datacenters: add remove rename list show synclist
environments: add remove rename list show
groups: create delete rename list show tree members add property
jobs: list show local outstanding update prune
levels: create delete list show
metrics: create delete list show
modes: create delete list show
monitoring: create delete list show
nodes: create delete purge restore update rename repossess relocate online offline assign list synclist show tree config property add
oncall: add remove rename update list show member
permissions: category add remove list show
predicates: create delete list show
property: create delete show list
providers: create delete list show
rights: grant global system revoke
repository: create delete restore purge clear rename repossess activate list show tree property
servers
states: add remove rename list show
status: create delete list show
teams: add remove rename migrate list synclist show update
types: add remove rename list show
units: create delete list show
users: create delete purge update activate password list show synclist
validity: create delete list show
views: add remove rename list show
ops
"""  # noqa: E501

TEXT = (MANUAL / "reference" / "somaadm.rst").read_text(encoding="utf-8")


def rows():
    """Yield the nouns, the verbs and the replacement of the table's rows."""
    widths = next(line for line in TEXT.splitlines() if line.startswith("==") and "  " in line).split("  ")
    first, second = len(widths[0]) + 2, len(widths[0]) + len(widths[1]) + 4
    body = TEXT.split("\n" + "  ".join(widths) + "\n")[2]
    cells = None
    for line in body.splitlines():
        parts = [line[: first - 2].strip(), line[first : second - 2].strip(), line[second:].strip()]
        if parts[0]:
            if cells:
                yield cells
            cells = parts
        else:
            cells = [f"{before} {more}".strip() for before, more in zip(cells, parts, strict=True)]
    yield cells


def test_each_noun_and_verb_of_somaadm_is_in_the_table():
    named = {}
    for nouns, verbs, _ in rows():
        for noun in nouns.split(", "):
            named.setdefault(noun, set()).update(re.split(r"[ ,]+", verbs))
    for line in SOMAADM.splitlines():
        noun, _, verbs = line.partition(":")
        assert noun in named
        assert set(verbs.split()) <= named[noun], noun


def test_each_row_names_the_replacement_or_the_reason_why_there_is_no_replacement():
    for nouns, verbs, ours in rows():
        assert ours, (nouns, verbs)


@pytest.mark.all_features
def test_the_commands_in_the_table_exist():
    found = re.findall(r"``zkdeployment ([a-z-]+)(?: ([a-z-]+))?", " ".join(ours for _, _, ours in rows()))
    assert found
    context = program.make_context("zkdeployment", [], resilient_parsing=True)
    for name, below in found:
        verb = program.get_command(context, name)
        assert verb is not None, name
        if below and isinstance(verb, click.Group):
            assert verb.get_command(click.Context(verb, parent=context), below) is not None, (name, below)
