"""What outsiders may send raises no unexpected error: the corpora, and further inputs, more of them at night."""

import os
import sys

import pytest

from fuzz.targets import ANSWERS, CORPORA, NODES, TARGETS
from support.commands import run

CORPUS = [file for target in TARGETS for file in sorted((CORPORA / target).iterdir())]


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_the_corpora_are_read_without_an_unexpected_error(file):
    TARGETS[file.parent.name](file.read_bytes())


@pytest.mark.parametrize(("corpus", "readers"), [("nodes", NODES), ("answers", ANSWERS)])
def test_the_corpus_has_each_reader(corpus, readers):
    assert {file.read_bytes()[0] for file in (CORPORA / corpus).iterdir()} >= set(range(len(readers)))


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_that_the_fuzzer_makes_raises_an_unexpected_error(target, pytestconfig):
    seconds = 60 if pytestconfig.getoption("nightly") else 2
    tests = {**os.environ, "PYTHONPATH": str(CORPORA.parents[1])}
    done = run(sys.executable, "-m", "fuzz", target, seconds, env=tests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DONE" in done.stderr
