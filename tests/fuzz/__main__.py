"""Fuzz one target for some seconds: ``PYTHONPATH=tests python -m fuzz TARGET SECONDS``.

The first input that raises an unexpected error ends the run, and is in the corpus of the target as ``crash-HASH``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["zkdeployment", "joserfc"]):
    from fuzz.targets import CORPORA, TARGETS, WORDS


def fuzz(name: str, seconds: int) -> None:
    """Fuzz a target with its corpus; the process ends with exit code 0 if there was no finding."""
    corpus = CORPORA / name
    with tempfile.TemporaryDirectory() as found:
        options = {"max_total_time": seconds, "artifact_prefix": f"{corpus}/", "dict": WORDS, "timeout": 30}
        arguments = [*(f"-{name}={value}" for name, value in options.items()), found, str(corpus)]
        atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
        atheris.Fuzz()


parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz one target for some seconds.")
parser.add_argument("target", choices=TARGETS)
parser.add_argument("seconds", type=int)
given = parser.parse_args()
fuzz(given.target, given.seconds)
