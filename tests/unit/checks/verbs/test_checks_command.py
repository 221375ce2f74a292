"""``checks simulate`` as its users call it."""

import json

import pytest
import yaml
from click.testing import CliRunner

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.checks.verbs.checks import command

EVENTS = """\
start: null
events:
- {event: create, details: {port: 80}}
- {event: tick}
- {event: fetch}
- {event: success}
- {event: list}
- {event: success}
"""


@pytest.fixture
def simulate(tmp_path):
    file = tmp_path / "events.yaml"

    def run(text, *options):
        file.write_text(text)
        result = CliRunner().invoke(command, ["simulate", str(file), *options])
        if isinstance(result.exception, ConfigurationError):
            raise result.exception
        assert result.exit_code == 0
        return result.stdout

    return run


def test_the_steps_are_plain_data(simulate):
    document = json.loads(simulate(EVENTS, "-o", "json"))
    assert list(document) == ["steps"]
    assert [step["answer"] for step in document["steps"]] == ["ok", "ok", "ok", "ok", "ok", "conflict"]
    assert [step["reply"] for step in document["steps"]] == [
        None,
        None,
        {"port": 80, "task": "rollout"},
        None,
        False,
        None,
    ]


def test_yaml_and_json_are_the_same_data(simulate):
    text = simulate(EVENTS, "-o", "yaml")
    assert yaml.safe_load(text) == json.loads(simulate(EVENTS, "-o", "json"))
    assert "&id" not in text


def test_the_table_has_a_row_for_each_event(simulate):
    rows = [line.split() for line in simulate(EVENTS).splitlines() if line.strip()]
    assert rows[0] == ["EVENT", "ANSWER", "REPLY", "POKED", "UPDATE", "DELETED", "VERSIONS"]
    assert rows[2] == ["create", "ok", "-", "-", "yes", "-", "0*", "awaiting_rollout"]
    assert rows[3] == ["tick", "ok", "-", "yes", "-", "-", "0*", "awaiting_rollout"]
    assert rows[4] == ["fetch", "ok", "rollout", "-", "-", "-", "0*", "rollout_in_progress"]
    assert rows[6] == ["list", "ok", "not", "listed", "-", "-", "-", "0*", "active"]
    assert rows[7] == ["success", "conflict", "-", "-", "-", "-", "0*", "active"]


def test_a_malformed_file_is_an_error_with_its_place(simulate):
    with pytest.raises(ConfigurationError, match=r"events\.yaml: events\.0\.event: expected one of"):
        simulate("events: [{event: jump}]")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    for path in (tmp_path / "missing.json", tmp_path):
        result = CliRunner().invoke(command, ["simulate", str(path)])
        assert isinstance(result.exception, ConfigurationError)
        assert result.exception.exit_code == 2
