"""The encoding of check instances: encoded values are decoded unchanged, and other values are refused."""

import json
from dataclasses import replace

import pytest

from zkdeployment.checks.rules.instance import (
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    InstanceKey,
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
    assert CheckInstance.from_json(json.loads(json.dumps(instance.to_json()))) == instance


def test_keys_of_a_newer_version_are_written_again():
    value = json.loads(json.dumps(INSTANCE.to_json() | {"later": 1}))
    value["configurations"][0]["later"] = [2]
    read = CheckInstance.from_json(value)
    assert read == INSTANCE
    assert replace(read, flag=99).to_json() == value | {"flag": 99}


def test_an_instance_of_this_version_has_no_unknown_keys():
    read = CheckInstance.from_json(INSTANCE.to_json())
    assert not read.unknown
    assert not any(configuration.unknown for configuration in read.configurations)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "text",
        INSTANCE.to_json() | {"key": {"check": 1}},
        INSTANCE.to_json() | {"configurations": [{"version": 0}]},
        INSTANCE.to_json() | {"configurations": 1},
        INSTANCE.to_json() | {"deleted": "yes"},
        INSTANCE.to_json() | {"current": float("inf")},
        INSTANCE.to_json() | {"configurations": [INSTANCE.to_json()["configurations"][0] | {"state": "asleep"}]},
        INSTANCE.to_json() | {"configurations": [INSTANCE.to_json()["configurations"][0] | {"details": [1]}]},
        INSTANCE.to_json() | {"configurations": [INSTANCE.to_json()["configurations"][0] | {"reason": 5}]},
    ],
)
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match=r"expected|missing"):
        CheckInstance.from_json(value)
