"""All runs of small fleets keep the invariants, and find the mechanisms that are taken out."""

import re

import pytest

from simulation.mutations import SEARCHED
from simulation.scenarios import SCENARIOS
from simulation.test_simulation import simulate

pytestmark = pytest.mark.timeout(1300)

#: The mutations that the search of a scenario finds.
FOUND = {
    "smallest": (
        "no lock check",
        "no stop check",
        "version recorded early",
        "the version stands while the host changes",
        "a script that outlives its agent loses its lock",
    ),
    "ordered": ("order between services ignored",),
    "restarts": ("a terminated agent gives its half-done service away",),
    "groups": ("the stop of a group is ignored", "an error beside a script frees its lock"),
    **{
        scenario: tuple(name for name, mutation in SEARCHED.items() if mutation.theme == scenario)
        for scenario in ("resumed groups", "resumed groups published again")
    },
    "retries": ("a retry forgets the stops", "a retry outlives stops"),
    "retries of two services": ("all hosts follow a retry",),
    "versions by hand": ("a retry outlives a version by hand",),
    "imports": ("an import ignores a retry",),
    "pruning": ("what is pruned stays on converged hosts",),
    "maintenance": ("a host in maintenance begins a step",),
}


def test_all_runs_of_the_smallest_fleet_keep_all_invariants():
    done = simulate("--search", "smallest")
    assert re.fullmatch(r"smallest: 1 \+ \d+ runs, in \d+ s: all invariants held\n", done.stdout), done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "smallest"])
def test_all_runs_of_small_fleets_keep_all_invariants(name):
    done = simulate("--search", name, "--minutes", "20")
    assert done.returncode == 0, done.stdout
    assert "all invariants held" in done.stdout
    assert " left, " not in done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("scenario", "name"), [(scenario, name) for scenario in FOUND for name in FOUND[scenario]]
)
def test_a_search_finds_what_is_taken_out(scenario, name, tmp_path):
    done = simulate("--search", scenario, "--mutations", name, "--save", tmp_path / "run.json")
    assert done.returncode == 1, done.stdout
    assert f"{scenario} with {name}: " in done.stdout


def test_a_run_that_fails_is_replayed_from_a_file(tmp_path):
    saved = tmp_path / "run.json"
    search = simulate("--search", "smallest", "--mutations", "version recorded early", "--save", saved)
    violation = search.stdout.splitlines()[0].partition(" s: ")[2]
    assert violation.startswith("h0: its node says version ")
    assert f"scripts/simulate --replay {saved}" in search.stdout
    replay = simulate("--replay", saved)
    assert replay.returncode == 1
    assert replay.stdout.endswith(f"{violation}\n")
    assert "h0           info: deployment-started" in replay.stdout


def test_a_file_without_a_run_is_named(tmp_path):
    for text in ("no JSON", "[]", '{"scenario": "of another version"}'):
        (tmp_path / "run.json").write_text(text)
        replay = simulate("--replay", tmp_path / "run.json")
        assert (replay.returncode, replay.stderr) == (2, "")
        assert f"cannot replay {tmp_path}/run.json: expected a file that --search saved" in replay.stdout
