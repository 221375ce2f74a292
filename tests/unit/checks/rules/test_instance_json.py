"""The encoding of check instances: what is written is read again, and anything else is refused."""

import json
from dataclasses import replace

import pytest

from zkdeployment.checks.rules.instance import (
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    InstanceKey,
    instance_from_json,
    instance_to_json,
)

INSTANCE = CheckInstance(
    key=InstanceKey("front-http", "/p1/shop/front", 2, "host1", (("port", 80), ("tier", "web"))),
    configurations=(
        InstanceConfiguration(
            version=3,
            config_id="c3",
            state=CheckState.ROLLOUT_FAILED,
            details={"arguments": ["-p", "80"], "thresholds": [{"value": 0.5}], "none": None},
            system="nagios1",
            publication=17,
            reason="no such plugin",
            created=12.5,
            changed=13.5,
        ),
        InstanceConfiguration(4, "c4", CheckState.AWAITING_COMPUTATION),
    ),
    current=3,
    update_available=True,
    deleted=True,
    flag=7,
    notified=99.25,
)


@pytest.mark.parametrize("instance", [INSTANCE, CheckInstance(InstanceKey("c", "/", 0, "h"))])
def test_an_instance_is_read_back_unchanged(instance):
    assert instance_from_json(json.loads(json.dumps(instance_to_json(instance)))) == instance


def test_keys_of_a_newer_version_are_written_again():
    value = json.loads(json.dumps(instance_to_json(INSTANCE) | {"later": 1}))
    value["configurations"][0]["later"] = [2]
    read = instance_from_json(value)
    assert read == INSTANCE
    assert instance_to_json(replace(read, flag=99)) == value | {"flag": 99}


def test_an_instance_of_this_version_has_no_unknown_keys():
    read = instance_from_json(instance_to_json(INSTANCE))
    assert not read.unknown
    assert not any(configuration.unknown for configuration in read.configurations)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "text",
        instance_to_json(INSTANCE) | {"key": {"check": 1}},
        instance_to_json(INSTANCE) | {"configurations": [{"version": 0}]},
        instance_to_json(INSTANCE) | {"configurations": 1},
        instance_to_json(INSTANCE) | {"deleted": "yes"},
        instance_to_json(INSTANCE) | {"current": float("inf")},
        instance_to_json(INSTANCE)
        | {"configurations": [instance_to_json(INSTANCE)["configurations"][0] | {"state": "asleep"}]},
        instance_to_json(INSTANCE)
        | {"configurations": [instance_to_json(INSTANCE)["configurations"][0] | {"details": [1]}]},
        instance_to_json(INSTANCE)
        | {"configurations": [instance_to_json(INSTANCE)["configurations"][0] | {"reason": 5}]},
    ],
)
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="valid"):
        instance_from_json(value)
