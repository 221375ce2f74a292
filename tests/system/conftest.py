"""Sandboxes for the system tests."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from support.sandboxes import SandboxCommands, ended_with_the_tests
from zkdeployment.base.errors import RefusedError
from zkdeployment.sandbox.fleet import Sandbox


@pytest.fixture(scope="module")
def place():
    """Return a directory with a short path, outside pytest's temporary directory."""
    made = Path(tempfile.mkdtemp(prefix="zkds-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def make_box(place):
    """Return a function that creates a named sandbox without starting it; all sandboxes are ended at the end."""
    made = []

    with contextlib.ExitStack() as guards:

        def make(name):
            box = SandboxCommands(place / name)
            guards.enter_context(ended_with_the_tests(box.directory))
            made.append(box)
            return box

        yield make
        for box in made:
            with contextlib.suppress(RefusedError):  # the directory is not a sandbox
                Sandbox(box.directory).down()


@pytest.fixture(autouse=True)
def _nobody_elses_fleet(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("ZKDEPLOYMENT_", "ZC_ZK_")):
            monkeypatch.delenv(name)
