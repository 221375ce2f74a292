"""The coordinator as a program: its adapters, its session, its controls and its verb."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base import log
from zkdeployment.base.daemon.control import Control, obey_signals
from zkdeployment.cli.leader import leader_adapters
from zkdeployment.config.settings import Settings, load
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.publishing.acts.opening import open_commits, user_author
from zkdeployment.rollouts.daemon import Coordinator, RecoverySteps
from zkdeployment.rollouts.settings import CoordinateSettings
from zkdeployment.rollouts.store import ZooKeeperRollouts
from zkdeployment.strategies.strategy import MemberKind

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def build_coordinator(settings: Settings) -> Iterator[tuple[Coordinator, Control]]:
    """Yield the coordinator and its control; no server is contacted before the coordinator runs."""
    with leader_adapters(settings, settings.require(CoordinateSettings).metrics, MemberKind.HOST) as (
        session,
        adapters,
    ):
        store = ZooKeeperRollouts(session, adapters.lead, adapters.control.wake)
        recovery = RecoverySteps(
            operator=operator_adapters(session),
            open_commits=partial(open_commits, settings),
            author=user_author("coordinator"),
            check=adapters.control.check,
        )
        yield Coordinator(store, adapters, recovery), adapters.control


@click.command(name="coordinate")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def coordinate(config: Path, *, verbose: bool) -> None:
    """Lead rollouts by the published strategy, in the foreground, until SIGTERM.

    Several coordinators may run on different hosts: one leads, and another takes over when the leader ends.
    The leader grants hosts the phases prepare and deploy, group by group, judges the groups, and stops the fleet
    when a critical group failed. Its whole state is in ZooKeeper. Without a strategy a coordinator does nothing.

    \b
    Example:
      zkdeployment coordinate /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    with build_coordinator(load(config, host=False)) as (coordinator, control):
        obey_signals(control)
        coordinator.run()
