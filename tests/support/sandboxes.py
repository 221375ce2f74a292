"""Runs sandboxes through their commands, as a user would, and ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from support.commands import Done, invoke, run
from support.fresh_checkout import environment, make_checkout
from support.limits import outliving_all_tests, outliving_the_test
from support.manual import Shell
from support.waiting import UNLIMITED, wait_until
from zkdeployment.sandbox.fleet import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


#: The directory of the installed programs.
PROGRAMS = Path(sys.executable).parent

_STARTING_NOTHING = {"push", "rpm", "status", "stop"}


@contextlib.contextmanager
def ended_with_the_tests(directory: Path) -> Iterator[None]:
    """End the sandbox in ``directory`` if this process is killed meanwhile, so that nothing is left running."""
    words = [str(PROGRAMS / "zkdeployment"), "sandbox", "down", "-d", str(directory)]
    guard = subprocess.Popen(
        # The shell gets nothing to read until this process is gone.
        ["/bin/sh", "-c", 'read -r _; exec "$@"', "sh", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=outliving_all_tests(),
    )
    try:
        yield
    finally:
        os.killpg(guard.pid, signal.SIGKILL)
        guard.communicate()


class SandboxCommands:
    """A sandbox in ``directory`` and its commands; each returns what ``subprocess.run`` does.

    The time limit of the test ends them.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def sandbox(self, verb: str, *arguments: object) -> Done:
        """Run ``zkdeployment sandbox VERB -d DIR …``, as a process if the verb starts others."""
        if verb in _STARTING_NOTHING:
            return invoke("sandbox", verb, "-d", self.directory, *arguments)
        words = [PROGRAMS / "zkdeployment", "sandbox", verb, "-d", self.directory, *arguments]
        return run(*words, env=outliving_the_test())

    def shell(self, *arguments: object) -> Done:
        """Run a command in the sandbox's shell."""
        return self.sandbox("shell", "--", *arguments)

    def run(self, *message: object) -> Done:
        """Run an installed program with the environment of the sandbox's shell."""
        program, *arguments = message
        return run(PROGRAMS / str(program), *arguments, env=self.environment)

    def zkdeployment(self, *arguments: object) -> Done:
        """Run ``zkdeployment`` as in the sandbox's shell, but within this process."""
        return invoke(*arguments, env=self.environment)

    def up(self, *arguments: object) -> Done:
        """Start the sandbox; fail the test if this fails."""
        done = self.sandbox("up", *arguments)
        assert done.returncode == 0, done.stderr
        return done

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the sandbox's shell."""
        return Sandbox(self.directory).environment()

    @property
    def status(self) -> dict[str, Any]:
        """The output of ``sandbox status``, as an object."""
        return Sandbox(self.directory).status()

    def push(self, text: str, message: str = "a push", more: Mapping[str, str] = MappingProxyType({})) -> str:
        """Push ``text`` as the tree, with ``more`` files, and return the revision."""
        with tempfile.TemporaryDirectory() as tree:
            for name, content in {"tree.zk": text, **more}.items():
                (Path(tree) / name).write_text(content, encoding="utf-8")
            return Sandbox(self.directory).push(Path(tree), message)

    def wait(self, *words: str, timeout: float = UNLIMITED) -> Done:
        """Run ``status --wait`` for a revision, or for the latest publication, with further options."""
        return self.zkdeployment("status", "--wait", *words, "--timeout", timeout)

    def sync(self) -> Done:
        """Run ``sync``; retry while the sandbox's own syncer holds the lock."""
        done: list[Done] = []

        def had_its_turn() -> bool:
            done.append(self.zkdeployment("sync", self.status["config"]))
            return "/hosts-lock is held" not in done[-1].stderr

        wait_until(had_its_turn, "the sandbox's syncer releases its lock")
        return done[-1]

    def root(self, host: str) -> Path:
        """Return a host's root directory."""
        return Path(self.status["hosts"][host]["root"])


#: The default directory of the sandbox, relative to the home directory.
SANDBOX = ".local/state/zkdeployment/sandbox"


@contextmanager
def opened_shell(place: Path) -> Iterator[Shell]:
    """Yield a shell with its own home directory, in a checkout with what ``scripts/demo`` installs.

    A sandbox that the shell started is ended.
    """
    home = Path(tempfile.mkdtemp(dir=place))
    checkout = make_checkout(home / "checkout")
    ours = {**environment(), "HOME": str(home), "SHELL": "/bin/bash", "COLUMNS": "200"}
    installed = run(checkout / "scripts" / "demo", "--only-install", env=ours)
    assert "unrecognized arguments: --only-install" in installed.stderr, installed.stderr
    with ended_with_the_tests(home / SANDBOX):
        shell = Shell(checkout, ours)
        try:
            yield shell
        finally:
            shell.close()
            SandboxCommands(home / SANDBOX).sandbox("down")
