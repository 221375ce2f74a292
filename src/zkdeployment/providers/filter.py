"""The filter of split updates: keeps a list of the instances in service, or queues while another filter leads.

A filter keeps nothing in memory: the version in service is recorded in the list, where a successor reads it. The
decisions are in ``selection``; this module reads, decides and writes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

import click

from zkdeployment.base import log
from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control, obey_signals
from zkdeployment.base.daemon.cycles import (
    LEAD_FAILURES,
    Backoff,
    CycleFailures,
    DaemonLead,
    FailureKind,
    run_cycles,
)
from zkdeployment.base.errors import (
    ConfigurationError,
    LockLostError,
    RefusedError,
    RestartError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.clock import Clock, SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.cli.process import arm_failpoints
from zkdeployment.config.settings import load, named_configuration
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.providers.balancers import BalancerFile, CheckedFile, command, envoy_form, template_form
from zkdeployment.providers.haproxy_socket import RunningServers, RuntimeSocket
from zkdeployment.providers.reader import (
    FilterRecord,
    ZooKeeperProviderReader,
    encode_record,
    read_record,
    read_with_children,
)
from zkdeployment.providers.selection import (
    FilterChange,
    FilteredList,
    ProviderList,
    check_output,
    check_paths,
    next_change,
)
from zkdeployment.providers.verbs import majority_option
from zkdeployment.publishing.store.cluster import begun_tops, managed_tops
from zkdeployment.tree.values import parent_path
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.nodes import Node, check_path, encode
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.shared_nodes import FollowedNodes
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from zkdeployment.zookeeper.servers import Servers


def lock_path(output: str) -> str:
    """Return the lock of the filters that keep the list at ``output``."""
    return f"{paths.OURS}/filters/{quote(output, safe='')}"


class ZooKeeperFilter:
    """The list at ``output`` of the instances at ``source``, through one session.

    One of several filters leads, and only the leader changes the list.

    ``changed`` (which must not block) is called when the instances or the list changed. ``reach`` is called before
    and after each change of the list with ``before:switch`` and the like. Every change fails unless the lock node
    of this filter still exists: a filter whose session expired writes nothing. Raises ``ConfigurationError`` for
    unusable paths.
    """

    def __init__(
        self,
        session: Session,
        source: str,
        output: str,
        changed: Callable[[], None],
        *,
        reach: Callable[[str], None] = lambda _place: None,
    ) -> None:
        check_paths(check_path(source), check_path(output))
        self._session = session
        self._source, self._output = source, output
        self._instances = ZooKeeperProviderReader(session, changed)
        self._list = FollowedNodes(session, changed)
        self._reach = reach
        identity = f"{socket.gethostname()} (process {os.getpid()})"
        self._lock = ContenderLock(session, lock_path(output), identity)
        self._leads = False
        self._node: Node | None = None

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this filter leads now."""
        self._leads = False
        self._leads = self._lock.acquire(timeout)
        return self._leads

    def resign(self) -> None:
        """Leave the lead, or the queue for it; never raises."""
        self._leads = False
        self._lock.release()

    def registered(self) -> ProviderList:
        """Return the registered instances; their next change wakes the filter. Raises ``LinkError``."""
        listed = self._instances.follow(self._source)
        check_paths(listed.path, self._output)
        return listed

    def filtered(self) -> FilteredList:
        """Return the present list; its next change wakes the filter.

        Raises ``RefusedError`` if the list's path is not free for this filter.
        """
        # The nodes of the instances in the list are not followed, because only filters change them.
        self._list.refresh(lambda: [Read(self._output), Read(self._output, children=True)])
        managed = self._session.get(paths.MANAGED)
        self._node, children = read_with_children(self._session, self._output)
        record = read_record(self._node)
        found = FilteredList(
            record.source, record.version, {name: child.properties for name, child in children.items()}
        )
        check_output(self._source, self._output, managed_tops(managed) | begun_tops(managed), found)
        return found

    def write(self, change: FilterChange) -> None:
        """Change the list, in one transaction.

        Raises ``LockLostError`` if another filter leads, and ``ConflictError`` if the list has changed since
        ``filtered`` returned it.
        """
        lock = self._lock.path
        if not self._leads or lock is None:
            raise LockLostError(f"this filter does not lead: another one keeps {self._output}")
        if self._node is None:
            self._session.ensure(parent_path(self._output))
        place = (
            "update" if self._node is not None and read_record(self._node).version == change.version else "switch"
        )
        self._reach(f"before:{place}")
        try:
            self._session.commit(Check(lock, 0), *self._operations(change))
        except TransactionError as error:
            if error.path == lock:
                raise LockLostError("this filter lost the lead: its ZooKeeper session expired") from error
            raise
        self._reach(f"after:{place}")

    def _operations(self, change: FilterChange) -> list[Operation]:
        """Return the operations on the list's children, and on its node, by which readers notice the change."""
        data = encode_record(FilterRecord(self._source, change.version))
        record = Create(self._output, data) if self._node is None else Set(self._output, data, self._node.version)
        return [
            record,
            *(Delete(f"{self._output}/{address}") for address in sorted(change.remove)),
            *(
                Set(f"{self._output}/{address}", encode(change.replace[address]))
                for address in sorted(change.replace)
            ),
            *(Create(f"{self._output}/{address}", encode(change.add[address])) for address in sorted(change.add)),
        ]


#: Seconds between two cycles: at most (without any change), and at least (so that one cycle handles several
#: changes).
_MOST_SECONDS = 15.0
_LEAST_SECONDS = 0.1

#: The failures after which a filter continues.
_FAILURE_KINDS = (
    *LEAD_FAILURES,
    FailureKind(Exception, "filter-failed", logging.ERROR),
)


class ProviderFilter:
    """Keeps the list of ``store``; ``connect`` opens its session and does nothing when it is open.

    ``record_failure``: see ``CycleFailures``.
    """

    def __init__(
        self,
        store: ZooKeeperFilter,
        clock: Clock,
        control: Control,
        *,
        majority: Fraction,
        connect: Callable[[], None],
        notifier: SystemdNotifier,
        record_failure: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._control = control
        self._majority = majority
        self._connect = connect
        self._notifier = notifier
        self._backoff = Backoff(first=1.0, most=_MOST_SECONDS)
        self._failures = CycleFailures(_FAILURE_KINDS, notifier.status, record_failure)
        self._lead = DaemonLead(store.lead, notifier, otherwise="another filter leads")
        self._checked = False

    def run(self) -> None:
        """Run cycles until asked to end.

        Raises ``RefusedError`` if the list may not be kept at its path, and ``RestartError`` if the connection
        cannot be restored.
        """
        self._notifier.ready()
        try:
            run_cycles(
                self.run_cycle,
                self._control,
                self._clock,
                self._notifier,
                least=lambda: max(_LEAST_SECONDS, self._backoff.seconds),
            )
        finally:
            self._notifier.stopping()
            self._store.resign()

    def run_cycle(self) -> float:
        """Bring the list up to date once if this filter leads; return the seconds until the next cycle."""
        try:
            self._connect()
            if not self._checked:
                self._store.filtered()  # a filter that may never write is refused before it queues
                self._checked = True
            if not self._lead.acquire():
                self._failures.end()
                return 0.0
            self._update()
        except RestartError:
            raise
        except Exception as error:
            if isinstance(error, RefusedError) and not error.retry_helps:
                raise
            return self._report(error)
        self._backoff.reset()
        self._failures.end()
        return _MOST_SECONDS

    def _update(self) -> None:
        before = self._store.filtered()
        change = next_change(self._store.registered(), before, self._majority)
        if change is not None:
            self._store.write(change)
            _log_change(before, change)
        version = before.version if change is None else change.version
        self._notifier.status(
            f"version in service: {'none' if version is None else version or 'without a version'}"
        )

    def _report(self, error: Exception) -> float:
        """Report an error, and leave the lead after a defect; return the seconds until the next cycle."""
        self._failures.report(error)
        if isinstance(error, LockLostError | UnreachableError):
            self._lead.lose()
        elif not isinstance(error, ZkdeploymentError):
            self._lead.lose()
            self._store.resign()  # another filter may do better
        return self._backoff.fail()


def _log_change(before: FilteredList, change: FilterChange) -> None:
    counts = {"added": len(change.add), "replaced": len(change.replace), "removed": len(change.remove)}
    if change.version != before.version:
        get_logger().info("version-switched", before=before.version, version=change.version, **counts)
    else:
        get_logger().info("list-updated", version=change.version, **counts)


_SESSION = 10.0  # seconds


#: Makes the file of a load balancer for the list at a path.
MakeFile: TypeAlias = "Callable[[ZooKeeperProviderReader, str, Fraction], BalancerFile]"


@contextlib.contextmanager
def build_filter(
    servers: Servers, source: str, output: str, majority: Fraction, make_file: MakeFile | None = None
) -> Iterator[tuple[ProviderFilter, Control]]:
    """Yield the filter and its control; no server is contacted before the filter runs.

    With ``make_file``, this process also keeps a file equal to the list, whether or not it leads. Raises
    ``ConfigurationError`` for unusable paths.
    """
    if (named := named_configuration()) is not None:
        arm_failpoints(load(named, host=False))
    clock = SystemClock()
    control = Control(clock)
    with contextlib.ExitStack() as stack:
        session = Session(servers, session_timeout=_SESSION)
        stack.callback(session.close)
        session.on_change(control.wake)
        store = ZooKeeperFilter(session, source, output, control.wake, reach=failpoints.reach)
        if make_file is not None:
            stack.enter_context(_kept_file(make_file, session, output, majority))
        yield (
            ProviderFilter(
                store,
                clock,
                control,
                majority=majority,
                connect=session.open,
                notifier=SystemdNotifier(),
                record_failure=FailureRecord(session, "filter of providers").write,
            ),
            control,
        )


@contextlib.contextmanager
def _kept_file(make_file: MakeFile, session: Session, output: str, majority: Fraction) -> Iterator[None]:
    """Keep the file of a load balancer meanwhile, in a thread of its own."""
    wakes: list[Callable[[], None]] = []

    def changed() -> None:
        for wake in wakes:
            wake()

    file = make_file(ZooKeeperProviderReader(session, changed), output, majority)
    wakes.append(file.wake)
    session.on_change(changed)
    file.start()
    try:
        yield
    finally:
        file.close()


@click.command(name="filter")
@click.argument("source", metavar="INPUT")
@click.argument("output", metavar="OUTPUT")
@majority_option
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file of a load balancer on this machine that is kept equal to OUTPUT.",
)
@click.option(
    "--template",
    metavar="TEMPLATE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The template of FILE, in the language of Jinja; with servers, version and path.",
)
@click.option("--format", "program", type=click.Choice(["envoy"]), help="The form of FILE, instead of a template.")
@click.option(
    "--check", metavar="COMMAND", help="Checks a new FILE, such as 'nginx -t'; if it fails, FILE is restored."
)
@click.option("--reload", metavar="COMMAND", help="Loads a new FILE, such as 'systemctl reload nginx'.")
@click.option(
    "--socket",
    "runtime_socket",
    metavar="SOCKET",
    type=click.Path(path_type=Path),
    help="The socket of HAProxy, with level admin: takes changes of servers without a reload where possible.",
)
@click.option(
    "--weight", metavar="KEY", help="The property of instances with their weights in FILE, from 0 to 256; else 1."
)
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
@zookeeper_options
def filter_instances(
    *,
    connection: Servers,
    source: str,
    output: str,
    majority: Fraction,
    file: Path | None,
    template: Path | None,
    program: str | None,
    check: str | None,
    reload: str | None,
    runtime_socket: Path | None,
    weight: str | None,
    verbose: bool,
) -> None:
    """Keep the instances of the version in service at INPUT as a list at OUTPUT, in the foreground, until SIGTERM.

    The nodes below OUTPUT are equal to the instances at INPUT of one version: the version used last, until another
    version has the majority of the instances. A switch is one transaction. OUTPUT records the version in service,
    so that a restart changes nothing. Several filters of the same paths may run on different hosts: one leads, and
    another takes over when the leader ends.

    OUTPUT has to be below a top-level node that the tree's repository does not manage; anything else is refused.

    With --file, each filter also keeps a file for a load balancer on its machine: made by --template, replaced as
    a whole, checked by --check and loaded by --reload. A file that the check refuses is not loaded. With --socket,
    HAProxy drains servers and changes weights without a reload, so that open connections last.

    \b
    Example:
      zkdeployment filter /shop/web/providers /in-service/web
      zkdeployment filter /shop/web/providers /in-service/web --file web.conf --template web.j2 --check 'nginx -t'
    """
    if file is None and any((template, program, check, reload, runtime_socket, weight)):
        raise click.UsageError(
            "expected --file with --template, --format, --check, --reload, --socket and --weight, found none"
        )
    if file is not None and (template is None) == (program is None):
        raise click.UsageError("expected either --template or --format with --file")
    if runtime_socket is not None and (template is None or reload is None):
        raise click.UsageError(
            "expected --template and --reload with --socket: some changes need a reload of HAProxy"
        )
    log.configure(verbose=verbose)
    make_file = None if file is None else _file_maker(file, template, weight, check, reload, runtime_socket)
    with build_filter(connection, source, output, majority, make_file) as (provider_filter, control):
        obey_signals(control)
        provider_filter.run()


def _file_maker(
    file: Path,
    template: Path | None,
    weight: str | None,
    check: str | None,
    reload: str | None,
    runtime_socket: Path | None,
) -> MakeFile:
    """Return the function that makes the kept file; raises ``ConfigurationError`` for unusable arguments."""
    if not file.parent.is_dir():
        raise ConfigurationError(f"cannot keep {file}: there is no directory {file.parent}; create it")
    form = envoy_form(weight) if template is None else template_form(template, weight)
    first, last = (() if given is None else command(given) for given in (check, reload))
    running = None if runtime_socket is None else RunningServers(RuntimeSocket(runtime_socket))
    checked = CheckedFile(file, first, last, running)
    return lambda reader, path, majority: BalancerFile(reader, path, majority, form, checked)
