"""Changes of the states of check instances, as events report them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.records import APART, Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.checks.rules.instance import CheckInstance


@dataclass(frozen=True, slots=True)
class CheckChange(Record):
    """A check instance that changed its state; the state ``None`` stands for an instance that does not exist."""

    instance: Annotated[str, APART]
    check: str
    path: str
    number: int
    host: str
    monitoring: str
    former: str | None
    state: str | None


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
