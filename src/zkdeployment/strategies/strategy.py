"""Rollout strategies: groups of hosts, their order, and their success criteria.

Reading strategies from YAML belongs to ``documents``, deciding by them to ``engine``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

#: The default of ``absent_after``: seconds after which an unregistered host counts as absent.
ABSENT_AFTER = 300.0


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects the hosts that match one value of each field that is not empty; ``names`` are host names or ids."""

    names: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()
    racks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Criteria:
    """The success criteria of a group in each phase; ``None`` is no requirement."""

    percent_successful: int | None = None
    minimum_successful: int | None = None
    maximum_failed: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The times at which a group may start: on ``days`` (Monday is 0), from ``start`` until ``end``.

    Both are minutes after midnight in ``zone``. A window that ends before it starts ends on the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: str


@dataclass(frozen=True, slots=True)
class ParallelLimit:
    """The number of hosts of a group that deploy at the same time, as a number or in percent of the group."""

    number: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a group. Times are in seconds; a timeout of ``None`` is the strategy's default.

    With ``healthy_checks`` the checks of a host must be OK at the end of the bake time.
    """

    max_parallel: ParallelLimit | None = None
    bake_time: float = 0.0
    prepare_timeout: float | None = None
    deploy_timeout: float | None = None
    progress_deadline: float | None = None
    manual: bool = False
    windows: tuple[Window, ...] = ()
    healthy_checks: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A group of hosts, which prepare and then deploy together after the groups in ``depends_on`` succeeded.

    A group without selectors selects every host. A group without criteria always succeeds. The group waits until
    ``require_hosts`` of its hosts are registered, or until an operator promotes it.
    """

    name: str
    critical: bool
    depends_on: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    criteria: Criteria = Criteria()
    pace: Pace = Pace()
    require_hosts: int | None = None


class OnFailure(Enum):
    """The reaction to a failed critical group: the fleet stops, and the coordinator may roll back."""

    STOP = "stop"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A valid strategy: names of groups are unique, dependencies exist and have no cycles.

    Times are in seconds. An unregistered host counts as absent after ``absent_after``. The timeouts apply to
    groups without timeouts of their own. ``on_failure`` is the reaction to the failure of a critical group.
    """

    name: str
    groups: tuple[Group, ...] = ()
    absent_after: float = ABSENT_AFTER
    prepare_timeout: float | None = None
    deploy_timeout: float | None = None
    on_failure: OnFailure = OnFailure.STOP

    def group(self, name: str) -> Group:
        """Return the group with this name."""
        return next(group for group in self.groups if group.name == name)


#: The strategy that applies when a configuration requires one and none is published.
ALL_HOSTS = Strategy("all-hosts", (Group("all-hosts", critical=True, criteria=Criteria(percent_successful=100)),))
