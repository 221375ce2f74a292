"""Each feature can be taken out: without its folder, everything else imports and the frames pass their tests."""

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

IMPORT_ALL = """
import importlib, pkgutil, zkdeployment, zkdeployment.programs
for module in pkgutil.walk_packages(zkdeployment.__path__, "zkdeployment."):
    if not module.name.endswith("__main__") and ".dnf_" not in module.name:
        importlib.import_module(module.name)
"""


@pytest.fixture(params=FEATURES)
def copy(request, tmp_path):
    """Yield a copy of the project without a feature."""
    target = tmp_path / "copy"
    command = [sys.executable, "scripts/without.py", request.param, str(target)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    return target


def run(copy, *command):
    """Run a program in the copy; fail with its output unless it succeeds."""
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "EXAMPLES": "part"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


@pytest.mark.unmeasured
@pytest.mark.timeout(900)
def test_without_a_feature_everything_else_imports_and_passes_its_tests(copy):
    run(copy, sys.executable, "-c", IMPORT_ALL)
    run(copy, Path(sys.executable).parent / "lint-imports", "--no-cache")
    folders = [f"tests/unit/{frame}" for frame in FRAMES if (copy / "tests/unit" / frame).is_dir()]
    run(copy, sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *folders)


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
