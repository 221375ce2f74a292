"""The scripts use Python names that exist, and the check of the structure finds circles and lone Protocols."""

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
    for harmless in ("import os\nfrom a import NAME\n", "if TYPE_CHECKING:\n    from a.one import NAME\n"):
        files[3].write_text(harmless)
        assert list(find(files, tmp_path)) == []


PROTOCOL = """class Files(Protocol):
    def read(self, name: str) -> str: ...
"""
DISK = """class Disk:
    def read(self, name): ...
"""


@pytest.mark.parametrize(
    ("other", "is_lone"),
    [
        ("", True),
        ("class Archive:\n    def read(self, name): ...\n", False),
        ("class Archive:\n    def __init__(self):\n        self.name = 1\n", True),
        ("class Socket:\n    def read(self, size): ...\n", True),
        ("class SmallDisk(Disk):\n    def read(self, name): ...\n", True),
    ],
    ids=["one class", "two classes", "other members", "other arguments", "a subclass"],
)
def test_a_protocol_needs_two_implementations(tmp_path, other, is_lone):
    assert bool(lone_protocols(tmp_path, PROTOCOL + DISK + other)) == is_lone


@pytest.mark.parametrize(("imported", "is_lone"), [("from support.fakes import Memory\n", False), ("", True)])
def test_a_fake_makes_a_protocol_useful_only_beside_a_contract_suite(tmp_path, imported, is_lone):
    for name, text in {
        "contract/test_files.py": imported,
        "support/fakes.py": "class Memory:\n    def read(self, name): ...\n",
    }.items():
        (tmp_path / "tests" / name).parent.mkdir(parents=True)
        (tmp_path / "tests" / name).write_text(text)
    problems = lone_protocols(tmp_path, PROTOCOL + DISK)
    assert bool(problems) == is_lone
    assert all("Disk implements the Protocol Files, and no suite" in problem for problem in problems)


def lone_protocols(directory, text):
    source = directory / "files.py"
    source.write_text(text)
    find = runpy.run_path(str(SCRIPTS / "check_structure.py"))["lone_protocols"]
    return list(find([source], directory / "tests"))
