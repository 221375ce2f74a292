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
}
FINE = {
    "src/fine.py": '"""The host as soon as it is read; look up its name, ``nobody says``."""\n',
    "src/name.py": 'PATTERN = "nobody says"\n',
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
    ]


def test_other_wordings_literals_and_literal_blocks_are_no_problems(tmp_path, wording_problems):
    assert list(wording_problems(tmp_path, written(tmp_path, FINE), "")) == []


def test_an_allowed_place_is_no_problem_until_its_sentence_changes(tmp_path, wording_problems):
    (file,) = written(tmp_path, {"README.rst": "The log says so.\n"})
    place = "say | README.rst | The log says so."
    assert list(wording_problems(tmp_path, [file], f"# comment\n\n{place}\n")) == []
    file.write_text("The log shows the reason.\n")
    (problem,) = wording_problems(tmp_path, [file], place)
    assert problem.endswith(f"remove it: {place}")
