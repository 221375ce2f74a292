"""What the daemons need of the outside, in our words.

Each Protocol is one door. Adapters implement them and raise only ``errors``; daemons and tests know nothing
else of the outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zkdeployment.memory import HostMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.deployment import Deployment, Wanted
    from zkdeployment.model.history import HostResult
    from zkdeployment.model.host import Host, Identity
    from zkdeployment.model.inventory import Inventory, KnownHost, Marker, Packages
    from zkdeployment.model.origin import Origin
    from zkdeployment.model.plan import PackageChange
    from zkdeployment.model.publication import (
        LiveNode,
        LiveTree,
        Publication,
        PublicationRequest,
        Published,
        SourceFile,
    )
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.planning.publishing import Standing
    from zkdeployment.rollout.engine import Phase
    from zkdeployment.rollout.running import Grant, Permission, Report, Running, Situation, World


class Transaction(Protocol):
    """A package change that is resolved, downloaded and tested, ready to be committed."""

    @property
    def before(self) -> Packages:
        """The packages of the host when the transaction was prepared."""

    @property
    def after(self) -> Packages:
        """The packages the host has to have when it is done, unmanaged ones included."""

    @property
    def reversible(self) -> bool:
        """Whether all packages needed to go back are at hand."""


class PackageManager(Protocol):
    """The host's package database and the only way to change it. Raises ``PackageError``."""

    def installed(self) -> Packages:
        """Read the whole database once."""

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return those of the installed ``packages`` whose deploy or role script is missing or damaged."""

    def prepare(self, change: PackageChange) -> Transaction:
        """Resolve, download, verify and test a change, without changing the host.

        Refuses whatever would touch a package that ``change`` does not manage.
        """

    def commit(self, transaction: Transaction) -> None:
        """Do it in one transaction and verify all packages; on failure go back to ``before``, raise."""

    def recover(self) -> None:
        """Go back to before a transaction that a crash interrupted, if there is one."""


class Scripts(Protocol):
    """Runs other people's scripts. Raises ``ScriptError`` unless they exit with status 0."""

    def run(self, argv: Sequence[str], *, name: str, revision: Revision, directory: str | None = None) -> None:
        """Run ``argv`` to its end, its output going to the log and to a capped file called after ``name``.

        ``directory`` is the working directory; without one it is the agent's.
        """

    def cap_outputs(self) -> None:
        """Cap the output of programs that scripts left running; never raises."""

    def wait_for_predecessor(self) -> None:
        """Wait for a script that a killed agent left running, so that two never act on one host."""


class Checkouts(Protocol):
    """Software in ``/opt`` that is checked out and built in place. Raises ``CheckoutError``."""

    def prepare(self, package: str, version: str, *, replaces: bool) -> None:
        """Check out to one side; refuse what may not come from there and, unless ``replaces``, a taken place."""

    def install(self, package: str, build: Callable[[str, str], None]) -> None:
        """Put what was prepared in place, whole, readable for everyone; on failure put back what was there.

        ``build`` is called with the build script, if there is one, and its directory.
        """

    def remove(self, package: str) -> None:
        """Remove ``/opt/PACKAGE``, whole or not at all."""

    def recover(self) -> None:
        """Put back what an interrupted installation had taken away, and clear what was left to one side."""


class HostFiles(HostMemory, Protocol):
    """A host's files: ``/opt``, ``/etc`` and the run directory. Raises ``HostFilesError``.

    Writes replace files atomically and durably.
    """

    def inventory(self, packages: Packages) -> Inventory:
        """Read what is on the host."""

    def script(self, package: str) -> str:
        """Return the path of a package's deploy script; ``ScriptError`` if missing or not executable."""

    def controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; ``ScriptError`` if missing or not executable."""

    def make_application_directory(self, application: str) -> None:
        """Make ``/etc/APPLICATION`` unless it is there."""

    def write_marker(self, marker: Marker) -> None:
        """Record a deployment, then remove the marker's other ``files``."""

    def remove_marker(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        """Forget a deployment: its ``.deployed`` file and ``files``, whatever the script left of them."""

    def clear_software(self, packages: Collection[str], applications: Collection[str]) -> None:
        """Remove what is left of ``/opt/PACKAGE`` and each ``/etc/APPLICATION`` that is empty."""

    def add_managed(self, applications: Mapping[str, str]) -> None:
        """Add packages to the registry of managed ones, before they are installed."""

    def add_originals(self, versions: Mapping[str, str]) -> None:
        """Record the versions of the system's own packages, before they are changed."""

    def drop_originals(self, packages: Collection[str]) -> None:
        """Forget the recorded versions of packages that are put back."""

    def drop_managed(self, packages: Collection[str]) -> None:
        """Take packages from the registry, after the last of them is gone."""


class QueuedLock(Protocol):
    """A lock, held by at most one host, that is granted in the order in which hosts queue for it."""

    @property
    def ahead(self) -> int:
        """How many contenders were ahead of ours when the queue was last read."""

    def acquire(self, timeout: float) -> bool:
        """Queue for it for ``timeout`` seconds, keeping the place over calls; say whether it is ours."""

    def check(self) -> None:
        """Ask the server whether it is still ours; raises ``LockLostError``."""

    def release(self) -> None:
        """Give it back, or leave the queue: on return nothing of ours is left there, or soon."""

    def holder(self) -> str | None:
        """Say who has it: ``NAME (HOST-ID)``."""


class NodeLock(QueuedLock, Protocol):
    """A lock that ends with the session. A fresh object for each attempt; ``release`` never raises."""

    def try_acquire(self) -> bool:
        """Take it if it is free; leave no contender behind if it is not."""


class RoleLock(QueuedLock, Protocol):
    """The lock of a role, held by at most one host, across its restarts: only ``release`` or people end that.

    A request that this host left earlier is adopted. Raises ``UnreachableError``; then call again.
    """

    def withdraw(self) -> None:
        """Leave the queue; a request that was adopted stays. Never raises."""


class ServiceLock(NodeLock, Protocol):
    """The lock of a service node: work under it is recorded, for the case that the session is lost meanwhile.

    It may not be used while the lock delay of another host runs, whose session ended with work recorded.
    """

    def begin(self, step: str) -> None:
        """Make sure that it is ours and record the step until ``release``; raises ``LockLostError``."""

    def check_lease(self) -> None:
        """Raise ``LockLostError`` if ``begin`` was too long ago to be sure of it: this host was asleep."""


class FleetStore(Protocol):
    """What the agent sees of the fleet. Every call has a time limit; raises ``UnreachableError``."""

    def cluster(self) -> Cluster | None:
        """Read the cluster version; ``None`` where ``/hosts`` does not exist."""

    def published(self) -> Published:
        """Read the revision and the sequence of the last publication."""

    def watch_cluster(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the cluster version may have changed."""

    def register(self, host: Host, *, adopt: bool) -> Revision | None:
        """Make this host's ephemeral node; with ``adopt`` return the version of an old agent's persistent node.

        Raises ``DuplicateError`` if another live host has this id, or this name.
        """

    def is_registered(self) -> bool:
        """Whether this host's node is there, and this session's."""

    def clear_remains(self) -> None:
        """Remove contenders and records of work of this host's killed agent, of which nothing may run any more."""

    def update_host(self, host: Host) -> None:
        """Replace the properties of this host's node."""

    def unregister(self) -> None:
        """Remove this host's node."""

    def stop_fleet(self, host: Host, stop: Stop) -> None:
        """Record a failure in one transaction: cluster version null, ``host.error``, a stop."""

    def permission(self, sequence: int, identity: Identity, changed: Callable[[], None] | None) -> Permission:
        """Read what a publication's rollout lets this host do; ``changed``, which must not block, is told once."""

    def report_phase(self, rollout: str, phase: Phase, host: Host, report: Report) -> None:
        """Record how a phase went, and the host's node, in one transaction; the first report of a phase stays."""

    def wanted(self, identity: Identity, revision: Revision) -> Wanted:
        """Read what this host is to run at ``revision``.

        From the compiled targets when they are of that revision, else from the tree; the same either way.
        Raises ``ConflictError`` when the cluster has moved on while reading, ``TreeError`` when the tree
        contradicts itself for this host.
        """

    def services(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of these paths that are service nodes of the tree, whatever hosts they are for."""

    def node_lock(self, deployment: Deployment, identity: Identity) -> ServiceLock:
        """Return a fresh lock of the deployment's service node."""

    def any_free(self, deployments: Collection[Deployment], identity: Identity) -> bool:
        """Whether the lock of any of these service nodes may be taken now; all are looked at in one round."""

    def role_lock(self, role: str, identity: Identity) -> RoleLock:
        """Return the lock of a role that has a controller; ``TreeError`` if there is no place for it."""

    def hand_on_role(self, identity: Identity) -> bool:
        """Give the lock of a host's role to others although the host is not through; return whether it held it.

        The host is marked as out of service then, until it releases the lock of its role itself.
        """

    def publish_inventory(self, known: KnownHost) -> None:
        """Write what this host has, unless that is what it last wrote; what is too large is written as unknown."""

    def record_result(self, revision: Revision, result: HostResult) -> None:
        """Record in the history how the publication of a revision went here; not for a version set by hand."""


class PublicationStore(Protocol):
    """What the syncer does to ZooKeeper. Raises ``UnreachableError``."""

    def standing(self) -> Standing:
        """Read the cluster version (none where ``/hosts`` does not exist), and what the last publication left."""

    def hosts(self) -> Sequence[Host]:
        """Read every host's node."""

    def absent(self, hosts: Collection[Host]) -> Sequence[KnownHost]:
        """Read what is known of the hosts that are not among these, the registered ones."""

    def strategy(self) -> Strategy | None:
        """Read the published strategy, if there is one; raises ``TreeError`` for what makes no sense."""

    def rollout(self, sequence: int) -> Running | None:
        """Read the newest rollout of the publication with this sequence, if it was begun and makes sense."""

    def is_held_by_operator(self) -> bool:
        """Whether an operator's hold is on record."""

    def live_tree(self) -> LiveTree:
        """Read the whole live tree, pipelined: without the reserved nodes and without ephemeral ones."""

    def live_nodes(self, paths: Collection[str]) -> Mapping[str, LiveNode]:
        """Read these nodes, pipelined; those that do not exist are left out."""

    def lock(self) -> NodeLock:
        """Return a fresh ``/hosts-lock``."""

    def publish(self, publication: Publication) -> None:
        """Write a publication: in one transaction if it fits, else in chunks under an ``importing`` mark.

        Raises ``ConflictError`` if somebody else wrote to what is to change; nothing was written then, or the
        mark stands and the next publication finishes the work.
        """

    def watch_requests(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when an operator asks for a publication, or there is news."""

    def request(self) -> PublicationRequest | None:
        """Read the operator's request for a publication, if there is one."""

    def answer(self, request: PublicationRequest, error: str) -> None:
        """Say why a request was not carried out; ``publish`` removes one that was."""

    def server_time(self) -> float:
        """Return ZooKeeper's time, in seconds since the epoch."""

    def report(self, said: str, interval: float, fetched: float | None) -> None:
        """Give a sign of life: what was done last, and in how many seconds the next look is due."""


class RolloutStore(Protocol):
    """What a coordinator does to ZooKeeper. Raises ``UnreachableError``.

    Only the one that leads can write: others get ``LockLostError``, whatever they believe.
    """

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds, keeping the place over calls; say whether we have it."""

    def resign(self) -> None:
        """Leave the lead, or the queue for it; never raises."""

    def situation(self) -> Situation:
        """Read what is to be rolled out and the newest rollout; a change of the first wakes from now on."""

    def strategy(self) -> Strategy | None:
        """Read the published strategy; raises ``TreeError`` for what makes no sense."""

    def first_world(self, revision: Revision, *, now: float) -> World:
        """Read all hosts, and those that are away, before a rollout of ``revision`` begins."""

    def world(self, situation: Situation, running: Running, *, now: float) -> World:
        """Read what concerns a rollout: hosts, reports that are awaited, acts; a change of those wakes once."""

    def begin(self, running: Running, stamp: int) -> None:
        """Make a rollout the newest one; raises ``ConflictError`` unless ``Published.stamp`` is still this."""

    def record(self, running: Running, stop: Stop | None = None) -> None:
        """Replace the state of the newest rollout; with a ``stop`` the fleet stops, and no grant counts any more.

        Raises ``ConflictError`` if that was changed since ``situation`` read it, or if there are acts that
        ``world`` has not told.
        """

    def clear_reports(self, running: Running, hosts: Collection[str]) -> None:
        """Remove what hosts reported in a rollout, in which they begin again."""

    def grant(self, running: Running, wanted: Mapping[str, Grant]) -> None:
        """Make the grants of a rollout what they should be."""

    def tidy(self, current: str) -> None:
        """Remove what is left of all rollouts but the current one, except for their final reports."""


class TreeSource(Protocol):
    """The tree's repository. Raises ``SourceError``."""

    def fetch(self) -> Revision:
        """Bring the mirror up to date and return the branch's tip."""

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        """Read the files at the top of a revision, sorted by name: tree files and documents of rollouts.

        The latter are the YAML files that mention the schema of one; what else is in others does not matter.

        Where signatures are asked for, only those of a revision that is signed as it has to be.
        """

    def origin(self, revision: Revision) -> Origin:
        """Say who committed a revision, what for and when, and who signed it if that was verified."""

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        """Whether ``revision`` is ``ancestor`` or comes after it; what is not known is nobody's ancestor."""


class Clock(Protocol):
    """Time, as an argument."""

    def now(self) -> float:
        """Seconds since the epoch, for display."""

    def monotonic(self) -> float:
        """Seconds for measuring, never set back."""
