"""The promoter as a program: its adapters, its session, its controls and its verb."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base import log
from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control, obey_signals
from zkdeployment.cli.leader import leader_adapters
from zkdeployment.config.settings import Settings, load
from zkdeployment.promotion.branches import FleetBranches
from zkdeployment.promotion.daemon import Promoter
from zkdeployment.promotion.services import FleetServices, ServiceClient
from zkdeployment.promotion.settings import PromoteSettings
from zkdeployment.promotion.store import PromoterStore
from zkdeployment.promotion.streams import EventStreams
from zkdeployment.strategies.strategy import MemberKind

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def build_promoter(settings: Settings) -> Iterator[tuple[Promoter, Control]]:
    """Yield the promoter and its control; no server is contacted before the promoter runs."""
    own = settings.require(PromoteSettings)
    with (
        leader_adapters(settings, own.metrics, MemberKind.FLEET) as (session, adapters),
        contextlib.closing(ServiceClient(own.token_directory, own.ca)) as client,
        contextlib.closing(EventStreams(client)) as streams,
    ):
        control = adapters.control
        promoter = Promoter(
            PromoterStore(session, adapters.lead, control.wake),
            FleetBranches.opened(own.url, own.directory, main=own.branch, identity=own.identity),
            FleetServices(client, adapters.clock, control.wake, interval=own.interval, streams=streams),
            adapters,
            interval=own.interval,
            reach=failpoints.reach,
        )
        yield promoter, control


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
