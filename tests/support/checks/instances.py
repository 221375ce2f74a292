"""Check instances for tests: of one key, with details that are told apart by a letter; and a check for Nagios."""

from __future__ import annotations

from zkdeployment.checks.nagios.check import NagiosCheck
from zkdeployment.checks.rules.instance import (
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    InstanceKey,
    config_id,
)
from zkdeployment.checks.rules.workflow import WantedConfiguration

KEY = InstanceKey("front-http", "/p1/shop/front", 0, "host1")


def wanted(letter: str, system: str = "nagios1", publication: int = 1) -> WantedConfiguration:
    """Return a wanted configuration whose details are known by a letter."""
    return WantedConfiguration({"is": letter}, system, publication)


def version(number: int, state: CheckState, letter: str, system: str = "nagios1") -> InstanceConfiguration:
    """Return a version of the instance in a state."""
    return InstanceConfiguration(number, config_id(KEY.id, number), state, {"is": letter}, system)


def instance_of(
    *versions: InstanceConfiguration,
    current: int | None = 0,
    update_available: bool = False,
    deleted: bool = False,
    notified: float | None = None,
) -> CheckInstance:
    """Return an instance with these versions."""
    return CheckInstance(KEY, versions, current, update_available, deleted, notified=notified)


def described(instance: CheckInstance) -> str:
    """Return the versions of an instance as text: ``0A active, 1B blocked``; flags and the current one follow."""
    versions = [f"{found.version}{found.details['is']} {found.state.value}" for found in instance.configurations]
    flags = [
        *(["flagged"] if instance.update_available else []),
        *(["deleted"] if instance.deleted else []),
        f"current {instance.current}",
    ]
    return f"{', '.join(versions) or 'none'}; {', '.join(flags)}"


CHECK = NagiosCheck(
    instance="01234567-89ab-5cde-8f01-23456789abcd",
    config_id="c1",
    configuration="front-http",
    host_id="h1",
    host_name="h1.example.com",
    address="192.0.2.1",
    path="/p1/shop/front",
    number=0,
    command="check_http",
    arguments=("-p", "8080"),
    interval=60,
)
