"""The composition root of the agent: builds its adapters from the settings, and runs it in this process.

The functions here work without click; options and output belong to ``agent_verb``. Decisions and reactions belong
in ``agent.daemon``.
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
from zkdeployment.agent.adapters import AgentAdapters, HostLeases, PackageManager, no_lease
from zkdeployment.agent.checkouts.places import CheckoutPlaces
from zkdeployment.agent.daemon.agent import Agent
from zkdeployment.agent.daemon.deployment import HostCommands
from zkdeployment.agent.daemon.plans import PlanPreview, preview
from zkdeployment.agent.files.filesystem import Filesystem
from zkdeployment.agent.files.run_directory import RunDirectory, identity_file, lasting_directory, sole_agent_of
from zkdeployment.agent.files.system_files import SystemFiles
from zkdeployment.agent.reporting.host_reporting import AgentEvents, HostReporting
from zkdeployment.agent.rules.lease import HostRole
from zkdeployment.agent.scripts import ScriptRunner
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.agent.store.live_output import LiveOutputWriter
from zkdeployment.base import log
from zkdeployment.base.daemon.control import Control, obey_signals
from zkdeployment.base.errors import ConfigurationError, HostFilesError, RefusedError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.mail import SmtpMailer
from zkdeployment.base.machine.program import Program, late_import
from zkdeployment.base.machine.systemd import BOOTED, SystemdNotifier
from zkdeployment.base.stop import OUTPUTS_DIRECTORY
from zkdeployment.cli.process import arm_failpoints, build_control, build_probe
from zkdeployment.config.forms import UnansweredError
from zkdeployment.config.settings import Settings, load, machine_name
from zkdeployment.zookeeper.access import check_addresses, encryption
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
    from zkdeployment.base.host import Host, Identity
    from zkdeployment.base.machine.files import JsonFile


_POLL = 10.0  # seconds between two attempts to read the configuration or the machine's full name


def wait_for_full_name(settings: Settings, control: Control) -> Settings | None:
    """Wait until the host's full name is known and return the settings with it; ``None`` if stopped before."""

    def read() -> Settings:
        return with_full_name(settings if settings.named else replace(settings, host_name=machine_name()))

    return _await(read, RefusedError, "host-name-awaited", control)


def _await(
    read: Callable[[], Settings], awaited: type[ZkdeploymentError], event: str, control: Control
) -> Settings | None:
    """Repeat ``read`` while it raises ``awaited``, and return its result; ``None`` if stopped before.

    The first error is logged as ``event``.
    """
    notifier = SystemdNotifier()
    waiting = False
    while not control.stopping:
        try:
            return read()
        except awaited as error:
            if not waiting:
                get_logger().error(event, reason=str(error))
                notifier.ready()  # an agent that waits must not block the boot of the machine
                notifier.status(str(error))
            waiting = True
        notifier.watchdog()
        control.wait(_POLL)
    return None


def with_full_name(settings: Settings) -> Settings:
    """Return the settings with the host's full name.

    Raises ``RefusedError`` if the machine's name has no domain, and no recorded name completes it: a host that
    registered as localhost would succeed without its services.
    """
    identity = settings.require_identity()
    if settings.named:
        return settings
    recorded = (
        identity_file(settings.require_run_directory() / "identity").load() or _identity_file(settings).load()
    )
    full = identity.completed(recorded)
    if full is None:
        before = "" if recorded is None else f" (like {recorded} before)"
        raise RefusedError(
            f"the full name of this host is not known: expected a name with a domain{before},"
            f" found {identity.name!r}; correct DNS, or set host-name in the configuration"
        )
    if full != identity:
        get_logger().warning("host-name-remembered", found=identity.name, name=full.name)
    return replace(settings, host_name=full.name)


def record_name(settings: Settings) -> None:
    """Record the host's full name for the time when DNS does not answer; a failure is only logged."""
    file, identity = _identity_file(settings), settings.require_identity()
    try:
        if file.load() != identity:
            file.save(identity)
    except HostFilesError as error:
        get_logger().warning("identity-not-recorded", reason=str(error))


def _identity_file(settings: Settings) -> JsonFile[Identity]:
    """Return the file that keeps the host's name over reboots, which may clear the run directory."""
    return identity_file(lasting_directory(settings.root) / "identity")


_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AGENT_SESSION = 30.0

#: The program as this process loaded it; an agent that is built after a reload is no newer program.
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
    arm_failpoints(settings)
    settings = with_full_name(settings)
    run = RunDirectory(settings.require_run_directory(), settings.root)
    session = Session(settings.servers, session_timeout=session_timeout, create_chroot=True)
    with contextlib.closing(session), run.locked(settings.root):
        host = _last_host(settings, run)
        control = Control(SystemClock()) if control is None else control
        control.grace = settings.stop_timeout
        telemetry = _telemetry(settings.metrics, session)

        def role() -> str | None:
            return reporting.host.identity.role

        def tick() -> None:
            reporting.tick()

        adapters = _adapters(settings, session, run, packages=packages, role=role, tick=tick, verbose=verbose)
        reporting = HostReporting(host, adapters, control, telemetry)
        commands = HostCommands(settings.after, settings.after_failure)
        lease = _host_role(settings, adapters, reporting)
        yield Agent(reporting, commands=commands, lease=lease), control


def _last_host(settings: Settings, run: RunDirectory) -> Host:
    """Record the host's identity and name, and return the host as its last agent left it.

    Keys and traces of leases are removed from a host that can no longer be leased. Hosts that never followed a
    lease do not load leases.
    """
    identity = settings.require_identity()
    if not settings.named:
        record_name(settings)
    run.adopt(identity)
    if not settings.leasable and (record := run.lease.load()) is not None:
        _host_leases().end(settings.root, run, record, identity.role)
    return replace(
        run.read_host(identity),
        pid=os.getpid(),
        tags=settings.tags,
        labels=settings.labels,
        rack=settings.rack,
    )


def _host_role(settings: Settings, adapters: AgentAdapters, reporting: HostReporting) -> HostRole:
    """Return the follower of the lease of a host that can be leased; other hosts do not load it."""
    idle_role = reporting.host.identity.role
    if not settings.leasable or idle_role is None:
        return HostRole()
    return _host_leases().follow(adapters, reporting, settings.root, idle_role, settings.packages)


def _host_leases() -> HostLeases:
    """Return the functions of the feature that leases hosts; raises ``ConfigurationError`` without one."""
    with late_import():
        from zkdeployment.agent.places import AgentPlaces  # noqa: PLC0415
        from zkdeployment.base.features import installed  # noqa: PLC0415

        for places in installed(AgentPlaces):
            return places.host_leases()
    raise ConfigurationError(
        "role: expected a role that is not leased, found lease:…, and this program has no host pools"
    )


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
        log.bind_process(host=str(current.require_identity()))
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
            with RunDirectory(loaded.require_run_directory()).locked():
                pass
        if loaded.root != settings.root:
            with sole_agent_of(loaded.root):
                pass
    except (ConfigurationError, RefusedError) as error:
        get_logger().error("configuration-not-reloaded", reason=str(error))
        return None
    changed = loaded != settings
    get_logger().info(
        "configuration-reloaded" if changed else "configuration-unchanged", file=str(settings.source)
    )
    return loaded if changed else None


def preview_plan(settings: Settings) -> PlanPreview:
    """Return the plan of this host's agent for the cluster version, without a lock and without changes."""
    settings = with_full_name(settings)
    with Session(settings.servers) as session:
        adapters = _adapters(settings, session, RunDirectory(settings.require_run_directory(), settings.root))
        return preview(adapters, settings.require_identity(), leasable=settings.leasable)


def _adapters(  # noqa: PLR0913  what an agent adds to the settings
    settings: Settings,
    session: Session,
    run: RunDirectory,
    *,
    packages: PackageManager | None = None,
    role: Callable[[], str | None] = lambda: None,
    tick: Callable[[], None] = lambda: None,
    verbose: bool = False,
) -> AgentAdapters:
    """Return the adapters of the configured host.

    ``role`` returns the present role of the host; ``tick`` is called while a script or dnf runs.
    """
    environment, clock = _environment(settings), SystemClock()
    packages = packages or _package_manager(settings, tick)
    return AgentAdapters(
        session=session,
        fleet=ZooKeeperFleet(session, memory=run.session, lock_delay=settings.lock_delay),
        files=Filesystem(settings.root),
        run=run,
        system=_system(settings),
        packages=packages,
        checkouts=CheckoutPlaces(settings.root, settings.checkout_sources),
        scripts=ScriptRunner(
            environment=environment,
            logs=settings.root / OUTPUTS_DIRECTORY,
            record=run.path / "script",
            role=role,
            timeout=settings.script_timeout,
            verbose=verbose,
            tick=tick,
            follow=LiveOutputWriter(session, clock, settings.require_identity().id).show,
        ),
        clock=clock,
        notifier=SystemdNotifier(),
        mailer=SmtpMailer(settings.mailto, server=settings.smtp),
        outdated=_PROGRAM.outdated,
        address=settings.address,
        trusted=_trusted(settings, session, run.path),
        lease=_host_leases().reader(session, settings.root, settings.publishers)
        if settings.leasable
        else no_lease,
    )


def _system(settings: Settings) -> SystemFiles:
    """Return the operating system of the host; a scratch root never reboots the machine unless it is told to."""
    is_system = settings.root == Path("/") and BOOTED.is_dir()
    may_reboot = is_system if settings.reboots is None else settings.reboots
    return SystemFiles(settings.root, may_reboot, settings.reboot_command)


def _package_manager(settings: Settings, tick: Callable[[], None]) -> PackageManager:
    """Return the configured package manager, and load only its module."""
    if settings.packages == "none":
        with late_import():
            from zkdeployment.agent.packages.none import NoPackages  # noqa: PLC0415
        return NoPackages(settings.root)
    with late_import():
        from zkdeployment.agent.packages.dnf import Dnf  # noqa: PLC0415
    return Dnf(settings.root, settings.repositories, tick=tick)


def _trusted(settings: Settings, session: Session, run: Path) -> TrustedPublications | None:
    """Return the reader of signed publications for a host with publishers; others do not load it."""
    if settings.publishers is None:
        return None
    with late_import():
        from zkdeployment.programs.host_trust import trusted_publications  # noqa: PLC0415
    return trusted_publications(
        settings.publishers, session, root=settings.root, run=run, minimum=settings.minimum_sequence
    )


def _telemetry(metrics: Path | None, session: Session) -> AgentEvents:
    """Return the writer of metrics for a host with a metrics file; other hosts do not load it."""
    if metrics is None:
        return AgentEvents()
    with late_import():
        from zkdeployment.agent.telemetry import AgentTelemetry  # noqa: PLC0415
    return AgentTelemetry(build_probe(metrics, session))


def _environment(settings: Settings) -> dict[str, str]:
    """Return the environment of scripts."""
    identity = settings.require_identity()
    return {
        "HOME": _home(),
        "PATH": f"{Path(sys.executable).parent}:{_SYSTEM_PATH}",
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        "ZC_ZK_CONNECTION_STRING": settings.zookeeper,
        "ZKDEPLOYMENT_ROOT": str(settings.root),
        "ZKDEPLOYMENT_HOST_ID": identity.id,
        "ZKDEPLOYMENT_HOST_NAME": identity.name,
        "ZKDEPLOYMENT_CONFIG": str(settings.source.absolute()),
    }


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


def run_daemon(config: Path, *, verbose: bool = False, addresses: Collection[str] = ()) -> None:
    """Run the agent of the configured host until a signal ends it.

    Waits for the answers of addresses that the configuration names. Raises ``RefusedError`` unless all configured
    ZooKeeper servers are among ``addresses``, if any are given.
    """
    control = signalled_control()
    read = partial(read_settings, config, verbose=verbose, addresses=addresses)
    settings = _await(read, UnansweredError, "configuration-awaited", control)
    if settings is not None:
        run_agent(
            settings,
            control,
            verbose=verbose,
            accept=lambda reloaded: check_zookeeper(reloaded, addresses),
        )


def read_settings(config: Path, *, verbose: bool = False, addresses: Collection[str] = ()) -> Settings:
    """Return the settings of the configured host, and set up the log of this process for that host."""
    log.configure(verbose=verbose)
    check_zookeeper(load(config, host=False), addresses)  # before a file or a server is asked for the host's id
    os.umask(0o022)  # all users may read what packages and scripts write
    settings = load(config)
    log.bind_process(host=str(settings.require_identity()))
    return settings


def signalled_control() -> Control:
    """Return the control that SIGTERM and SIGINT stop, and that SIGHUP reloads."""
    control = build_control()
    obey_signals(control, hangup=control.reload)
    return control


def check_zookeeper(settings: Settings, addresses: Collection[str]) -> None:
    """Raise ``RefusedError`` unless all configured ZooKeeper servers are among ``addresses``, if any are given."""
    if addresses:
        check_addresses(settings.zookeeper, addresses)
