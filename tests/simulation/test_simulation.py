"""Simulated fleets: the invariants hold in many seeds, and each mechanism that is taken out is missed.

The seeds run in processes of their own, in which the order of sets is fixed, so that ``scripts/simulate --seed``
repeats them.
"""

import contextlib
import os
import shlex
import sys
from pathlib import Path
from unittest import mock

import pytest

from simulation import command
from simulation.__main__ import parse
from simulation.checks import Checks
from simulation.mutations import DEFECTS, MUTATIONS, SEARCHED, Mutation
from support.commands import run

pytestmark = pytest.mark.timeout(1300)  # a minute of processor time, more on a busy machine

_TESTS = Path(__file__).parents[1]


def simulate(*arguments):
    return run(
        *(sys.executable, "-m", "simulation", *arguments),
        env={**os.environ, "PYTHONPATH": str(_TESTS), "PYTHONHASHSEED": "0"},
    )


@pytest.fixture(scope="module")
def mutations():
    return simulate("--mutations", "--seeds", "60").stdout


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*MUTATIONS, *DEFECTS])
def test_the_invariants_detect_defects(mutations, name):
    assert f"found: {name}: " in mutations, mutations


def outdated(mutation):
    """Return the name that a mutation changes and the code no longer has, in a message; empty without one."""
    try:
        with mutation.change():
            return ""
    except AttributeError as error:
        return str(error)


def test_each_mutation_changes_what_the_code_has():
    found = {name: outdated(mutation) for name, mutation in {**MUTATIONS, **DEFECTS, **SEARCHED}.items()}
    assert {name: problem for name, problem in found.items() if problem} == {}


def test_a_mutation_that_does_not_fit_the_code_is_broken_and_not_found(monkeypatch, capsys):
    def check(_supervision):
        """Check without the arguments of the caller."""

    def outdated():
        return mock.patch("zkdeployment.agent.daemon.deployment.Supervision._check_cluster", check)

    monkeypatch.setattr(command, "MUTATIONS", {"old": Mutation(outdated, "mixed")})
    monkeypatch.setattr(command, "DEFECTS", {})
    assert command.run(parse(["--mutations", "--seeds", "1"])) == 1
    assert capsys.readouterr().out.startswith("broken: old: ")


def test_a_mutation_whose_seed_fails_without_it_is_broken_and_not_found(monkeypatch, capsys):
    monkeypatch.setattr(Checks, "check_end", lambda checks: checks.fail("the seed itself fails"))
    monkeypatch.setattr(command, "MUTATIONS", {"none": Mutation(contextlib.nullcontext, "mixed")})
    monkeypatch.setattr(command, "DEFECTS", {})
    assert command.run(parse(["--mutations", "--seeds", "1", "--calm"])) == 1
    said = capsys.readouterr().out
    assert said.startswith("broken: none: ")
    assert "the seed itself fails" in said


#: The options of fleets, and how many of their seeds run in each commit and at night.
FLEETS = {
    "--faults 240 --hosts 4": (3, 50),
    "--first 1001 --faults 60 --hosts 3 --services 3": (4, 150),
    "--theme checkouts --faults 240": (1, 12),
    "--theme repetitions --faults 240": (1, 24),
    "--theme rollbacks --faults 240": (1, 24),
    "--theme analyses --faults 1800": (1, 24),
    "--theme retries --faults 240": (1, 24),
    "--theme 'group stops' --faults 600": (1, 24),
    "--theme maintenance --faults 240": (1, 24),
    "--theme reboots --faults 600": (1, 24),
    "--theme denials --faults 240": (1, 24),
    "--theme versions --faults 240": (1, 24),
    "--theme approvals --faults 240": (1, 24),
    "--theme 'lost directories' --faults 240": (1, 24),
    "--theme leases --faults 240": (1, 24),
    "--theme checks --faults 240": (1, 24),
}


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        *((options, seeds) for options, (seeds, _) in FLEETS.items()),
        *(pytest.param(options, seeds, marks=pytest.mark.nightly) for options, (_, seeds) in FLEETS.items()),
    ],
)
def test_small_fleets_keep_all_invariants_under_all_events(options, seeds):
    done = simulate(*shlex.split(options), "--seeds", seeds)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert "all invariants held" in done.stdout


def test_a_seed_has_the_same_outcome_each_time():
    first, second = (simulate("--seed", "3", "--faults", "120") for _ in range(2))
    assert first.stdout == second.stdout
    assert "seed 3 (" in first.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--hosts", "40", "--faults", "120"),
        pytest.param(("--hosts", "150", "--calm"), marks=pytest.mark.nightly),
    ],
)
def test_a_large_fleet_converges(arguments):
    done = simulate("--seeds", "1", *arguments)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
