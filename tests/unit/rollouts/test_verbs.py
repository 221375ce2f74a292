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
