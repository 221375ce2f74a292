"""The list of verbs: by subject, the common ones first; and where to begin without a verb."""

import re

import click
import pytest

from support.commands import invoke
from zkdeployment.programs.verbs import VERBS, program


@pytest.mark.all_features
def test_the_list_of_verbs_begins_with_those_that_show_the_fleet():
    text = invoke("--help").stdout
    headings = re.findall(r"^([A-Z][a-z ,]+):$", text, re.MULTILINE)
    assert headings[:4] == ["Options", "See the fleet", "Change the fleet", "Rollouts and promotion"]
    assert headings[-2:] == ["Daemons", "Other verbs"]
    assert text.index("  status ") < text.index("  why ") < text.index("  stop ") < text.index("  rollback ")


def test_every_verb_of_this_package_is_listed_once():
    text = invoke("--help").stdout
    assert all(len(re.findall(rf"^  {name} +[A-Z]", text, re.MULTILINE)) == 1 for name in VERBS)


def test_without_a_verb_the_program_says_where_to_begin():
    done = invoke()
    assert done.returncode == 2
    first, *commands = done.stderr.splitlines()
    assert first == "Begin here:"
    assert [line.split()[:2] for line in commands] == [
        ["zkdeployment", each] for each in ("sandbox", "init", "status", "--help")
    ]


@pytest.mark.parametrize("name", sorted(VERBS))
def test_the_help_of_each_group_of_verbs_has_an_example(name):
    command = program.get_command(click.Context(program), name)
    assert not isinstance(command, click.Group) or "Example" in (command.help or "")
