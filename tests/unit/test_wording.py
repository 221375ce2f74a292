"""The check of wordings finds sentences at which readers stumble, and no others."""

import re
import runpy
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"

STUMBLES = {
    "src/docstring.py": '"""Return the host; an unknown name is none."""\n',
    "src/function.py": 'def stop():\n    """Stop the fleet.\n\n    It waits for\n    the hosts.\n    """\n',
    "src/comment.py": "# The hosts are read, as they\n# were registered.\n",
    "src/message.py": 'raise ValueError(f"{1} failed; look at "\n                 "the log")\n',
    "src/keyed.py": 'class Results:\n    """``hosts`` are by identifier."""\n',
    "etc/manual/page.rst": "The page\nsays so.\n",
    "README.rst": "- Nobody reads ``this``.\n",
    "src/omitted.py": '"""Damaged records are left out."""\n',
    "src/outcome.py": "# The log shows what becomes of a commit.\n",
    "src/continued.py": '"""The deployment goes on after a failure."""\n',
    "src/placed.py": "# Secrets belong into files of root.\n",
    "src/any.py": '"""A search takes two requests, whatever the size of the tree."""\n',
    "src/number.py": '"""A search takes two requests, however many hosts wait."""\n',
    "src/released.py": "# The lock is handed on at the end.\n",
    "src/delayed.py": "# A silent server holds up all requests.\n",
    "src/obstacle.py": 'raise ValueError(f"{1} stands in the way of the act")\n',
    "src/objection.py": '"""Return the reasons that speak against a change."""\n',
    "src/limit.py": "#: How many hosts a line names.\nLIMIT = 3\n",
    "src/result.py": '"""Return what a user may see."""\n',
    "src/nevertheless.py": "# The commit stays all the same.\n",
    "src/unchanged.py": "# The key is valid as ever.\n",
}
FINE = {
    "src/fine.py": '"""The host as soon as it is read; look up its name, ``nobody says``."""\n',
    "src/name.py": 'PATTERN = "nobody says"\n',
    "src/left.py": '"""A host left; how many hosts wait is unknown, and the wait goes on to the end."""\n',
    "etc/manual/fine.rst": "An example::\n\n   nobody says so\n\n   nobody looks\n\nSorted by name.\n",
}


def written(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return [root / name for name in files]


@pytest.fixture(scope="module")
def wording_problems():
    return runpy.run_path(str(SCRIPTS / "check_wording.py"))["problems"]


def test_wordings_at_which_readers_stumble_are_problems(tmp_path, wording_problems):
    problems = list(wording_problems(tmp_path, written(tmp_path, STUMBLES), ""))
    found = [re.match(r"(\S+):\d+: '([^']+)' in: ", problem).groups() for problem in problems]
    assert found == [
        ("src/docstring.py", "none"),
        ("src/function.py", "It"),
        ("src/comment.py", "as it is"),
        ("src/message.py", "look"),
        ("src/keyed.py", "are by"),
        ("etc/manual/page.rst", "say"),
        ("README.rst", "somebody"),
        ("src/omitted.py", "leave out"),
        ("src/outcome.py", "become of"),
        ("src/continued.py", "go on"),
        ("src/placed.py", "belong into"),
        ("src/any.py", "ever"),
        ("src/number.py", "however"),
        ("src/released.py", "hand on"),
        ("src/delayed.py", "hold up"),
        ("src/obstacle.py", "in the way"),
        ("src/objection.py", "speak against"),
        ("src/limit.py", "how many"),
        ("src/result.py", "return what"),
        ("src/nevertheless.py", "all the same"),
        ("src/unchanged.py", "as ever"),
    ]


def test_other_wordings_literals_and_literal_blocks_are_not_problems(tmp_path, wording_problems):
    assert list(wording_problems(tmp_path, written(tmp_path, FINE), "")) == []


def test_an_allowed_place_is_accepted_until_its_sentence_changes(tmp_path, wording_problems):
    (file,) = written(tmp_path, {"README.rst": "The log says so.\n"})
    place = "say | README.rst | The log says so."
    assert list(wording_problems(tmp_path, [file], f"# comment\n\n{place}\n")) == []
    file.write_text("The log shows the reason.\n")
    (problem,) = wording_problems(tmp_path, [file], place)
    assert problem.endswith(f"remove it: {place}")
