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

#: Composes the verbs, the API and the pages of the installed features.
COMPOSE = """
from zkdeployment.programs.verbs import program
from zkdeployment.service.application import api_description, page_routers

context = program.make_context("zkdeployment", ["--help"], resilient_parsing=True)
assert all(program.get_command(context, name) for name in program.list_commands(context))
assert api_description()["paths"] and list(page_routers())
"""

#: Imports all modules of the packages that are its arguments.
IMPORT = """
import importlib, os, pkgutil, sys, zkdeployment

def import_all(packages):
    for package in packages:
        below = importlib.import_module(f"zkdeployment.{package}").__path__
        for module in pkgutil.walk_packages(below, f"zkdeployment.{package}."):
            if not module.name.endswith("__main__") and ".dnf_" not in module.name:
                importlib.import_module(module.name)
"""

#: Imports the frames while all features are hidden. Then, with all hidden and with each one, imports and composes
#: everything else, each time in a process of its own. The arguments are the frames and the features.
WITHOUT_EACH = f"""{IMPORT}
class Hidden:
    features = ()

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[2].partition(".")[0] in self.features:
            raise ModuleNotFoundError(f"{{name}} belongs to a hidden feature", name=name)

frames, features = (words.split() for words in sys.argv[1:])
hidden = Hidden()
sys.meta_path.insert(0, hidden)
hidden.features = features

from zkdeployment.base import features as installed

listed = installed._listed
installed._listed = lambda file: [entry for entry in listed(file) if entry[0] not in hidden.features]
import_all(frames)
for hidden.features in (features, *([feature] for feature in features)):
    if not (child := os.fork()):
        break
    if os.waitpid(child, 0)[1]:
        sys.exit(f"failed without {{hidden.features}}")
else:
    sys.exit()

installed._features.cache_clear()
import_all([name for name in features if name not in hidden.features])
import_all(["programs", "sandbox"])
{COMPOSE}"""


def test_without_each_feature_and_without_any_everything_else_is_imported_and_composed():
    command = [sys.executable, "-c", WITHOUT_EACH, " ".join(FRAMES), " ".join(FEATURES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def copy_without(target, *features):
    """Copy the project without features; return a function that runs a program in the copy."""
    command = [sys.executable, "scripts/without.py", *features, str(target)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    environment = os.environ | {"PYTHONPATH": str(target / "src")}

    def run(*words):
        done = subprocess.run(words, cwd=target, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"

    return run


def compose_copy(run, *left_out):
    """Import and compose all that a copy without features has, and check its contracts of imports."""
    packages = [package for package in (*FRAMES, *FEATURES, "programs", "sandbox") if package not in left_out]
    run(sys.executable, "-c", f"{IMPORT}import_all(sys.argv[1:])\n{COMPOSE}", *packages)
    run(Path(sys.executable).parent / "lint-imports", "--no-cache")


@pytest.mark.nightly
def test_a_copy_without_any_feature_is_imported_and_composed(tmp_path):
    compose_copy(copy_without(tmp_path / "copy", *FEATURES), *FEATURES)


@pytest.mark.nightly
@pytest.mark.parametrize("feature", FEATURES)
def test_a_copy_without_a_feature_is_imported_and_composed(tmp_path, feature):
    compose_copy(copy_without(tmp_path / "copy", feature), feature)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_without_all_features_the_frames_pass_their_tests(tmp_path):
    run = copy_without(tmp_path / "copy", *FEATURES)
    folders = [f"tests/unit/{frame}" for frame in FRAMES if (PROJECT / "tests/unit" / frame).is_dir()]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not all_features"]
    run(sys.executable, "-m", "pytest", *options, *folders)


def test_settings_lose_the_modules_of_a_feature_and_keep_all_others():
    without_in_settings = runpy.run_path(str(PROJECT / "scripts/without.py"))["without_in_settings"]
    text = (
        "layers =\n    zkdeployment.rollouts | zkdeployment.pools | zkdeployment.providers\n    zkdeployment.cli\n"
        "modules =\n    zkdeployment.pools.acts\n    zkdeployment.poolside\n"
        "zkdeployment.features =\n    pools = zkdeployment.pools.feature:FEATURE\n"
    )
    assert without_in_settings("pools", text) == (
        "layers =\n    zkdeployment.rollouts | zkdeployment.providers\n    zkdeployment.cli\n"
        "modules =\n    zkdeployment.poolside\nzkdeployment.features =\n"
    )
    assert "rollouts" not in without_in_settings("rollouts", text)
