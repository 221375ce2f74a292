"""The checker of histories accepts simulated fleets, and finds defects that are put back."""

import json
from contextlib import nullcontext

import pytest

from histories.checker import judge, read_history
from simulation.mutations import DEFECTS, MUTATIONS
from simulation.world import Options, World

#: Mutations, and the part of the sentence with which the checker finds each.
FOUND = {
    "no lock check": "two scripts under service",
    "no stop check": "s after the stop",
    "no compare-and-set": "a stop is on record",
    "a stop survives a resume": "a stop is on record",
    "a script that outlives its agent loses its lock": "two scripts under service",
    "an error beside a script frees its lock": "app is released",
    "a reboot gives its lock away": "is down",
    "a host that does not come back stops nothing": "but the fleet goes on",
}


def findings(mutation=None, seeds=(1,), **options):
    for seed in seeds:
        history = []
        with nullcontext() if mutation is None else mutation.change():
            World(Options(seed, hosts=5, services=4, **options), history=history.append).run()
        assert history
        found = judge(read_history(map(json.dumps, history)))
        if found:
            return found
    return []


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "sentence"), FOUND.items())
def test_the_checker_alone_finds_a_mutation(name, sentence):
    mutation = {**MUTATIONS, **DEFECTS}[name]
    seeds = range(mutation.first, mutation.first + 60)
    assert sentence in findings(mutation, seeds, faults=600.0, theme=mutation.theme)[0]


@pytest.mark.parametrize("theme", ["mixed", "stops", "retries", "restarts", "reboots"])
def test_the_history_of_the_program_keeps_the_promises(theme):
    assert findings(seeds=range(1, 3), faults=240.0, theme=theme) == []
