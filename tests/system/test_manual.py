"""The manual's commands do on a real fleet what its pages say."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from support.manual import HERE, PAGES, Shell, commands
from support.sandboxes import SandboxCommands
from zkdeployment.sandbox.process_cleanup import sandbox_processes

*TUTORIAL, EXIT, DOWN = commands("tutorial")

#: Where it is in a home, if nobody says.
SANDBOX = ".local/state/zkdeployment/sandbox"

#: The pages that go on with the sandbox, in this order.
SEQUELS = ["script"]

#: The pages that only look at it.
LOOKING = [page for page in PAGES if page not in {"tutorial", *SEQUELS}]

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def shell(place):
    """A shell in which the tutorial was followed up to its end; it works in a checkout, in a home of its own."""
    home = Path(tempfile.mkdtemp(dir=place))
    checkout = home / "checkout"
    checkout.mkdir()
    (checkout / ".venv").symlink_to(sys.prefix)
    (checkout / "etc").symlink_to(HERE / "etc")
    ours = {**os.environ, "HOME": str(home), "SHELL": "/bin/bash", "COLUMNS": "200"}
    foreign = ("ZKDEPLOYMENT_", "ZC_ZK_", "XDG_")
    shell = Shell(checkout, {name: value for name, value in ours.items() if not name.startswith(foreign)})
    try:
        for command in TUTORIAL:
            shell.show(command)
        yield shell
    finally:
        shell.close()
        SandboxCommands(home / SANDBOX).sandbox("down")


def test_the_tutorial_ends_with_the_fleet_as_it_says(shell):
    printed, status = shell.run("zkdeployment status --wait")
    assert status == 0, printed


@pytest.mark.parametrize("page", SEQUELS)
def test_a_page_that_goes_on_with_the_sandbox_does_what_it_says(page, shell):
    for command in commands(page):
        if command.prompt == "$":
            shell.show(command)


def test_looking_around_can_be_done_as_the_pages_say(shell):
    """Pages about operations tell again and again to look in the same ways; each is done once."""
    looks = {command.text: command for page in LOOKING for command in commands(page) if command.prompt == "$"}
    assert looks
    for command in looks.values():
        shell.show(command)


def test_nothing_is_left_when_the_tutorial_is_over(shell):
    sandbox = shell.directory.parent / SANDBOX
    assert (EXIT.text, sandbox.exists()) == ("exit", True)
    shell.show(EXIT)
    shell.show(DOWN)
    assert (sandbox_processes(sandbox), sandbox.exists()) == ([], False)
