"""The shell scripts of the project use Python names that exist."""

import re
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
