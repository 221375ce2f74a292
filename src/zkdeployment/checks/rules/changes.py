"""Changes of the states of check instances, as events report them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.checks.rules.instance import CheckInstance
    from zkdeployment.tree.values import Value


@dataclass(frozen=True, slots=True)
class CheckChange:
    """A check instance that changed its state; the state ``None`` stands for an instance that does not exist."""

    instance: str
    check: str
    path: str
    number: int
    host: str
    monitoring: str
    former: str | None
    state: str | None

    def to_json(self) -> dict[str, Value]:
        """Return the change without the instance, in its stored and sent form."""
        return {
            "check": self.check,
            "path": self.path,
            "number": self.number,
            "host": self.host,
            "monitoring": self.monitoring,
            "former": self.former,
            "state": self.state,
        }

    @classmethod
    def from_json(cls, instance: str, value: object) -> CheckChange | None:
        """Return the change that ``to_json`` encoded; ``None`` for anything else."""
        match value:
            case {
                "check": str(check),
                "path": str(path),
                "number": int(number),
                "host": str(host),
                "monitoring": str(monitoring),
                "former": str() | None as former,
                "state": str() | None as state,
            }:
                return cls(instance, check, path, number, host, monitoring, former, state)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class LastCheckChanges:
    """The changes of the last transaction that changed states: ``total``, of which the first ones are listed.

    ``number`` counts these transactions.
    """

    number: int
    total: int
    changes: tuple[CheckChange, ...] = ()


def state_changes(
    pairs: Iterable[tuple[CheckInstance | None, CheckInstance | None]],
) -> tuple[CheckChange, ...]:
    """Return the changes of states between instances before and after a transaction."""
    return tuple(change for before, after in pairs if (change := _change(before, after)) is not None)


def _change(before: CheckInstance | None, after: CheckInstance | None) -> CheckChange | None:
    found, former, state = after or before, _state(before), _state(after)
    if found is None or former == state:
        return None
    key = found.key
    return CheckChange(found.id, key.check, key.path, key.number, key.host, found.system, former, state)


def _state(instance: CheckInstance | None) -> str | None:
    configuration = None if instance is None else instance.current_configuration or instance.newest
    return None if configuration is None else configuration.state.value
