"""The shell scripts of the project use Python names that exist, and the check of the structure finds circles."""

import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
IMPORTS = sorted(
    (script.name, module, name)
    for script in SCRIPTS.iterdir()
    if script.suffix in {"", ".sh"} and script.is_file()
    for module, name in re.findall(r"from (zkdeployment[\w.]*) import (\w+)", script.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize(("script", "module", "name"), IMPORTS)
def test_a_name_that_a_script_imports_exists(script, module, name):
    assert hasattr(import_module(module), name), script


def test_the_scripts_import_something():
    assert IMPORTS


@pytest.mark.parametrize(
    "text",
    [
        "import a.one\n",
        "from a import one\n",
        "from a.one import NAME\n",
        "def load():\n    from a.one import NAME\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.one import NAME\n",
    ],
)
def test_modules_that_import_each_other_in_any_way_are_a_problem(tmp_path, text):
    find = runpy.run_path(str(SCRIPTS / "check_structure.py"))["import_circle"]
    files = [tmp_path / "a" / name for name in ("__init__.py", "one.py", "two.py", "three.py")]
    files[0].parent.mkdir()
    for file, content in zip(files, ("", "from a import two\n", "import a.three\n", text), strict=True):
        file.write_text(content)
    (problem,) = find(files, tmp_path)
    assert problem.endswith("; move what both need")
    (circle,) = re.findall(r"a\.\w+(?: -> a\.\w+)+", problem)
    assert "a.one -> a.two -> a.three -> a.one" in f"{circle} -> {circle.partition(' -> ')[2]}"
    files[3].write_text("import os\nfrom a import NAME\n")
    assert list(find(files, tmp_path)) == []
