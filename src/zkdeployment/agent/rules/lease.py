"""Leases: the role that a host has for a time, and the keys of the tenant who uses the host meanwhile.

The agent's cycle uses only ``HostRole``; its subclass in ``pools.host`` follows leases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.errors import HostFilesError, RefusedError, TreeError
from zkdeployment.base.host import Leased
from zkdeployment.base.machine.public_keys import ssh_key_problem
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.records import Key, Record
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.base.cluster import ClusterState, Revision
    from zkdeployment.base.json_values import Properties, Value


#: The line of ``authorized_keys`` after which the keys of a tenant follow, up to the end of the file.
TENANT_MARKER = "### DUFFY tenant credentials"

#: The most keys in a lease.
_MOST_KEYS = 100


@dataclass(frozen=True, slots=True)
class Lease(Record):
    """A host's role and the SSH keys that it admits. ``number`` grows with each change of the lease."""

    role: str
    number: int
    keys: tuple[str, ...] = ()

    @property
    def reached(self) -> Leased:
        """The lease as a host confirms it."""
        return Leased(self.role, self.number)


@dataclass(frozen=True, slots=True)
class LeaseRecord(Record):
    """A host's own record of the last lease that it began to follow.

    ``is_reached`` is whether the host runs the role completely; the keys are those that the host admits.
    """

    lease: Annotated[Lease, Key(flat=True)]
    is_reached: Annotated[bool, Key("reached")]


def first_record(record: LeaseRecord | None, idle_role: str, *, has_version: bool) -> LeaseRecord:
    """Return a host's record; without one, that of an idle host, reached if the host has a version."""
    return LeaseRecord(Lease(idle_role, 0), is_reached=has_version) if record is None else record


def lease_problem(properties: Properties) -> str | None:
    """Return why the properties of a node are not a lease; ``None`` for a lease."""
    match properties:
        case {"role": str(role), "number": int(number), **others} if not isinstance(number, bool) and number > 0:
            keys = others.get("keys", [])
        case _:
            return "expected a role, a number from 1 on, and a list of keys"
    if not isinstance(keys, list) or len(keys) > _MOST_KEYS or not all(isinstance(key, str) for key in keys):
        return f"keys: expected a list of {_MOST_KEYS} SSH keys at most"
    problems = [name_problem(NameKind.ROLE, role), *(ssh_key_problem(str(key)) for key in keys)]
    return next((problem for problem in problems if problem is not None), None)


def lease_from_properties(properties: Mapping[str, Value]) -> Lease:
    """Return the lease that a node describes; raises ``ValueError`` with the problem of other nodes."""
    problem = lease_problem(properties)
    if problem is not None:
        raise ValueError(problem)
    keys = properties.get("keys")
    number = properties["number"]
    return Lease(
        str(properties["role"]),
        number if isinstance(number, int) else 0,
        tuple(map(str, keys)) if isinstance(keys, list) else (),
    )


def admissible_keys(lease: Lease, admitted: Collection[str], *, is_reached: bool) -> tuple[str, ...]:
    """Return the keys of the lease that a host may admit now.

    A new key is admitted only when the host runs the lease's role. A key that is not in the lease is never kept.
    """
    return lease.keys if is_reached else tuple(key for key in lease.keys if key in admitted)


def revoked_keys(lease: Lease, before: Sequence[str]) -> frozenset[str]:
    """Return the keys that the host admitted ``before`` and that are no longer in its lease."""
    return frozenset(before).difference(lease.keys)


#: The errors of a lease that cannot be followed.
LEASE_ERRORS = (HostFilesError, RefusedError, TreeError)


class HostRole:
    """The role of a host that cannot be leased: the role never changes, and the methods have no effect.

    Such a host does not import ``lease_follower``.
    """

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` (which must not block) whenever the lease may have changed."""

    @property
    def is_outdated(self) -> bool:
        """Whether the lease may have changed since it was last read."""
        return False

    @property
    def is_leasable(self) -> bool:
        """Whether leases decide the role of this host."""
        return False

    @property
    def is_reached(self) -> bool:
        """Whether the host runs the role of its lease; true for a host that cannot be leased."""
        return True

    def read(self) -> None:
        """Read the lease, and admit or remove keys accordingly; confirm a lease without other changes.

        Raises one of ``LEASE_ERRORS`` if the lease is malformed or older than the last one, or if the keys cannot
        be written.
        """

    def check(self) -> None:
        """Read the lease again during a deployment; raise ``ConflictError`` if it gives the host another role."""

    def take_role(self) -> None:
        """Begin to change the host to the role of its lease; the host leaves the lock of its former role.

        A crash before the record is written repeats this. Raises ``HostFilesError``.
        """

    def reach(self) -> None:
        """Record that the host runs its role completely, and admit the keys of its lease.

        Raises ``HostFilesError``.
        """

    def fail(self, revision: Revision, *, is_gated: bool) -> None:
        """Note that a deployment failed: a leased host does not repeat it for the same revision and lease.

        No other host waits for the lock of its role. Failures in a rollout are recorded by the rollout.
        """

    def note_failure(self) -> None:
        """Show that the host cannot follow its present lease, also if an earlier lease had the same error."""

    def forget_failure(self) -> None:
        """Permit the failed deployment again."""

    def has_failed(self, revision: Revision) -> bool:  # noqa: ARG002  the agent stops the fleet instead
        """Whether the deployment of this revision with this lease failed before."""
        return False

    def show_waiting(self, state: ClusterState) -> None:
        """Show that the lease waits for the fleet, which is in ``state``; show nothing if no lease waits."""
