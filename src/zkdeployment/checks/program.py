"""The bridge of a Nagios as a program: the client of the service, the files of Nagios, and its verb."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base import log
from zkdeployment.base.daemon.control import Control, obey_signals
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.files import read_secret, sole_process
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.checks.nagios.bridge import ChangedInstances, CheckReports, NagiosBridge
from zkdeployment.checks.nagios.check_rollouts import CheckRollouts, FirstRuns
from zkdeployment.checks.nagios.files import NagiosPlace
from zkdeployment.checks.nagios.program import LocalNagios, NagiosObjectDirectory
from zkdeployment.checks.nagios.service import HttpMonitoringService, PokeListener, bridge_name
from zkdeployment.checks.settings import NagiosSettings
from zkdeployment.cli.process import arm_failpoints
from zkdeployment.config.addresses import split_listen
from zkdeployment.config.settings import Settings, load
from zkdeployment.service.serving.listener import open_listener

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def build_bridge(settings: Settings) -> Iterator[tuple[NagiosBridge, Control]]:
    """Yield the bridge and its control; the bridge listens for pokes already, but sends nothing before it runs.

    Raises ``ConfigurationError`` for an unusable key, address or directory, and ``RefusedError`` if another bridge
    uses the directory of objects.
    """
    arm_failpoints(settings)
    nagios = settings.require(NagiosSettings)
    name = bridge_name(nagios.objects)
    service = HttpMonitoringService(nagios.server, nagios.user, read_secret(nagios.key_file), name)
    program = LocalNagios(
        objects=nagios.objects,
        plugins=nagios.plugins,
        verify=nagios.verify,
        reload=nagios.reload,
        command_file=nagios.command_file,
        status_file=nagios.status_file,
    )
    place = NagiosPlace(
        objects=str(nagios.objects),
        plugins=str(nagios.plugins),
        host_template=nagios.host_template,
        service_template=nagios.service_template,
        contact_template=nagios.contact_template,
    )
    clock = SystemClock()
    control, notifier = Control(clock), SystemdNotifier()

    def proceed() -> None:
        notifier.watchdog()
        control.check()

    first_runs = None if nagios.status_file is None else FirstRuns(program, clock)
    changed = ChangedInstances(service, clock, nagios.interval, control.wake)
    bridge = NagiosBridge(
        changed,
        CheckRollouts(service, NagiosObjectDirectory(nagios.objects), program, place, first_runs, proceed),
        CheckReports(service, program, clock),
        control,
        clock=clock,
        notifier=notifier,
    )
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(sole_process(nagios.objects / ".lock")):
            raise RefusedError(f"another bridge uses {nagios.objects}; one bridge at a time may write there")
        if nagios.listen is not None:
            listener = PokeListener(open_listener(*split_listen(nagios.listen)), changed.poke)
            stack.callback(listener.close)
            listener.start()
        yield bridge, control


@click.command(name="nagios")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def nagios(config: Path, *, verbose: bool) -> None:
    """Run the bridge of a Nagios on this machine, in the foreground, until SIGTERM.

    The bridge fetches checks from the service, writes them as definitions of hosts and services, reloads Nagios,
    and reports the results of the checks. The section [nagios] of CONFIG names the service and the files of
    Nagios.

    \b
    Example:
      zkdeployment nagios /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    settings = load(config, host=False)
    with build_bridge(settings) as (bridge, control):
        obey_signals(control)
        bridge.run()
