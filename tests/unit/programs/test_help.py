"""Every verb explains itself."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from zkdeployment.cli.verb_group import SHOWING
from zkdeployment.programs.main import main
from zkdeployment.programs.verbs import FOREIGN, program


def commands(group, context, message=()):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context)
        yield (*message, name), command, inner
        if isinstance(command, click.Group):
            yield from commands(command, inner, (*message, name))


EVERY = list(commands(program, program.make_context("zkdeployment", [], resilient_parsing=True)))


@pytest.mark.parametrize(
    ("message", "command", "context"), EVERY, ids=[" ".join(message) for message, _, _ in EVERY]
)
def test_the_help_of_every_verb_has_an_example_that_calls_it(message, command, context):
    text = command.get_help(context)
    _, mark, examples = text.partition("Example:")
    assert mark
    programs = ("check_zkdeployment", " ".join(("zkdeployment", *message)))
    assert any(program in examples for program in programs)


@pytest.mark.parametrize(
    ("command", "context"),
    [each[1:] for each in EVERY if isinstance(each[1], click.Group)],
    ids=[" ".join(message) for message, command, _ in EVERY if isinstance(command, click.Group)],
)
def test_the_help_of_every_group_lists_its_verbs_with_whole_sentences(command, context):
    _, mark, verbs = command.get_help(context).partition("\nVerbs:\n")
    assert mark
    assert "..." not in verbs
    assert verbs.rstrip().endswith((".", "…"))


@pytest.mark.all_features
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["staus"], "there is no verb 'staus'; did you mean 'status'?"),
        (["xyzzy"], "there is no verb 'xyzzy'; expected one of: agent, "),
        (["rollout", "promot"], "there is no verb 'promot'; expected one of: abort, fail, "),
        (["promote", "rest"], "there is no verb 'rest'; expected one of: abort, fail, "),
        (["restart"], "there is no verb 'restart'; push a change of the service in the tree"),
        (["rollback", "--to", "4f2c9be"], "No such option '--to'. Did you mean '--timeout'?"),
        (["rollback", "--nwo"], "No such option '--nwo'.\n"),
        (
            ["rollout", "bogus"],
            "there is no verb 'bogus'; expected one of: abort, fail, measure, pause, promote, resume, show",
        ),
        (["tree", "gett"], "did you mean 'get'?"),
        (["config", "chek"], "did you mean 'check'?"),
        (["sandbox", "staus"], "did you mean 'status'?"),
        (["locks", "relaese"], "there is no verb 'relaese'; expected one of: release"),
        (["history", "shwo"], "did you mean 'show'?"),
    ],
)
def test_a_misspelt_verb_is_reported_and_no_act_or_flag_is_suggested_for_it(capsys, argv, message):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.all_features
def test_every_verb_that_only_shows_exists():
    assert SHOWING - {message[-1] for message, _, _ in EVERY} == set()


@pytest.mark.all_features
def test_the_words_of_other_tools_are_no_verbs():
    assert [word for word in FOREIGN if word in program.list_commands(click.Context(program))] == []


def test_output_that_cannot_be_written_is_one_line_without_a_stack_trace():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "zkdeployment", "version"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"zkdeployment: cannot write: No space left on device\n"


def test_an_unknown_verb_is_refused():
    assert program.get_command(click.Context(program), "nothing") is None
