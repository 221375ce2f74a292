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


@pytest.mark.parametrize("module", re.findall(r"module=(\w+)", (SCRIPTS / "demo").read_text(encoding="utf-8")))
def test_each_demo_has_a_module(module):
    assert callable(import_module(f"zkdeployment.sandbox.{module}").main)


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


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("page.js", "// The page.\nconst one = 1;\n", None),
        ("page.min.js", "const one = 1;\n", "minified"),
        ("page.js", f"{'a();' * 300}\n", "minified"),
        ("page.css", "/* Copyright of somebody */\n", "a work of others"),
        ("LICENSE.txt", "MIT\n", "a work of others"),
        ("page.css", "a { color: red; }\n" * 6000, "108000 bytes"),
    ],
)
def test_minified_and_foreign_files_are_problems(tmp_path, name, text, problem):
    find = runpy.run_path(str(SCRIPTS / "check_structure.py"))["foreign_files"]
    (tmp_path / name).write_text(text)
    found = [each.partition(": ")[2].partition(";")[0] for each in find([tmp_path / name])]
    assert found == ([] if problem is None else [problem])


TYPE_IMPORT = "if TYPE_CHECKING:\n    from zk.{0}.one import NAME\n"


def modules_of(tmp_path, contents):
    """Write a module ``one`` into each capability; return the files."""
    files = [tmp_path / "zk" / name / "one.py" for name in contents]
    for file, content in zip(files, contents.values(), strict=True):
        file.parent.mkdir(parents=True)
        file.write_text(content)
    return files


def test_an_import_of_a_higher_or_a_neighbouring_capability_is_a_problem_also_for_types_only(tmp_path):
    find = runpy.run_path(str(SCRIPTS / "check_structure.py"))["upward_imports"]
    layers = (["zk.cli"], ["zk.pools", "zk.checks"], ["zk.base"])
    contents = {
        "cli": "import zk.base.one\n",
        "pools": TYPE_IMPORT.format("checks"),
        "checks": "def load():\n    from zk.cli.one import NAME\n",
        "base": TYPE_IMPORT.format("pools"),
    }
    problems = [problem.partition(": ")[2] for problem in find(modules_of(tmp_path, contents), tmp_path, layers)]
    assert problems == [
        "zk.pools.one imports zk.checks.one, but does not stand above zk.checks; move it",
        "zk.checks.one imports zk.cli.one, but does not stand above zk.cli; move it",
        "zk.base.one imports zk.pools.one, but does not stand above zk.pools; move it",
    ]


@pytest.mark.parametrize(("length", "is_problem"), [(4, False), (5, True)])
def test_more_than_four_modules_that_need_each_other_are_a_problem_also_for_types_only(
    tmp_path, length, is_problem
):
    find = runpy.run_path(str(SCRIPTS / "check_structure.py"))["large_circles"]
    names = [f"m{number}" for number in range(length)]
    contents = {name: TYPE_IMPORT.format(other) for name, other in zip(names, [*names[1:], "m0"], strict=True)}
    contents["outside"] = TYPE_IMPORT.format("m0")
    problems = [problem.partition(": ")[2] for problem in find(modules_of(tmp_path, contents), tmp_path)]
    listed = ", ".join(f"zk.{name}.one" for name in names)
    assert problems == ([f"5 modules need each other (4 are allowed): {listed}"] if is_problem else [])


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


PARTS = {"a/part.py": "NAME = 1\n", "a/other.py": "import os\n", "b/__init__.py": ""}


@pytest.mark.parametrize(
    ("file", "text", "is_lone"),
    [
        ("a/whole.py", "from a.part import NAME\n", True),
        ("a/whole.py", "if True:\n    import a.part\n", True),
        ("a/below/whole.py", "from a import part\n", True),
        ("a/whole.py", "def load():\n    from a.part import NAME\n", False),
        ("a/whole.py", "if TYPE_CHECKING:\n    from a.part import NAME\n", False),
        ("b/whole.py", "from a.part import NAME\n", False),
    ],
)
def test_a_small_module_that_only_its_own_package_imports_is_a_problem(tmp_path, file, text, is_lone):
    lines = structure()["LONE_MODULE"]
    for parts in ({**PARTS, file: text}, {**PARTS, file: text, "a/part.py": "NAME = 1\n" * (lines - 1)}):
        assert bool(lone_modules(tmp_path, parts)) == is_lone
    assert lone_modules(tmp_path, {**PARTS, file: text, "a/part.py": "NAME = 1\n" * lines}) == []
    assert lone_modules(tmp_path, {**PARTS, file: text, "b/more.py": "from a import part\n"}) == []


@pytest.mark.parametrize(
    ("rest", "bound", "problem"),
    [
        (85, 0.14, "heads of files are 15.0% of all lines; merge modules (14% are allowed)"),
        (85, 0.15, None),
        (85, 0.16, None),
        (85, 0.17, "heads of files are 15.0% of all lines; set HEADS to 0.16 in check_structure.py"),
        (285, 0.10, None),
    ],
)
def test_heads_of_files_may_only_become_shorter(tmp_path, rest, bound, problem):
    head = '"""Text.\n\nMore.\n"""\n\nimport os\n\nif TYPE_CHECKING:\n    from a import b\n    from c import (\n'
    text = head + "        d,\n\n        e,\n        f,\n    )\n\nX = 1\nimport re\n"
    files = write(tmp_path, {"__init__.py": "import os\n", "a.py": text + "x\n" * (rest - 3)})
    assert [*structure()["heads"](files, bound)] == ([] if problem is None else [problem])


@pytest.mark.parametrize(("number", "is_crowded"), [(0, False), (1, True)])
def test_a_folder_holds_at_most_so_many_modules(tmp_path, number, is_crowded):
    names = [f"m{each}.py" for each in range(structure()["FOLDER"] + number)]
    files = write(tmp_path, dict.fromkeys(["__init__.py", *names], ""))
    assert bool([*structure()["crowded_folders"](files)]) == is_crowded


def structure():
    return runpy.run_path(str(SCRIPTS / "check_structure.py"))


def write(directory, files):
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return [directory / name for name in files]


def lone_modules(directory, files):
    return [*structure()["lone_modules"](write(directory, files), directory)]
