"""Runs the host agent in this process: reads its settings, and sets up its log and the signals.

The functions here work without click. Options and output belong to ``agent_verb``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zkdeployment.base import log
from zkdeployment.base.daemon.control import obey_signals
from zkdeployment.cli.process import build_control
from zkdeployment.config.settings import Settings, load
from zkdeployment.programs.agent import check_zookeeper, run_agent

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from zkdeployment.base.daemon.control import Control


def run_daemon(config: Path, *, verbose: bool = False, addresses: Collection[str] = ()) -> None:
    """Run the agent of the configured host until a signal ends it.

    Raises ``RefusedError`` unless all configured ZooKeeper servers are among ``addresses``, if any are given.
    """
    settings = read_settings(config, verbose=verbose, addresses=addresses)
    run_agent(
        settings,
        signalled_control(),
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
