"""The status of single hosts, and which of a number of hosts have a revision."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import is_commit
from zkdeployment.model.host import lease_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Leased
    from zkdeployment.model.tree import Value


class HostState(Enum):
    """The state of a host."""

    CONVERGED = "converged"
    BEHIND = "behind"
    DEPLOYING = "deploying"
    FAILED = "failed"
    ABSENT = "absent"  # known, but not registered
    EXCLUDED = "excluded"  # in no group of the rollout strategy: the host keeps its version
    UNKNOWN = "unknown"  # the host is not known, or no version is wanted


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The status of one host; ``steps`` are (done, total).

    ``former`` is the version that the host had before an unfinished deployment. ``since`` is when the state last
    changed, in seconds since the epoch; for an absent host, when the host last reported its inventory.
    ``expected`` hosts count in the fleet's convergence. An absent host is expected only if a published target
    matches it, an excluded host only if the operator named it. A host that can be leased, which has an
    ``idle_role``, is not expected while it has failed or changes its role. ``leased`` is the lease that it has
    reached.
    """

    id: str
    name: str
    state: HostState
    role: str | None = None
    version: Revision | None = None
    former: Revision | None = None
    wanted: Revision | None = None
    step: str | None = None
    steps: tuple[int, int] | None = None
    error: str | None = None
    since: float | None = None
    expected: bool = True
    idle_role: str | None = None
    leased: Leased | None = None

    @property
    def lease_text(self) -> str:
        """The lease for people; empty for a host that cannot be leased, and for one that is absent."""
        return "" if self.state is HostState.ABSENT else lease_text(self.role, self.idle_role, self.leased)

    def to_json(self) -> dict[str, Value]:
        """Return the host as ``-o json`` prints it."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role,
            "state": self.state.value,
            "version": self.version,
            "former": self.former,
            "wanted": self.wanted,
            "step": self.step,
            "steps": None if self.steps is None else [*self.steps],
            "error": self.error,
            "since": self.since,
            "expected": self.expected,
            "lease": self.idle_role,
            "leased": None if self.leased is None else self.leased.properties(),
        }


def select_hosts(
    hosts: Iterable[HostStatus], names: Collection[str], wanted: Revision | None
) -> tuple[HostStatus, ...]:
    """Return the hosts with these ids or ``names``, all of them expected; names that match no host are unknown."""
    selected = [replace(host, expected=True) for host in hosts if host.id in names or host.name in names]
    matched = {name for host in selected for name in (host.id, host.name)}
    missing = sorted(set(names) - matched)
    return (
        *selected,
        *(HostStatus(name, name, HostState.UNKNOWN, wanted=wanted, error="not registered") for name in missing),
    )


def all_have(hosts: Sequence[HostStatus], revision: str | None = None) -> bool:
    """Return whether all expected hosts have a revision (``None``: the wanted one), and there is any such host.

    Excluded hosts count as such hosts.
    """
    expected = [host for host in hosts if host.expected]
    if revision is None:
        reached = all(host.state is HostState.CONVERGED for host in expected)
    else:
        reached = all(
            host.state is not HostState.FAILED and is_revision(host.version, revision) for host in expected
        )
    return reached and (bool(expected) or any(host.state is HostState.EXCLUDED for host in hosts))


def is_revision(version: Revision | None, name: str) -> bool:
    """Return whether a version is the revision ``name``; a commit id may be shortened to seven or more digits."""
    text = "" if version is None else str(version)
    is_prefix = re.fullmatch(r"[0-9a-f]{7,}", name) is not None and is_commit(text)
    return text == name or (is_prefix and text.startswith(name))
