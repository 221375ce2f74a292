"""Rollout strategies: which hosts go together, in what order, and when that counts as a success."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Seconds after which a host that is away counts as absent, where the strategy does not say.
ABSENT_AFTER = 300.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What selectors ask of a host, besides its id: ``name`` is its name where that is another."""

    rack: str | None = None
    tags: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    """Hosts that meet each criterion that is given: one of these names (or ids), tags, labels and racks."""

    names: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()
    racks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a group has to reach in each phase; what is ``None`` is not asked."""

    percent_successful: int | None = None
    minimum_successful: int | None = None
    maximum_failed: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Times in which a group may start: on these days (Monday is 0) from ``start`` on, until ``end``.

    Both are minutes since midnight in ``zone``; a window that ends before it starts ends on the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: str


@dataclass(frozen=True, slots=True)
class ParallelLimit:
    """So many hosts at a time, or so many percent of a group."""

    number: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a group goes. Times are in seconds; a timeout of ``None`` is the strategy's default."""

    max_parallel: ParallelLimit | None = None
    bake_time: float = 0.0
    prepare_timeout: float | None = None
    deploy_timeout: float | None = None
    progress_deadline: float | None = None
    manual: bool = False
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts that are prepared and then deployed together, after the groups it depends on succeeded.

    No selectors select every host. Without criteria a group cannot miss any. The group waits until
    ``require_hosts`` of its hosts are present, or until an operator promotes it.
    """

    name: str
    critical: bool
    depends_on: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    criteria: Criteria = Criteria()
    pace: Pace = Pace()
    require_hosts: int | None = None


@dataclass(frozen=True, slots=True)
class Strategy:
    """Groups, as a valid document has them: names are unique, what they depend on exists, there are no cycles.

    Times are in seconds. A host that is away counts as absent after ``absent_after``. The timeouts hold for the
    groups that have none of their own.
    """

    name: str
    groups: tuple[Group, ...] = ()
    absent_after: float = ABSENT_AFTER
    prepare_timeout: float | None = None
    deploy_timeout: float | None = None

    def group(self, name: str) -> Group:
        """Return a group by its name."""
        return next(group for group in self.groups if group.name == name)


#: What holds where a configuration asks for a strategy and there is none.
ALL_HOSTS = Strategy("all-hosts", (Group("all-hosts", critical=True, criteria=Criteria(percent_successful=100)),))
