import json
from importlib import import_module

import pytest

from benchmarks import bench_publish
from benchmarks.keeping import keep
from benchmarks.results import HEADINGS, SCALES, Result


@pytest.mark.parametrize("name", ["parse", "watches", "convergence", "agent", "start", "memory", "rollout"])
def test_benchmark_finds_something_in_a_tiny_fleet(name):
    check(list(import_module(f"benchmarks.bench_{name}").measure(SCALES["tiny"])))


def check(found):
    assert found
    for result in found:
        assert result.value > 0
        assert len(result.words) == len(HEADINGS)


def test_one_changed_property_is_one_transaction_of_what_is_affected():
    found = list(bench_publish.measure(SCALES["tiny"]))
    check(found)
    counts = {result.work: result.value for result in found if not result.unit}
    # The service, its five targets, the versions of the targets and of the cluster, the history.
    assert counts == {"one property changed: transactions": 1, "one property changed: nodes written": 9}


def test_results_are_kept_beside_those_of_other_benchmarks(tmp_path):
    readme = tmp_path / "README.rst"
    readme.write_text("before\n.. speed: the table begins\nold\n.. speed: the table ends\nafter\n")
    drawn = []

    def keep_one(name, **fields):
        result = Result(work=f"{name} work", size="3 nodes", value=0.5, **fields)
        keep(
            name,
            [result],
            lambda found, file: drawn.append((sorted(found), file.name)),
            directory=tmp_path,
            readme=readme,
        )

    keep_one("one", against="slow", reference=100.0, at_least=40)
    keep_one("two", against="floor", reference=0.1)
    assert sorted(json.loads((tmp_path / "results.json").read_text())) == ["one", "two"]
    assert drawn == [(["one"], "speed.svg"), (["one", "two"], "speed.svg")]
    table = (tmp_path / "table.txt").read_text()
    assert "one work  3 nodes  500 ms  slow     100 s   200 times faster  at least 40  yes" in table
    assert "two work  3 nodes  500 ms  floor    100 ms  5 times" in table
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "one work" in text
    assert "two work" not in text
    assert "old" not in text
