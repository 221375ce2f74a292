"""What the manual tells administrators to type is understood."""

import shlex

import click
import pytest

from support.manual import HERE, PAGES, commands
from zkdeployment.cli.main import program

#: What is typed on hosts of real fleets, and so cannot be tried here.
TYPED_ON_HOSTS = [command for page in PAGES for command in commands(page) if command.prompt == "#"]

OURS = {"zkdeployment", "check_zkdeployment"}
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
    found = [[]]
    words = iter(lexer)
    for word in words:
        if set(word) <= set("|&;"):
            found.append([])
        elif set(word) <= set("<>"):
            next(words)
        else:
            found[-1].append(word)
    return found


def understand(name, *words):
    """Fail unless a program would understand these words."""
    match name:
        case "zkdeployment":
            program.main([*words], standalone_mode=False)
        case "check_zkdeployment":
            program.main(["monitor", *words], standalone_mode=False)
        case "systemctl" | "journalctl":
            units = [word for word in words if "zkdeployment" in word]
            assert units
            assert set(units) <= UNITS
        case "ls" | "tail" | "less":
            assert any(word.startswith(("/etc/", "/opt/", "/var/")) for word in words)
        case _:
            pytest.fail(f"{name} is not what an administrator is told to call here")


@pytest.mark.parametrize("command", TYPED_ON_HOSTS, ids=lambda command: command.place)
def test_what_is_typed_on_a_host_is_understood(command):
    for words in pipeline(command.text):
        understand(*words)


@pytest.mark.parametrize("line", [*examples(program, click.Context(program, info_name="zkdeployment"))])
def test_the_examples_of_help_are_understood(line):
    line, _, _ = line.partition("  #")
    ours = [words for words in pipeline(line.removeprefix("exec ")) if words[0] in OURS]
    assert ours
    for words in ours:
        understand(*words)
