"""Each feature can be taken out: all others import without it, and the frames pass their tests without any."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FEATURES = ("rollouts", "promotion", "intents", "checks", "pools", "providers", "editors")

#: Everything below the features.
FRAMES = (
    "base",
    "zookeeper",
    "documents",
    "tree",
    "strategies",
    "publishing",
    "agent",
    "fleet",
    "service",
    "config",
    "cli",
)

#: Imports all modules, and composes the verbs, the API and the pages of the installed features.
COMPOSE_ALL = """
import importlib, pkgutil, zkdeployment, zkdeployment.programs
for module in pkgutil.walk_packages(zkdeployment.__path__, "zkdeployment."):
    if not module.name.endswith("__main__") and ".dnf_" not in module.name:
        importlib.import_module(module.name)

from zkdeployment.programs.verbs import program
from zkdeployment.service.application import api_description, page_routers

context = program.make_context("zkdeployment", ["--help"], resilient_parsing=True)
assert all(program.get_command(context, name) for name in program.list_commands(context))
assert api_description()["paths"] and list(page_routers())
"""


def copy_without(target, *features):
    """Copy the project without features; return a function that runs a program in the copy."""
    command = [sys.executable, "scripts/without.py", *features, str(target)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    environment = os.environ | {"PYTHONPATH": str(target / "src")}

    def run(*words):
        done = subprocess.run(words, cwd=target, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"

    return run


@pytest.mark.parametrize("feature", FEATURES)
def test_without_a_feature_everything_else_is_imported_and_composed(tmp_path, feature):
    run = copy_without(tmp_path / "copy", feature)
    run(sys.executable, "-c", COMPOSE_ALL)
    run(Path(sys.executable).parent / "lint-imports", "--no-cache")


@pytest.mark.timeout(600)
def test_without_all_features_the_frames_pass_their_tests(tmp_path):
    run = copy_without(tmp_path / "copy", *FEATURES)
    folders = [f"tests/unit/{frame}" for frame in FRAMES if (PROJECT / "tests/unit" / frame).is_dir()]
    run(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *folders)


def test_settings_lose_the_modules_of_a_feature_and_keep_all_others():
    without_in_settings = runpy.run_path(str(PROJECT / "scripts/without.py"))["without_in_settings"]
    text = (
        "layers =\n    zkdeployment.rollouts | zkdeployment.pools | zkdeployment.providers\n    zkdeployment.cli\n"
        "modules =\n    zkdeployment.pools.acts\n    zkdeployment.poolside\n"
    )
    assert without_in_settings("pools", text) == (
        "layers =\n    zkdeployment.rollouts | zkdeployment.providers\n    zkdeployment.cli\n"
        "modules =\n    zkdeployment.poolside\n"
    )
    assert "rollouts" not in without_in_settings("rollouts", text)
