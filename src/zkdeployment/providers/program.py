"""The filter of split updates as a program: its list, its session, its controls and its verb."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from zkdeployment.base import log
from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control, obey_signals
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.cli.process import arm_failpoints
from zkdeployment.config.settings import load, named_configuration
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.providers.daemon import ProviderFilter
from zkdeployment.providers.filter_store import ZooKeeperFilter
from zkdeployment.providers.verbs import majority_option
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from zkdeployment.zookeeper.servers import Servers

_SESSION = 10.0  # seconds


@contextlib.contextmanager
def build_filter(
    servers: Servers, source: str, output: str, majority: Fraction
) -> Iterator[tuple[ProviderFilter, Control]]:
    """Yield the filter and its control; no server is contacted before the filter runs.

    Raises ``ConfigurationError`` for unusable paths.
    """
    if (named := named_configuration()) is not None:
        arm_failpoints(load(named, host=False))
    clock = SystemClock()
    control = Control(clock)
    session = Session(servers, session_timeout=_SESSION)
    try:
        session.on_change(control.wake)
        store = ZooKeeperFilter(session, source, output, control.wake, reach=failpoints.reach)
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
    finally:
        session.close()


@click.command(name="filter")
@click.argument("source", metavar="INPUT")
@click.argument("output", metavar="OUTPUT")
@majority_option
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
@zookeeper_options
def filter_instances(connection: Servers, source: str, output: str, majority: Fraction, *, verbose: bool) -> None:
    """Keep the instances of the version in service at INPUT as a list at OUTPUT, in the foreground, until SIGTERM.

    The nodes below OUTPUT are equal to the instances at INPUT of one version: the version used last, until another
    version has the majority of the instances. A switch is one transaction. OUTPUT records the version in service,
    so that a restart changes nothing. Several filters of the same paths may run on different hosts: one leads, and
    another takes over when the leader ends.

    OUTPUT has to be below a top-level node that the tree's repository does not manage; anything else is refused.

    \b
    Example:
      zkdeployment filter /shop/web/providers /in-service/web
    """
    log.configure(verbose=verbose)
    with build_filter(connection, source, output, majority) as (provider_filter, control):
        obey_signals(control)
        provider_filter.run()
