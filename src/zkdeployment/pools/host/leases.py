"""Follows the lease of this host, if the lease can be trusted: takes its role and admits its tenant.

A host without publishers trusts ZooKeeper and does not verify leases. Keys are also admitted and removed while the
fleet is stopped or held, because that deploys nothing. A role is taken only by a deployment.
"""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import psutil

from zkdeployment.agent.adapters import AgentAdapters, HostLeases
from zkdeployment.agent.files.run_directory import LEASE_BASELINE, SSH_BEFORE_LEASE, lasting_directory
from zkdeployment.agent.rules.lease import (
    LEASE_ERRORS,
    HostRole,
    Lease,
    LeaseRecord,
    admissible_keys,
    first_record,
    revoked_keys,
)
from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.errors import ConflictError, HostFilesError, ProgramError, RefusedError, UntrustedError
from zkdeployment.base.host import WAITING_PREFIX, Host, Identity
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files, process
from zkdeployment.base.machine.files import JsonFile
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.pools.host.ssh_access import AuthorizedKeys, SshDirectory
from zkdeployment.pools.paths import lease_path
from zkdeployment.pools.rules.host_lease import (
    HostBaseline,
    VerifiedLease,
    accepted_lease,
    lease_text,
    require_no_lease,
    require_signature,
    shown_differences,
)
from zkdeployment.pools.store.leases import ZooKeeperSignedLeases
from zkdeployment.publishing.keys import LEASES, PublisherKeysFile
from zkdeployment.publishing.signing.statement import SignedStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.agent.files.run_directory import RunDirectory
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.base.cluster import ClusterState, Revision
    from zkdeployment.publishing.ports import PublisherKeys
    from zkdeployment.zookeeper.session import Session

_LARGEST_FILE = 4 * 1024 * 1024

#: The seconds that rpm may take to verify all files, and systemctl to list all units.
_VERIFY_LIMIT = 900.0
_UNITS_LIMIT = 60.0

#: The most bytes of the output of each program.
_OUTPUT_LIMIT = 16 * 1024 * 1024

#: The first of the ports that the kernel gives to clients, and to servers that ask for any port: other ones after
#: each boot. UDP sockets from this port on are not listeners.
_CLIENT_PORTS = 32768

_UNIT_TYPES = "--type=service,socket,timer,path"


def host_facts(root: Path, *, verifies: bool) -> frozenset[str]:
    """Return the facts about the host with this root directory; raises ``HostFilesError``.

    With ``verifies``, the files of all packages are among them, which takes a minute or more. Listeners and units
    are those of the machine: a directory that stands for ``/`` has none.
    """
    return frozenset(printable(fact) for source in _sources(root, verifies=verifies) for fact in source())


def _sources(root: Path, *, verifies: bool) -> Iterator[Callable[[], Iterator[str]]]:
    yield lambda: _accounts(root)
    if verifies:
        yield lambda: _changed_files(root)
    if root == Path("/"):
        yield _listeners
        if Path("/run/systemd/system").is_dir():
            yield _units


def _accounts(root: Path) -> Iterator[str]:
    """Yield the accounts, the groups with their members, and a digest of each password."""
    for fields in _table(root / "etc/passwd"):
        yield f"account {':'.join((*fields[:4], *fields[5:]))}"
    for fields in _table(root / "etc/group"):
        yield f"group {':'.join((fields[0], *fields[2:]))}"
    for fields in _table(root / "etc/shadow"):
        digest = hashlib.sha256(":".join(fields[:2]).encode()).hexdigest()[:16]
        yield f"password of {fields[0]} (digest {digest})"


def _table(file: Path) -> Iterator[list[str]]:
    try:
        content = files.read(file, _LARGEST_FILE) or b""
    except OSError as error:
        raise HostFilesError(
            f"cannot read {file}: {error.strerror}; a former tenant may have changed it"
        ) from error
    for line in content.decode("utf-8", errors="replace").splitlines():
        if ":" in line:
            yield line.split(":")


def _changed_files(root: Path) -> Iterator[str]:
    """Yield the files of packages that changed after the installation, as rpm prints them."""
    argv = ["rpm", "--root", str(root), "--verify", "--all", "--nodeps", "--noscripts"]
    for line in _output(argv, _VERIFY_LIMIT, fails=True).splitlines():
        yield f"file {' '.join(line.split())}"


def _units() -> Iterator[str]:
    argv = ["systemctl", "list-unit-files", "--plain", "--no-legend", "--no-pager", _UNIT_TYPES]
    for line in _output(argv, _UNITS_LIMIT, fails=False).splitlines():
        yield f"unit {' '.join(line.split()[:2])}"


def _output(argv: list[str], limit: float, *, fails: bool) -> str:
    """Return the output of a program; with ``fails``, exit status 1 is not a failure."""
    try:
        done = process.run(argv, timeout=limit, output_limit=_OUTPUT_LIMIT)
        if done.status != 1 or not fails:
            done.check()
    except ProgramError as error:
        raise HostFilesError(f"cannot compare this host with its state before the lease: {error}") from error
    return done.stdout


def _listeners() -> Iterator[str]:
    try:
        found = psutil.net_connections(kind="inet")
    except (psutil.Error, OSError) as error:
        raise HostFilesError(f"cannot list what listens on this host: {error}") from error
    for connection in found:
        is_stream = connection.type == socket.SOCK_STREAM
        is_bound = connection.status == psutil.CONN_LISTEN if is_stream else not connection.raddr
        if connection.laddr and is_bound and (is_stream or connection.laddr.port < _CLIENT_PORTS):
            port = connection.laddr.port if connection.laddr.port < _CLIENT_PORTS else "any port"
            kind, place = ("tcp" if is_stream else "udp"), f"{connection.laddr.ip} {port}"
            yield f"listener {kind} {place} ({_program(connection.pid)})"


def _program(number: int | None) -> str:
    """Return the name of a process without the numbers that differ between processes of the same program."""
    try:
        name = "" if number is None else psutil.Process(number).name()
    except psutil.Error:
        name = ""
    return re.sub(r"[^A-Za-z0-9._-].*", "", name) or "unknown"


_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True)
class HostTraces:
    """The traces on the host with the directory ``root``, which stands for ``/``.

    ``verifies`` is whether the host has packages of rpm, whose files are compared. The methods raise
    ``HostFilesError``.
    """

    root: Path
    verifies: bool

    @property
    def baseline(self) -> JsonFile[HostBaseline]:
        """The file with the facts from before the present lease."""
        return JsonFile(
            lasting_directory(self.root) / LEASE_BASELINE,
            HostBaseline.if_valid,
            HostBaseline.to_json,
            limit=_LARGEST,
            mode=0o600,
            damaged=_refuse_damaged_traces,
        )

    def keep_access(self) -> None:
        """Record ``.ssh`` of root, unless it is recorded already."""
        self._ssh.keep()

    def restore_access(self) -> None:
        """Restore the recorded state of root's ``.ssh``, and forget the record; does nothing without a record."""
        self._ssh.restore()

    def facts(self) -> frozenset[str]:
        """Return accounts, changed files of packages, listeners and units, each as a line; may take minutes."""
        return host_facts(self.root, verifies=self.verifies)

    @property
    def _ssh(self) -> SshDirectory:
        return SshDirectory(self.root, lasting_directory(self.root) / SSH_BEFORE_LEASE)


def _refuse_damaged_traces(file: Path, _reason: str) -> NoReturn:
    raise HostFilesError(
        f"{file} is damaged: expected the state of this host before its lease; remove it to accept the present"
        " state of the host"
    )


def verified_lease_file(file: Path) -> JsonFile[VerifiedLease]:
    """Return the file with the last lease that was verified, ``{"number", "digest"}``.

    A file that cannot be read is an error, because without it old leases could not be distinguished from new ones.
    """
    return JsonFile(file, _verified_lease, asdict, expected="a number and a digest", damaged=_refuse_damage)


def _verified_lease(value: object) -> VerifiedLease:
    match value:
        case {"number": int(number), "digest": str(digest)}:
            return VerifiedLease(number, digest)
    raise ValueError("not a verified lease")


def _refuse_damage(file: Path, reason: str) -> NoReturn:
    raise HostFilesError(
        f"cannot read the last verified lease {file}: expected a number and a digest, found: {reason}; remove it"
        " if you trust the present lease"
    )


@dataclass(frozen=True)
class TrustedLeases:
    """Reads and verifies the lease of one host; ``memory`` keeps the last one that was verified."""

    leases: ZooKeeperSignedLeases
    keys: PublisherKeys
    memory: JsonFile[VerifiedLease]

    def lease(self, identity: Identity, *, remembers: bool = True) -> Lease | None:
        """Return the lease of this host, which is recorded first; ``None`` if the host never had a lease.

        Raises ``UntrustedError`` if the lease is not signed, not signed by a publisher, older than one that was
        verified before, or gone; ``TreeError`` if it is malformed; ``HostFilesError`` if the keys or the memory
        cannot be used.
        """
        found, known = self.leases.read(identity.id), self.memory.load() or VerifiedLease()
        try:
            if found is None:
                require_no_lease(known)
                return None
            require_signature(found)
            text = lease_text(identity.id, found.lease)
            self.keys.verify(SignedStatement(text, found.signature))
            accepted = accepted_lease(text, found.lease, known)
        except UntrustedError as error:
            raise UntrustedError(
                f"{error}; find out who changed the lease, check lease-key in [pools] of the workers, and give the"
                " host a new lease with 'zkdeployment session retire' or 'zkdeployment node drain'; if its node is"
                " unused, delete the lease: a worker writes a new one"
            ) from error
        if remembers and accepted != known:
            self.memory.save(accepted)
        return found.lease


_WAITS_FOR_ROLE = f"{WAITING_PREFIX}take role "


class LeaseFollower(HostRole):
    """Follows the lease of one host that can be leased; without a lease, the host has its ``idle_role``.

    All methods wait until ZooKeeper answers. Call ``read`` before the others.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        reporting: HostReporting,
        access: AuthorizedKeys,
        traces: HostTraces,
        *,
        idle_role: str,
    ) -> None:
        self._traces = traces
        self._adapters = adapters
        self._reporting = reporting
        self._access = access
        self._idle_role = idle_role
        self._changed = threading.Event()
        self._lease = Lease("", 0)
        self._record = LeaseRecord(self._lease, is_reached=False)
        self._is_loaded = False
        self._failed: tuple[Revision, int] | None = None
        self._disconnected: int | None = None

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` whenever the lease may have changed."""

        def changed() -> None:
            """Note the change, so that the host acts at once, and wake the agent."""
            self._changed.set()
            wake()

        self._adapters.session.watch(lease_path(self._host.identity.id), changed)

    @property
    def is_outdated(self) -> bool:
        """Whether the lease may have changed since it was last read."""
        return self._changed.is_set()

    @property
    def is_leasable(self) -> bool:
        """True: leases decide the role of this host."""
        return True

    @property
    def is_reached(self) -> bool:
        """Whether the host runs the role of its lease."""
        return self._record.is_reached and self._record.lease.role == self._lease.role

    def read(self) -> None:
        """Read the lease, and admit or remove keys accordingly; confirm a lease that changes only keys."""
        host = self._host
        if not self._is_loaded:
            has_version = host.version is not None
            self._record = first_record(self._adapters.run.lease.load(), self._idle_role, has_version=has_version)
            self._is_loaded = True
        self._changed.clear()
        lease = self._reporting.retry_until_reachable(lambda: self._adapters.lease(host.identity))
        self._lease = Lease(self._idle_role, 0) if lease is None else lease
        _check_number(self._lease, self._record)
        if self._record == LeaseRecord(self._lease, is_reached=True):
            return  # a tenant may change the file at the same time
        keys = self._update_keys()
        if self._lease.role == self._record.lease.role:
            self._store(replace(self._record, lease=replace(self._lease, keys=keys)))
        else:
            self._store(replace(self._record, lease=replace(self._record.lease, keys=keys)))

    def check(self) -> None:
        """Read the lease again; raise ``ConflictError`` if it gives the host another role."""
        try:
            self.read()
        except LEASE_ERRORS as error:
            raise ConflictError(str(error)) from error
        if self._lease.role != self._host.identity.role:
            raise ConflictError(f"the lease changed: it gives this host the role {self._lease.role}")

    def take_role(self) -> None:
        """Begin to change the host to the role of its lease. A crash before the record is written repeats this."""
        if self._lease.role == self._record.lease.role:
            return
        identity = self._host.identity
        self._keep_baseline()
        get_logger().info("role-changed", was=identity.role, now=self._lease.role, number=self._lease.number)
        self._reporting.retry_until_reachable(lambda: self._adapters.fleet.roles.leave(identity))
        with failpoints("take-role"):
            self._adapters.run.version.forget_sequences()
            keys = self._record.lease.keys
            self._store(LeaseRecord(replace(self._lease, keys=keys), is_reached=False))
        self._reporting.host = replace(
            self._host, identity=replace(identity, role=self._lease.role), sequence=0, completed=None
        )

    def reach(self) -> None:
        """Record that the host runs its role completely, and admit the keys of its lease."""
        self._failed = None
        if self._record.is_reached:
            return
        with failpoints("reach-lease"):
            if self._lease.role != self._record.lease.role:  # another lease came in the meantime
                self._store(replace(self._record, is_reached=True))
                return
            self._compare()
            self._prepare(self._lease.keys)
            keys = self._admit(self._lease.keys)
            self._store(LeaseRecord(replace(self._lease, keys=keys), is_reached=True))

    def _keep_baseline(self) -> None:
        """Record the facts about an idle host before it takes another role, unless a tenant was admitted since."""
        record = self._record
        if record.lease.role == self._idle_role and record.is_reached:
            baseline = self._traces.baseline.load()
            if baseline is None or not baseline.is_lent:
                self._traces.baseline.save(HostBaseline(self._traces.facts()))

    def _compare(self) -> None:
        """Record the facts about a host in its new role, or compare an idle host with the recorded facts.

        Raises ``HostFilesError`` for a difference: no other tenant may get a host on which a tenant left traces.
        """
        baseline = self._traces.baseline.load()
        if baseline is None:
            return
        if self._lease.role != self._idle_role:
            if not baseline.is_lent:
                self._traces.baseline.save(replace(baseline, leased=self._traces.facts()))
            return
        differences = baseline.differences(self._traces.facts()) if baseline.is_lent else ()
        if differences:
            get_logger().error("tenant-left-traces", differences=differences)
            raise HostFilesError(
                "this host differs from its state before its tenant came: expected no difference, found"
                f" {shown_differences(differences)}; clean the host or install it again, or remove"
                f" {self._traces.baseline.file} to accept its present state, then forgive the node"
            )
        self._traces.baseline.clear()

    def _prepare(self, keys: Sequence[str]) -> None:
        """Record the state that is restored after a tenant, before keys are admitted."""
        if not keys:
            return
        self._traces.keep_access()
        baseline = self._traces.baseline.load()
        if baseline is not None and not baseline.is_lent:
            self._traces.baseline.save(replace(baseline, is_lent=True))

    def fail(self, revision: Revision, *, is_gated: bool) -> None:
        """Note that a deployment failed, and release the role's lock, because no host waits for this one."""
        identity = self._host.identity
        self._reporting.retry_until_reachable(lambda: self._adapters.fleet.roles.hand_on(identity))
        self._failed = None if is_gated else (revision, self._lease.number)

    def note_failure(self) -> None:
        """Show that the host cannot follow its present lease, even if its error is from an earlier lease."""
        if self._host.lease_failed != self._lease.number:
            self._reporting.host = replace(self._host, lease_failed=self._lease.number)
            self._reporting.refresh()

    def forget_failure(self) -> None:
        """Permit another attempt of the failed deployment."""
        self._failed = None

    def has_failed(self, revision: Revision) -> bool:
        """Whether the deployment of this revision with this lease failed before."""
        return self._failed == (revision, self._lease.number)

    def show_waiting(self, state: ClusterState) -> None:
        """Show that the lease waits for the fleet, if a lease waits."""
        host = self._host
        waiting = f"{_WAITS_FOR_ROLE}{self._lease.role} (lease {self._lease.number}): the cluster is {state.value}"
        step = None if self.is_reached else waiting
        if host.step != step and (step is not None or (host.step or "").startswith(_WAITS_FOR_ROLE)):
            self._reporting.host = replace(host, step=step)
            self._reporting.refresh()

    @property
    def _host(self) -> Host:
        return self._reporting.host

    def _update_keys(self) -> tuple[str, ...]:
        """Remove keys that the lease lacks, and their connections; admit new keys if the role is reached.

        The record keeps removed keys until their connections have ended, so that the removal is repeated after a
        crash.
        """
        before = (*self._record.lease.keys, *self._admitted())
        keys = admissible_keys(self._lease, before, is_reached=self.is_reached)
        revoked = revoked_keys(self._lease, before)
        try:
            self._prepare(keys)
            with failpoints("write-keys"):
                if not keys:
                    self._traces.restore_access()
                keys = self._admit(keys)
        except HostFilesError:
            if revoked and self._disconnected != self._lease.number:  # once: an operator has to repair the file
                self._access.end_connections()
            self._disconnected = self._lease.number
            raise
        if revoked:
            get_logger().info("tenant-keys-removed", keys=len(revoked))
            self._access.end_connections()
        return keys

    def _admit(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Write the keys of the lease, and return those that are written.

        A new key is written only if the lease has it at this moment: this host may have been frozen since it read
        the lease, and the session of the tenant may have ended meanwhile.
        """
        if not set(keys) <= set(self._admitted()):
            present = self._present_keys()
            keys = tuple(key for key in keys if key in present)
        self._access.admit(keys)
        return keys

    def _present_keys(self) -> tuple[str, ...]:
        """Return the keys of the lease at this moment; empty for a lease that ``read`` will refuse."""

        def read() -> Lease | None:
            self._adapters.session.sync()
            return self._adapters.lease(self._host.identity)

        try:
            lease = self._reporting.retry_until_reachable(read)
        except LEASE_ERRORS:
            return ()
        return () if lease is None else lease.keys

    def _admitted(self) -> tuple[str, ...]:
        """Return the keys in the file; empty if the file cannot be read, which a later write reports."""
        try:
            return tuple(self._access.admitted())
        except HostFilesError:
            return ()

    def _store(self, record: LeaseRecord) -> None:
        """Write a record on disk, then confirm it in the host's node."""
        if record != self._record:
            with failpoints("record-lease"):
                self._adapters.run.lease.save(record)
            self._record = record
        leased = record.lease.reached if record.is_reached else None
        self._reporting.host = replace(self._host, leased=leased)
        self._reporting.refresh()


def _check_number(lease: Lease, record: LeaseRecord) -> None:
    if 0 < lease.number < record.lease.number:
        raise RefusedError(
            f"the lease of this host went back: expected a number from {record.lease.number} on, found"
            f" {lease.number}; write a larger number, or, without publishers, delete the lease, which makes the"
            " host idle"
        )


def lease_follower(
    adapters: AgentAdapters, reporting: HostReporting, root: Path, idle_role: str, packages: str
) -> LeaseFollower:
    """Give the host the role of the lease that it followed last, and return the follower of its lease.

    Without a lease, the host has its ``idle_role``. ``packages`` is the name of its package manager.
    """
    host, run = reporting.host, adapters.run
    record = first_record(run.lease.load(), idle_role, has_version=host.version is not None)
    reporting.host = replace(
        host,
        identity=replace(host.identity, role=record.lease.role),
        idle_role=idle_role,
        leased=record.lease.reached if record.is_reached else None,
        completed=host.completed if record.is_reached else None,
    )
    traces = HostTraces(root, verifies=packages != "none")
    return LeaseFollower(adapters, reporting, AuthorizedKeys(root), traces, idle_role=idle_role)


def lease_reader(session: Session, root: Path, publishers: Path | None) -> Callable[..., Lease | None]:
    """Return the reader of leases for the host with this root; with ``publishers``, they must have signed them."""
    leases = ZooKeeperSignedLeases(session)

    def believed(identity: Identity, *, remembers: bool = True) -> Lease | None:  # noqa: ARG001  nothing to compare
        found = leases.read(identity.id)
        return None if found is None else found.lease

    if publishers is None:
        return believed
    return TrustedLeases(
        leases,
        PublisherKeysFile(
            publishers, LEASES, "the lease of this host is not signed by one of the publishers of this host"
        ),
        verified_lease_file(lasting_directory(root) / "verified-lease"),
    ).lease


def end_leases(root: Path, run: RunDirectory, record: LeaseRecord, role: str | None) -> None:
    """Remove the files of leases from a host that has ``role`` now and can no longer be leased."""
    access = AuthorizedKeys(root)
    traces = HostTraces(root, verifies=False)
    traces.restore_access()
    access.admit(())
    traces.baseline.clear()
    if record.lease.keys:
        access.end_connections()
    run.end_leases(role)


#: The functions with which host pools lease a host.
HOST_LEASES = HostLeases(follow=lease_follower, reader=lease_reader, end=end_leases)
