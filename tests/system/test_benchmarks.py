import json
from types import SimpleNamespace

import pytest

from benchmarks import bench_publish, command
from benchmarks.__main__ import NAMES
from benchmarks.keeping import keep
from benchmarks.results import HEADINGS, SCALES, Result
from support.commands import run
from support.fresh_checkout import environment, make_checkout


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_benchmarks_of_tiny_fleets_yield_results_with_what_their_script_installs(place):
    checkout = make_checkout(place / "checkout")
    done = run(checkout / "scripts" / "benchmark", "--tiny", *NAMES, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {}
    for line in done.stdout.splitlines():
        if line.strip() in NAMES:
            rows[line.strip()] = []
        elif line.startswith("│"):
            rows[[*rows][-1]].append(line)
    assert tuple(rows) == tuple(NAMES)
    assert [name for name in NAMES if not rows[name]] == []


def check(results):
    assert results
    for result in results:
        assert result.value > 0
        assert len(result.words) == len(HEADINGS)


def test_a_table_that_goes_to_a_file_has_one_line_for_each_result(monkeypatch, capsys):
    result = Result(
        work="some work " * 15, size="10,000 hosts", value=0.5, against="something " * 10, reference=0.1
    )
    benchmark = SimpleNamespace(measure=lambda _: [result])
    monkeypatch.setattr(command, "import_module", lambda _: benchmark)
    monkeypatch.delenv("COLUMNS", raising=False)
    command.measure("some", SCALES["tiny"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "10,000 hosts" in line]
    assert result.words[0] in line


def test_a_change_of_one_property_is_one_transaction_of_the_affected_nodes():
    results = list(bench_publish.measure(SCALES["tiny"]))
    check(results)
    counts = {result.work: result.value for result in results if not result.unit}
    # Written are the service, its 5 targets, the versions of the targets and the cluster, the history, the lock.
    assert counts == {"one property changed: transactions": 1, "one property changed: nodes written": 10}


def test_results_are_kept_beside_those_of_other_benchmarks(tmp_path):
    drawn = []

    def keep_one(name, work, **fields):
        keep(
            name,
            [Result(work=work, size="10,000 hosts", value=0.5, **fields)],
            lambda state, file: drawn.append((sorted(state), file.name)),
            directory=tmp_path,
        )

    keep_one("one", "one work", against="slow", reference=100.0, at_least=40)
    keep_one("two", "two work", against="floor", reference=0.1)
    keep_one("three", "grants written", against="one request at a time", reference=5.0, at_least=5)
    keep_one("four", "missed work", against="fast", reference=0.1, at_most=2)
    assert sorted(json.loads((tmp_path / "results.json").read_text())) == ["four", "one", "three", "two"]
    assert drawn[-1] == (["four", "one", "three", "two"], "speed.svg")
    table = (tmp_path / "table.txt").read_text()
    assert "200 times faster  at least 40  yes" in table
    assert "two work" in table
    text = (tmp_path / "highlights.txt").read_text()
    assert "grants written" in text
    assert "missed work" in text
    assert "one work" not in text, "it meets its aim"
    assert "two work" not in text, "it has no aim"
