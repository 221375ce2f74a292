"""Copy the project without features, to prove that nothing else needs them.

usage: python scripts/without.py FEATURE... DIRECTORY

The copy has neither the folders of the features, nor their entry points and contracts in setup.cfg, nor the tests
that belong to them or import them, directly or through another module of the tests. Its metadata in ``src`` make
the copy an installed package for programs whose ``PYTHONPATH`` begins there.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

#: The features that can be taken out.
FEATURES = ("rollouts", "promotion", "intents", "checks", "pools", "providers", "editors", "system")


def main(arguments: list[str]) -> int:
    """Make the copy; return the exit code."""
    features, target = {*arguments[:-1]}, Path(*arguments[-1:])
    if not features or features - {*FEATURES}:
        sys.stderr.write(f"usage: python scripts/without.py {{{','.join(FEATURES)}}}... DIRECTORY\n")
        return 2
    removed = copy_without(features, Path(__file__).resolve().parents[1], target)
    names = ", ".join(sorted(features))
    sys.stdout.write(f"{target} is without {names} and without {len(removed)} modules of tests that need them\n")
    return 0


def copy_without(features: set[str], project: Path, target: Path) -> set[Path]:
    """Copy the files of a project that git knows; return the paths of the tests that are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [Path(name) for name in listed.split("\0") if name and (project / name).is_file()]
    own = {Path("src/zkdeployment", feature) for feature in features}
    left_out = _tests_that_need(features, project, [name for name in names if name.suffix == ".py"])
    for name in names:
        if own & {*name.parents} or name in left_out:
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(project / name, target / name)
    settings = (target / "setup.cfg").read_text()
    for feature in features:
        settings = without_in_settings(feature, settings)
    (target / "setup.cfg").write_text(settings)
    _write_metadata(settings, target / "src" / "zkdeployment.egg-info")
    return left_out


def _write_metadata(settings: str, directory: Path) -> None:
    """Write the metadata of an installed package: its name, its version and its entry points."""
    read = ConfigParser()
    read.read_string(settings)
    name, version = read["metadata"]["name"], read["metadata"]["version"]
    groups = (f"[{group}]{listed}\n" for group, listed in read["options.entry_points"].items())
    directory.mkdir()
    (directory / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (directory / "entry_points.txt").write_text("\n".join(groups))


def without_in_settings(feature: str, settings: str) -> str:
    """Return the text of setup.cfg without the modules of a feature."""
    module = rf"zkdeployment\.{feature}\b[\w.]*"
    between = re.sub(rf" \| {module}|{module} \| ", "", settings)
    return re.sub(rf"(?m)^ +({feature} = )?{module}(:\w+| ->.*)?\n", "", between)


def _tests_that_need(features: set[str], project: Path, names: list[Path]) -> set[Path]:
    """Return the modules of tests that belong to features or import them, directly or through other tests."""
    places = ("unit/{}", "integration/{}", "system/test_{}.py")
    own = {Path("tests", place.format(feature)) for place in places for feature in features}
    tests = {name: _imported(project / name) for name in names if name.parts[0] == "tests"}
    modules = {".".join(name.relative_to("tests").with_suffix("").parts): name for name in tests}
    needing = {
        name
        for name, found in tests.items()
        if own & {name, *name.parents} or any(_is_of(features, module) for module in found)
    }
    while True:
        dotted = {module for module, name in modules.items() if name in needing}
        further = {name for name, found in tests.items() if name not in needing and found & dotted}
        if not further:
            return needing
        needing |= further


def _is_of(features: set[str], module: str) -> bool:
    return any(f"{module}.".startswith(f"zkdeployment.{feature}.") for feature in features)


def _imported(file: Path) -> set[str]:
    """Return the names of all modules that a file may import, also inside of functions and for types."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
