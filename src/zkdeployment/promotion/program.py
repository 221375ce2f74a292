"""The promoter as a program: its adapters, its session, its controls and its verb."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base import log
from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control, obey_signals
from zkdeployment.base.features import installed
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.process import arm_failpoints, build_probe
from zkdeployment.config.settings import load
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.promotion.branches import FleetBranches
from zkdeployment.promotion.daemon import Promoter
from zkdeployment.promotion.services import FleetServices, ServiceClient
from zkdeployment.promotion.store import PromoterStore
from zkdeployment.promotion.streams import EventStreams
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.config.settings import Settings

_PROMOTER_SESSION = 10.0


@contextlib.contextmanager
def build_promoter(settings: Settings) -> Iterator[tuple[Promoter, Control]]:
    """Yield the promoter and its control; no server is contacted before the promoter runs."""
    own = settings.require_promote()
    arm_failpoints(settings)
    client = ServiceClient(own.token_directory, own.ca)
    session, streams = (
        Session(settings.servers, session_timeout=_PROMOTER_SESSION, create_chroot=True),
        EventStreams(client),
    )
    try:
        clock, control = SystemClock(), Control(SystemClock())
        store = PromoterStore(session, control.wake, reach=failpoints.reach)
        criteria = [
            feature.criterion(settings, session, lambda: store.lead_node, control.wake)
            for feature in installed()
            if feature.criterion is not None
        ]
        promoter = Promoter(
            store,
            FleetBranches.opened(own.url, own.directory, main=own.branch, identity=own.identity),
            FleetServices(client, clock, control.wake, interval=own.interval, streams=streams),
            clock,
            control,
            connect=session.open,
            notifier=SystemdNotifier(),
            probe=build_probe(own.metrics, session),
            interval=own.interval,
            criteria=criteria,
            record_failure=FailureRecord(session, "promoter").write,
            reach=failpoints.reach,
        )
        yield promoter, control
    finally:
        streams.close()
        client.close()
        session.close()


@click.command(name="run")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def run(config: Path, *, verbose: bool) -> None:
    """Promote revisions from fleet to fleet, in the foreground, until SIGTERM.

    Several promoters may run on different hosts: one leads, and another takes over when the leader ends.
    The leader moves the branches of fleets forward to commits of the main branch, group by group, and waits until
    the fleets of each group converged. Its whole state is in the ensemble of the configuration.

    \b
    Example:
      zkdeployment promote run /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    with build_promoter(load(config, host=False)) as (promoter, control):
        obey_signals(control)
        promoter.run()
