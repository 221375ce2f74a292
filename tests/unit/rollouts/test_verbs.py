"""``rollout simulate`` as its users call it."""

import json

import pytest
from click.testing import CliRunner

from support.strategies import EXAMPLE_FILE
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.rollouts.verbs import command

HOSTS = """\
ntp01: {rack: rack01}
ctl1: {rack: rack03, tags: [control]}
ctl2: {rack: rack03, tags: [control]}
ctl3: {rack: rack03, tags: [control, monitoring]}
"""


@pytest.fixture
def simulate(tmp_path):
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(HOSTS)

    def run(*options, files=(EXAMPLE_FILE,)):
        argv = ["simulate", *map(str, files), "--hosts", str(hosts), *options]
        result = CliRunner().invoke(command, argv)
        if isinstance(result.exception, ConfigurationError):
            raise result.exception
        return result

    return run


def test_the_outcome_is_plain_data(simulate):
    result = simulate("--prepare-fails", "ntp01", "-o", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["valid"] is True
    assert document["errors"] == []
    assert document["members"]["control-nodes"] == ["ctl1", "ctl2", "ctl3"]
    assert document["order"] == ["monitoring-nodes", "ntp-node"]
    assert document["sent"]["monitoring-nodes"] == {"prepare": ["ctl3"], "deploy": ["ctl3"]}
    assert document["sent"]["control-nodes"] == {"prepare": [], "deploy": []}
    assert document["groups"]["ntp-node"] == {
        "prepare": "failed",
        "deploy": "failed",
        "result": "failed",
        "critical": True,
        "reason": "prepare: 0 of 1 hosts successful, expected at least 1",
    }
    assert document["hosts"] == {
        "ctl1": "not started",
        "ctl2": "not started",
        "ctl3": "success",
        "ntp01": "failure",
    }
    assert document["critical_failed"] is True
    assert document["result"] == "failed"


def test_the_outcome_is_a_table(simulate):
    result = simulate("--times-out", "control-nodes:deploy")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "control-nodes critical 3 success failed deploy: 2 of 2 hosts did not end in time" in " ".join(lines)
    assert "result: failed" in lines


def test_selectors_that_match_no_host_are_warned_of(simulate):
    result = simulate()
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: selector 1 of group ")]
    groups = [line.removeprefix("warning: selector 1 of group ").split()[0] for line in warnings]
    assert groups == ["compute-nodes-1", "compute-nodes-2"]
    reported = json.loads(simulate("-o", "json").stdout)["warnings"]
    assert [f"warning: {warning}" for warning in reported] == warnings


def test_hosts_may_be_given_as_json_on_the_command_line():
    argv = ["simulate", str(EXAMPLE_FILE), "--hosts", '{"ntp01": {}}', "-o", "json"]
    assert json.loads(CliRunner().invoke(command, argv).stdout)["hosts"] == {"ntp01": "success"}


def test_an_invalid_document_is_an_error_for_people_and_programs(simulate, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text(EXAMPLE_FILE.read_text().replace("- ntp-node", "- nobody"))
    result = simulate(files=[broken])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"{broken}:15:11: data.groups[0].depends_on[0]: there is no group nobody" in result.stderr
    result = simulate("-o", "json", files=[broken])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["valid"] is False
    assert "there is no group nobody" in json.loads(result.stdout)["errors"][0]


def test_the_strategy_is_named_or_the_one_that_the_syncer_would_publish(simulate, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(EXAMPLE_FILE.read_text().replace("name: deployment-strategy", "name: careful"))
    result = simulate("-o", "json", files=[other])
    assert result.exit_code == 1
    (error,) = json.loads(result.stdout)["errors"]
    assert "strategy careful is not in force; name it deployment-strategy, or choose it with" in error
    assert simulate("--strategy", "careful", files=[other]).exit_code == 0
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text("schema: shipyard/DeploymentConfiguration/v1\ndata: {deployment_strategy: careful}\n")
    assert simulate(files=[configuration, other]).exit_code == 0
    assert simulate(files=[configuration, EXAMPLE_FILE, other]).exit_code == 0
    assert simulate("--strategy", "careful", files=[EXAMPLE_FILE, other]).exit_code == 0
    result = simulate("--strategy", "bold", files=[EXAMPLE_FILE, other])
    assert result.exit_code == 1
    assert "expected the strategy bold, found: careful, deployment-strategy" in result.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--prepare-fails", "nobody"], "there is no host nobody; expected one of: ctl1, ctl2, ctl3, ntp01"),
        (["--times-out", "ntp-node"], "expected GROUP:prepare or GROUP:deploy"),
        (["--times-out", "nobody:deploy"], "there is no group nobody"),
    ],
)
def test_only_existing_hosts_can_fail(simulate, options, expected):
    result = simulate(*options)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_files_that_are_not_there_are_named(simulate, tmp_path):
    with pytest.raises(ConfigurationError, match=r"cannot read .*nope.yaml: No such file"):
        simulate(files=[tmp_path / "nope.yaml"])


ANALYSED = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - name: canary
      critical: %(critical)s
      depends_on: []
      selectors: [{node_names: [ctl1]}]
      bake_time: 10m
      progress_deadline: 5m
      analysis:
        - {name: errors, query: up, pass: '<= 1', failure_limit: 1}
        - {name: latency, query: up, pass: '<= 1.2 * others', dry_run: true}
    - {name: rest, critical: false, depends_on: %(depends_on)s, selectors: []}
"""


@pytest.fixture
def play(simulate, tmp_path):
    def run(measures, *options, critical="true", depends_on="[canary]"):
        strategy, file = tmp_path / "analysed.yaml", tmp_path / "measures.yaml"
        strategy.write_text(ANALYSED % {"critical": critical, "depends_on": depends_on})
        file.write_text(measures)
        return simulate("--measures", str(file), *options, files=[strategy])

    return run


def played(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_metrics_that_pass_let_the_rollout_go_on(play):
    document = played(
        play(
            "canary: {errors: [[0, 2], [61, .5]], latency: [[0, 1]], latency.others: [[120, 1]]}",
            "-o",
            "json",
        )
    )
    assert document["groups"]["canary"]["analysis"] == {
        "errors": {"verdict": "passed", "passed": 9, "failed": 1, "no_data": 0},
        "latency": {"verdict": "dry_run", "passed": 9, "failed": 0, "no_data": 1},
    }
    assert document["groups"]["rest"]["analysis"] == {}
    assert document["result"] == "success"


def test_a_metric_that_fails_fails_its_group_and_skips_the_groups_after_it(play):
    document = played(play('{"canary": {"errors": [[0, 2]]}}', "-o", "json"))
    canary, rest = document["groups"]["canary"], document["groups"]["rest"]
    assert (canary["prepare"], canary["deploy"], canary["result"]) == ("success", "failed", "failed")
    assert canary["reason"] == (
        "deploy: metric errors failed: 2 of 2 measurements failed, at most 1 may;"
        " after 2 min found 2, expected <= 1"
    )
    assert canary["analysis"]["errors"] == {"verdict": "failed", "passed": 0, "failed": 2, "no_data": 0}
    assert rest["reason"] == "not attempted: canary failed"
    assert (document["result"], document["hosts"]["ctl1"]) == ("failed", "success")


@pytest.mark.parametrize(("value", "found"), [("+Inf", "failed"), ('"+Inf"', "failed"), ('"-Inf"', "passed")])
def test_infinities_are_played_as_values(play, value, found):
    document = played(play(f"canary: {{errors: [[0, {value}]]}}", "-o", "json"))
    assert document["groups"]["canary"]["analysis"]["errors"]["verdict"] == found


@pytest.mark.parametrize("value", ["null", '"NaN"', ".nan"])
def test_a_group_without_data_waits_and_so_does_the_rollout(play, value):
    document = played(play(f"canary: {{errors: [[0, {value}]]}}", "-o", "json"))
    assert document["groups"]["canary"]["analysis"]["errors"] == {
        "verdict": "waiting",
        "passed": 0,
        "failed": 0,
        "no_data": 15,
    }
    assert [document["groups"][name]["result"] for name in ("canary", "rest")] == ["waiting", "waiting"]
    assert document["result"] == "waiting"


def test_a_rollout_does_not_wait_for_a_group_that_no_other_group_needs(play):
    document = played(play("{}", "-o", "json", critical="false", depends_on="[]"))
    assert [document["groups"][name]["result"] for name in ("canary", "rest")] == ["waiting", "success"]
    assert (document["result"], document["order"]) == ("success", ["canary", "rest"])


def test_the_table_shows_the_verdicts_on_metrics(play):
    output = play("canary: {errors: [[0, 0]]}").stdout
    assert "passed" in output
    assert "dry run" in output
    waiting = play("{}").stdout
    assert "waits for an operator: no measurement of metric errors passed" in waiting
    assert "result: waiting" in waiting


@pytest.mark.parametrize(
    ("measures", "problem"),
    [
        ("canaries: {}", "there is no group canaries; expected one of: canary, rest"),
        ("canary: {error: [[0, 1]]}", "canary: there is no metric error; expected one of: errors, latency"),
        (
            "rest: {errors: [[0, 1]]}",
            "rest: there is no metric errors; expected nothing: the group has no analysis",
        ),
        (
            "canary: {errors: [[0, high]]}",
            "canary: errors: expected a number, NaN, +Inf, -Inf or null, found 'high'",
        ),
        ("canary: {errors: [[null, 1]]}", "canary: errors: expected seconds, found None"),
        ("canary: {errors: 1}", "canary: errors: expected a list of [SECONDS, VALUE], found 1"),
        ("canary: {errors: [1]}", "measures.yaml:1:18: expected a list of [SECONDS, VALUE], or the VALUE of"),
        ("[1]", "expected a mapping of groups to their metrics"),
        ("canary: {errors: [[0, 1]", "measures.yaml:2:1: not valid YAML"),
    ],
)
def test_measures_that_do_not_fit_the_strategy_are_refused(play, measures, problem):
    with pytest.raises(ConfigurationError) as refused:
        play(measures)
    assert problem in str(refused.value)
