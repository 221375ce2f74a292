"""The identifiers of check instances, and the properties of their values."""

import uuid

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
