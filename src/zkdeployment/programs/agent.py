"""The composition root of the agent: builds its adapters from the settings and runs it.

Decisions and reactions belong in ``agent.daemon``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import zkdeployment
from zkdeployment.agent.adapters import AgentAdapters, ReportingAdapters
from zkdeployment.agent.checkouts.places import CheckoutPlaces
from zkdeployment.agent.daemon.agent import Agent
from zkdeployment.agent.daemon.deployment import HostCommands
from zkdeployment.agent.files.filesystem import Filesystem
from zkdeployment.agent.files.run_directory import IdentityFile, RunDirectory, root_lock
from zkdeployment.agent.reporting.host_reporting import AgentEvents, make_host_reporting
from zkdeployment.agent.rules.lease import HostRole
from zkdeployment.agent.scripts import ScriptRunner
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.errors import ConfigurationError, HostFilesError, RefusedError
from zkdeployment.base.host import Host
from zkdeployment.base.log import bind_process, get_logger
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.mail import SmtpMailer
from zkdeployment.base.machine.program import Program, late_import
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.config.settings import Settings, load, machine_name
from zkdeployment.programs.process import arm_failpoints, build_probe
from zkdeployment.zookeeper.access import check_addresses, encryption
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
    from zkdeployment.agent.ports import PackageManager
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.pools.host.lease_follower import TrustedLeases


_NAME_POLL = 10.0  # seconds between two requests for the machine's full name


def wait_for_full_name(settings: Settings, control: Control) -> Settings | None:
    """Wait until the host's full name is known and return the settings with it; ``None`` if stopped before."""
    notifier = SystemdNotifier()
    waiting = False
    while not control.stopping:
        try:
            return with_full_name(settings)
        except RefusedError as error:
            if not waiting:
                get_logger().error("host-name-awaited", reason=str(error))
                notifier.ready()  # an agent that waits for the name must not block the boot of the machine
                notifier.status(str(error))
            waiting = True
        notifier.watchdog()
        control.wait(_NAME_POLL)
        settings = replace(settings, host_name=machine_name())
    return None


def with_full_name(settings: Settings) -> Settings:
    """Return the settings with the host's full name.

    Raises ``RefusedError`` if the machine's name has no domain, and no recorded name completes it.
    """
    identity = settings.require_identity()
    if settings.named:
        return settings
    recorded = RunDirectory(settings.require_run_directory()).read_identity() or _identity_file(settings).read()
    full = identity.completed(recorded)
    if full is None:
        raise RefusedError(
            f"the full name of this host is not known: expected a name with a domain, like {recorded} before,"
            f" found {identity.name!r}; correct DNS, or set host-name in the configuration"
        )
    if full != identity:
        get_logger().warning("host-name-remembered", found=identity.name, name=full.name)
    return replace(settings, host_name=full.name)


def record_name(settings: Settings) -> None:
    """Record the host's full name for the time when DNS does not answer; a failure is only logged."""
    try:
        _identity_file(settings).write(settings.require_identity())
    except HostFilesError as error:
        get_logger().warning("identity-not-recorded", reason=str(error))


def _identity_file(settings: Settings) -> IdentityFile:
    """Return the file that keeps the host's name over reboots, which may clear the run directory."""
    return IdentityFile(settings.root / "var" / "lib" / "zkdeployment" / "identity")


_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AGENT_SESSION = 30.0

#  The program as this process loaded it; an agent that is built after a reload is no newer program.
_PROGRAM = Program(zkdeployment.__file__)


@contextlib.contextmanager
def build_agent(
    settings: Settings,
    *,
    verbose: bool = False,
    packages: PackageManager | None = None,
    session_timeout: float = _AGENT_SESSION,
    control: Control | None = None,
) -> Iterator[tuple[Agent, Control]]:
    """Lock the run directory and the root; yield the agent and its control.

    ``packages`` replaces the configured manager. No connection is opened before the agent runs. Raises
    ``RefusedError`` if another agent uses the run directory or the root.
    """
    settings = with_full_name(settings)
    identity = settings.require_identity()
    run, root = RunDirectory(settings.require_run_directory()), root_lock(settings.root)
    arm_failpoints(settings)
    run.acquire()
    session = Session(settings.servers, session_timeout=session_timeout, create_chroot=True)
    try:
        root.acquire()
        run.adopt(identity)
        if not settings.leasable:
            _end_leases(settings, run)
        if not settings.named:
            record_name(settings)
        control = Control(SystemClock()) if control is None else control
        control.grace = settings.stop_timeout
        version, lacking = run.read_version(identity), run.read_lacking()
        host = _with_lease(
            settings,
            run,
            Host(
                identity,
                version=version,
                sequence=run.read_sequence(version),
                completed=None if lacking else run.read_completed(),
                former=run.read_former_version(),
                lacking=lacking,
                pid=os.getpid(),
                tags=settings.tags,
                labels=settings.labels,
                rack=settings.rack,
            ),
        )
        reporting_adapters = _reporting_adapters(settings, session, run)
        reporting = make_host_reporting(host, reporting_adapters, control, _telemetry(settings, session))
        tick = reporting.heartbeat.tick
        scripts = _scripts(settings, run, role=lambda: reporting.host.identity.role, verbose=verbose, tick=tick)
        packages = packages or _package_manager(settings, tick)
        adapters = _agent_adapters(settings, session, run, reporting_adapters, scripts, packages)
        commands = HostCommands(settings.after, settings.after_failure)
        lease = _host_role(settings, adapters, reporting)
        yield Agent(adapters, reporting, control, commands=commands, lease=lease), control
    finally:
        session.close()
        root.release()
        run.release()


def _with_lease(settings: Settings, run: RunDirectory, host: Host) -> Host:
    """Return the host with the role of the lease that it followed last, if it can be leased."""
    idle_role = host.identity.role
    if not settings.leasable or idle_role is None:
        return host
    with late_import():
        from zkdeployment.programs.host_leases import with_lease  # noqa: PLC0415
    return with_lease(run, host, idle_role)


def _host_role(settings: Settings, adapters: AgentAdapters, reporting: HostReporting) -> HostRole:
    """Return the follower of the lease of a host that can be leased; other hosts do not load it."""
    idle_role = reporting.host.idle_role
    if idle_role is None:
        return HostRole()
    with late_import():
        from zkdeployment.programs.host_leases import lease_follower  # noqa: PLC0415
    return lease_follower(settings, adapters, reporting, idle_role)


def _end_leases(settings: Settings, run: RunDirectory) -> None:
    """Remove the files of leases from a host that can no longer be leased."""
    record = run.read_lease()
    if record is None:
        return
    with late_import():
        from zkdeployment.programs.host_leases import end_leases  # noqa: PLC0415
    end_leases(settings.root, run, record, settings.require_identity().role)


def run_agent(
    settings: Settings,
    control: Control,
    *,
    verbose: bool = False,
    accept: Callable[[Settings], None] = lambda _: None,
) -> None:
    """Run the agent until ``control`` stops it; after a changed configuration is loaded, run a new agent.

    An invalid configuration, or one for which ``accept`` raises ``RefusedError``, is ignored.
    """
    current: Settings | None = settings
    while current is not None:
        current = wait_for_full_name(current, control)
        if current is None:
            return
        bind_process(host=str(current.require_identity()))
        reread = partial(_reread, current, accept)
        with build_agent(current, verbose=verbose, control=control) as (agent, _):
            current = agent.run(reread)


def _reread(settings: Settings, accept: Callable[[Settings], None]) -> Settings | None:
    """Return the configuration if it changed and is valid, otherwise ``None``; log the result."""
    try:
        with late_import():  # new sections and values may need modules that are not imported yet
            accept(load(settings.source, host=False))
            loaded = with_full_name(load(settings.source))
        encryption(loaded.access)
        if loaded.require_run_directory() != settings.run_directory:
            run = RunDirectory(loaded.require_run_directory())
            run.acquire()
            run.release()
        if loaded.root != settings.root:
            root = root_lock(loaded.root)
            root.acquire()
            root.release()
    except (ConfigurationError, RefusedError) as error:
        get_logger().error("configuration-not-reloaded", reason=str(error))
        return None
    changed = loaded != settings
    get_logger().info(
        "configuration-reloaded" if changed else "configuration-unchanged", file=str(settings.source)
    )
    return loaded if changed else None


def preview_adapters(settings: Settings, session: Session) -> AgentAdapters:
    """Return the adapters of an agent, for a preview of its plan; the run directory is not locked."""
    run = RunDirectory(settings.require_run_directory())
    reporting, scripts = _reporting_adapters(settings, session, run), _scripts(settings, run)
    return _agent_adapters(settings, session, run, reporting, scripts, _package_manager(settings))


def _reporting_adapters(settings: Settings, session: Session, run: RunDirectory) -> ReportingAdapters:
    fleet = ZooKeeperFleet(
        session,
        previous_session=run.read_session(),
        save_session=run.write_session,
        queues=run,
        lock_delay=settings.lock_delay,
    )
    return ReportingAdapters(
        connect=session.open,
        session=lambda: session.id,
        address=lambda: settings.address or session.local_address,
        fleet=fleet,
        files=Filesystem(settings.root),
        run=run,
        clock=SystemClock(),
        notifier=SystemdNotifier(),
        mailer=SmtpMailer(settings.mailto, server=settings.smtp),
        adopts_versions=settings.publishers is None,
    )


def _trusted_publications(settings: Settings, session: Session, run: RunDirectory) -> TrustedPublications | None:
    """Return the reader of signed publications for a host with publishers; other hosts do not load it."""
    if settings.publishers is None:
        return None
    with late_import():
        from zkdeployment.programs.host_trust import trusted_publications  # noqa: PLC0415
    return trusted_publications(
        settings.publishers, session, root=settings.root, run=run.path, minimum=settings.minimum_sequence
    )


def _trusted_leases(settings: Settings, session: Session) -> TrustedLeases | None:
    """Return the reader of signed leases for a host with publishers that can be leased."""
    if settings.publishers is None or not settings.leasable:
        return None
    with late_import():
        from zkdeployment.programs.host_trust import trusted_leases  # noqa: PLC0415
    return trusted_leases(settings.publishers, session, root=settings.root)


def _telemetry(settings: Settings, session: Session) -> AgentEvents:
    """Return the writer of metrics for a host with a metrics file; other hosts do not load it."""
    if settings.metrics is None:
        return AgentEvents()
    with late_import():
        from zkdeployment.agent.telemetry import AgentTelemetry  # noqa: PLC0415
    return AgentTelemetry(build_probe(settings.metrics, session))


def _agent_adapters(
    settings: Settings,
    session: Session,
    run: RunDirectory,
    reporting: ReportingAdapters,
    scripts: ScriptRunner,
    packages: PackageManager,
) -> AgentAdapters:
    return AgentAdapters(
        **vars(reporting),
        outdated=_PROGRAM.outdated,
        packages=packages,
        checkouts=CheckoutPlaces(settings.root, settings.checkout_sources),
        scripts=scripts,
        trusted=_trusted_publications(settings, session, run),
        trusted_leases=_trusted_leases(settings, session),
    )


def _package_manager(settings: Settings, tick: Callable[[], None] = lambda: None) -> PackageManager:
    """Return the configured package manager, and load only its module."""
    if settings.packages == "none":
        with late_import():
            from zkdeployment.agent.packages.none import NoPackages  # noqa: PLC0415
        return NoPackages(settings.root)
    with late_import():
        from zkdeployment.agent.packages.dnf import Dnf  # noqa: PLC0415
    return Dnf(settings.root, settings.repositories, tick=tick)


def _scripts(
    settings: Settings,
    run: RunDirectory,
    *,
    role: Callable[[], str | None] = lambda: None,
    verbose: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> ScriptRunner:
    identity = settings.require_identity()
    return ScriptRunner(
        environment={
            "HOME": _home(),
            "PATH": f"{Path(sys.executable).parent}:{_SYSTEM_PATH}",
            "LANG": os.environ.get("LANG") or "C.UTF-8",
            "ZC_ZK_CONNECTION_STRING": settings.zookeeper,
            "ZKDEPLOYMENT_ROOT": str(settings.root),
            "ZKDEPLOYMENT_HOST_ID": identity.id,
            "ZKDEPLOYMENT_HOST_NAME": identity.name,
            "ZKDEPLOYMENT_CONFIG": str(settings.source.absolute()),
        },
        logs=settings.root / "var" / "log" / "zkdeployment",
        record=run.path / "script",
        role=role,
        timeout=settings.script_timeout,
        verbose=verbose,
        tick=tick,
    )


def _home() -> str:
    """Return this user's home directory, and correct ``HOME`` for the programs that this process starts."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # in a container, the user may have no name
        home = os.environ.get("HOME", "/")
    if os.environ.get("HOME") != home:
        get_logger().warning("home-corrected", found=os.environ.get("HOME"), home=home)
        os.environ["HOME"] = home
    return home


def check_zookeeper(settings: Settings, addresses: Collection[str]) -> None:
    """Raise ``RefusedError`` unless all configured ZooKeeper servers are among ``addresses``, if any are given."""
    if addresses:
        check_addresses(settings.zookeeper, addresses)
