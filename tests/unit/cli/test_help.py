"""Every verb explains itself."""

import click
import pytest

from zkdeployment.cli.main import program


def commands(group, context, words=()):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context)
        yield (*words, name), command, inner
        if isinstance(command, click.Group):
            yield from commands(command, inner, (*words, name))


EVERY = list(commands(program, click.Context(program, info_name="zkdeployment")))


@pytest.mark.parametrize(("words", "command", "context"), EVERY, ids=[" ".join(words) for words, _, _ in EVERY])
def test_the_help_of_every_verb_has_an_example_that_calls_it(words, command, context):
    text = command.get_help(context)
    _, mark, examples = text.partition("Example:")
    assert mark
    programs = ("check_zkdeployment", " ".join(("zkdeployment", *words)))
    assert any(program in examples for program in programs)


def test_an_unknown_verb_is_refused():
    assert program.get_command(click.Context(program), "nothing") is None
