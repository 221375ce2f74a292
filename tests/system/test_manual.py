"""The manual's commands have the documented effects on a real fleet."""

import pytest

from support.manual import PAGES, commands
from support.sandboxes import SANDBOX, opened_shell
from zkdeployment.sandbox.processes import sandbox_processes

*TUTORIAL, EXIT, DOWN = commands("tutorial")

#: The pages that continue with the tutorial's sandbox, in this order. The acts that they show have tests of their
#: own, and a unit test parses all commands.
SEQUELS = ["script", "approval"]

#: The pages that start and end their own sandbox.
WHOLE = ["monitoring", "pools", "system-updates"]

#: The pages whose commands only read the sandbox's state.
LOOKING = [page for page in PAGES if page not in {"tutorial", *WHOLE, *SEQUELS}]

# tests/unit/test_manual.py parses all commands in each commit.
pytestmark = [pytest.mark.timeout(900), pytest.mark.all_features, pytest.mark.nightly]


@pytest.fixture(scope="module")
def shell(place):
    """Return a shell in which the tutorial was completed."""
    with opened_shell(place) as shell:
        for command in TUTORIAL:
            shell.show(command)
        yield shell


def test_the_tutorial_leaves_the_fleet_in_the_documented_state(shell):
    printed, status = shell.run("zkdeployment status --wait")
    assert status == 0, printed


@pytest.mark.parametrize("page", SEQUELS)
def test_pages_that_continue_the_tutorial_work_as_documented(page, shell):
    for command in commands(page):
        if command.prompt == "$":
            shell.show(command)


def test_read_only_commands_of_the_manual_work_as_documented(shell):
    """Operations pages repeat the same read-only commands; the test runs each command once, but each ``cd``."""
    looks = [command for page in LOOKING for command in commands(page) if command.prompt == "$"]
    last = {command.text: command for command in looks}
    assert looks
    for command in looks:
        if last[command.text] is command or command.text.startswith("cd "):
            shell.show(command)


def test_nothing_is_left_when_the_tutorial_is_over(shell):
    sandbox = shell.directory.parent / SANDBOX
    assert (EXIT.text, sandbox.exists()) == ("exit", True)
    shell.show(EXIT)
    shell.show(DOWN)
    assert (sandbox_processes(sandbox), sandbox.exists()) == ([], False)


@pytest.mark.parametrize("page", ["monitoring", "system-updates"])
def test_checks_and_operating_systems_are_rolled_out_as_documented(page, place):
    with opened_shell(place) as shell:
        for command in commands(page):
            if command.prompt == "$":
                shell.show(command)
        assert not (shell.directory.parent / SANDBOX).exists()
