"""The identifiers of check instances, and the properties of their values."""

import json
import uuid
from dataclasses import replace

import pytest

from zkdeployment.checks.rules.instance import (
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    InstanceKey,
    config_id,
)

KEY = InstanceKey("front-http", "/p1/shop/front", 0, "host1")


def configuration(version: int, state: CheckState, system: str = "nagios1") -> InstanceConfiguration:
    return InstanceConfiguration(version, config_id(KEY.id, version), state, {"a": 1}, system)


def test_the_identifier_of_an_instance_never_changes():
    assert KEY.id == "db877899-6358-5982-8404-96f09858ae4e"
    assert uuid.UUID(KEY.id).version == 5


@pytest.mark.parametrize(
    "other",
    [
        InstanceKey("other", "/p1/shop/front", 0, "host1"),
        InstanceKey("front-http", "/p1/shop/back", 0, "host1"),
        InstanceKey("front-http", "/p1/shop/front", 1, "host1"),
        InstanceKey("front-http", "/p1/shop/front", 0, "host2"),
        InstanceKey("front-http", "/p1/shop/front", 0, "host1", (("port", 80),)),
        InstanceKey("front-http", "/p1/shop/front", 0, "host1", (("port", "80"),)),
        InstanceKey("front-http", "/p1/shop/front", 0, "host1", (("port", True),)),
    ],
)
def test_each_part_of_the_key_makes_another_instance(other):
    assert other.id != KEY.id


def test_equal_attributes_of_different_types_are_different_instances():
    made = [InstanceKey("c", "/p", 0, "h", (("port", value),)).id for value in (1, "1", True, 1.0)]
    assert len(set(made)) == 4


def test_each_version_has_an_identifier_of_its_own_that_follows_from_instance_and_version():
    assert config_id(KEY.id, 0) == config_id(KEY.id, 0)
    assert config_id(KEY.id, 0) != config_id(KEY.id, 1)


def test_the_newest_configuration_does_not_await_its_deletion():
    active = configuration(0, CheckState.ACTIVE)
    instance = CheckInstance(KEY, (active, configuration(1, CheckState.AWAITING_DELETION)), current=0)
    assert instance.newest == active
    assert CheckInstance(KEY).newest is None


def test_an_instance_belongs_to_the_system_of_its_current_configuration_until_the_next_one_starts():
    old = configuration(0, CheckState.AWAITING_DEPROVISION, "nagios1")
    new = configuration(1, CheckState.BLOCKED, "nagios2")
    assert CheckInstance(KEY, (old, new), current=0).system == "nagios1"
    assert CheckInstance(KEY, (old, new), current=1).system == "nagios2"
    assert CheckInstance(KEY, (configuration(0, CheckState.AWAITING_COMPUTATION),)).system == "nagios1"
    assert CheckInstance(KEY).system == ""


def test_a_current_version_that_is_not_there_has_no_configuration():
    assert CheckInstance(KEY, (configuration(0, CheckState.ACTIVE),), current=5).current_configuration is None


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
