"""The encoding of check instances in ZooKeeper. Unknown keys, which newer versions write, are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.checks.instance import CheckInstance, CheckState, InstanceConfiguration, InstanceKey
from zkdeployment.unknown_keys import unknown_keys

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value

_INSTANCE_KEYS = frozenset({"key", "configurations", "current", "update_available", "deleted", "flag", "notified"})
_CONFIGURATION_KEYS = frozenset(
    {"version", "config_id", "state", "details", "system", "publication", "reason", "created", "changed"}
)


def instance_to_json(instance: CheckInstance) -> dict[str, Value]:
    """Return an instance as JSON; equal instances give equal values."""
    key = instance.key
    return {
        **instance.unknown,
        "key": {
            "check": key.check,
            "path": key.path,
            "number": key.number,
            "host": key.host,
            "attributes": [[name, value] for name, value in key.attributes],
        },
        "configurations": [_configuration_to_json(found) for found in instance.configurations],
        "current": instance.current,
        "update_available": instance.update_available,
        "deleted": instance.deleted,
        "flag": instance.flag,
        "notified": instance.notified,
    }


def instance_from_json(value: object) -> CheckInstance:
    """Return the instance that ``instance_to_json`` encoded; raises ``ValueError`` for anything else."""
    try:
        return _read_instance(value)
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a valid check instance: {type(error).__name__}: {error}") from error


def _configuration_to_json(configuration: InstanceConfiguration) -> dict[str, Value]:
    return {
        **configuration.unknown,
        "version": configuration.version,
        "config_id": configuration.config_id,
        "state": configuration.state.value,
        "details": dict(configuration.details),
        "system": configuration.system,
        "publication": configuration.publication,
        "reason": configuration.reason,
        "created": configuration.created,
        "changed": configuration.changed,
    }


def _read_instance(value: Any) -> CheckInstance:
    key, current, notified = value["key"], value["current"], value["notified"]
    return CheckInstance(
        key=InstanceKey(
            check=_text(key["check"]),
            path=_text(key["path"]),
            number=int(key["number"]),
            host=_text(key["host"]),
            attributes=tuple((_text(name), attribute) for name, attribute in key["attributes"]),
        ),
        configurations=tuple(_read_configuration(found) for found in value["configurations"]),
        current=None if current is None else int(current),
        update_available=_truth(value["update_available"]),
        deleted=_truth(value["deleted"]),
        flag=int(value["flag"]),
        notified=None if notified is None else float(notified),
        unknown=unknown_keys(value, _INSTANCE_KEYS),
    )


def _read_configuration(value: Any) -> InstanceConfiguration:
    details = value["details"]
    if not isinstance(details, dict):
        raise TypeError(f"expected an object as details, found {details!r}")
    return InstanceConfiguration(
        version=int(value["version"]),
        config_id=_text(value["config_id"]),
        state=CheckState(value["state"]),
        details=details,
        system=_text(value["system"]),
        publication=int(value["publication"]),
        reason=_text(value["reason"]),
        created=float(value["created"]),
        changed=float(value["changed"]),
        unknown=unknown_keys(value, _CONFIGURATION_KEYS),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, found {value!r}")
    return value
