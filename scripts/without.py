"""Copy the project without a feature, to prove that nothing else needs it.

usage: python scripts/without.py FEATURE DIRECTORY

The copy has neither the folder of the feature, nor its name in the list of features and in setup.cfg, nor the
tests that import it, directly or through another module of the tests.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

#: The features that can be taken out.
FEATURES = ("rollouts", "promotion", "intents", "checks", "pools", "providers", "editors")

_LIST = Path("src/zkdeployment/programs/__init__.py")


def main(arguments: list[str]) -> int:
    """Make the copy; return the exit code."""
    if len(arguments) != 2 or arguments[0] not in FEATURES:
        sys.stderr.write(f"usage: python scripts/without.py {{{','.join(FEATURES)}}} DIRECTORY\n")
        return 2
    feature, target = arguments[0], Path(arguments[1])
    removed = copy_without(feature, Path(__file__).resolve().parents[1], target)
    sys.stdout.write(f"{target} has no {feature}; {len(removed)} modules of tests that need it are left out\n")
    return 0


def copy_without(feature: str, project: Path, target: Path) -> set[Path]:
    """Copy the files of a project that git knows; return the paths of the tests that are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [Path(name) for name in listed.split("\0") if name and (project / name).is_file()]
    own = Path("src/zkdeployment", feature)
    left_out = _tests_that_need(feature, project, [name for name in names if name.suffix == ".py"])
    for name in names:
        if own in name.parents or name in left_out:
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(project / name, target / name)
    listing = (target / _LIST).read_text()
    (target / _LIST).write_text(listing.replace(f'    "{feature}",\n', ""))
    settings = (target / "setup.cfg").read_text()
    (target / "setup.cfg").write_text(without_in_settings(feature, settings))
    return left_out


def without_in_settings(feature: str, settings: str) -> str:
    """Return the text of setup.cfg without the modules of a feature."""
    module = rf"zkdeployment\.{feature}\b[\w.]*"
    between = re.sub(rf" \| {module}|{module} \| ", "", settings)
    return re.sub(rf"(?m)^ +{module}( ->.*)?\n", "", between)


def _tests_that_need(feature: str, project: Path, names: list[Path]) -> set[Path]:
    """Return the modules of tests that import a feature, directly or through other modules of tests."""
    tests = {name: _imported(project / name) for name in names if name.parts[0] == "tests"}
    modules = {".".join(name.relative_to("tests").with_suffix("").parts): name for name in tests}
    needing = {name for name, found in tests.items() if any(_is_of(feature, module) for module in found)}
    while True:
        dotted = {module for module, name in modules.items() if name in needing}
        further = {name for name, found in tests.items() if name not in needing and found & dotted}
        if not further:
            return needing
        needing |= further


def _is_of(feature: str, module: str) -> bool:
    return f"{module}.".startswith(f"zkdeployment.{feature}.")


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
