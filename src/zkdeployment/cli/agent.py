"""``zkdeployment agent``: runs the host agent, or prints the plan of a host."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from zkdeployment import log
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.config.load import load
from zkdeployment.daemons.agent.cycle_machine import CycleState
from zkdeployment.planning.plan_text import removed_files, sentence, unchanged_sentence
from zkdeployment.wiring.agent import build_agent, check_zookeeper, preview_plan, run_agent
from zkdeployment.wiring.process import build_control

#: The exit codes of --run-once; an agent that ends on SIGTERM has not failed.
_EXIT = {CycleState.DONE: 0, CycleState.FAILED: 1, CycleState.HELD: 3, CycleState.MOVED: 0}


@click.command(name="agent")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-1", "--run-once", is_flag=True, help="Deploy the cluster version to this host once, and exit.")
@click.option(
    "-n",
    "--dry-run",
    is_flag=True,
    help="Print the plan with all files that it removes; change nothing.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages and the output of scripts, too.")
@click.option(
    "-z",
    "--assert-zookeeper-address",
    "addresses",
    metavar="ADDRESS",
    multiple=True,
    help="Refuse to start unless all configured ZooKeeper servers have this address. May be repeated.",
)
def command(config: Path, run_once: bool, dry_run: bool, verbose: bool, addresses: tuple[str, ...]) -> None:
    """Run the host agent in the foreground: deploy each cluster version until SIGTERM.

    With --run-once the exit code is 0 when the host is at the cluster version, 3 when the cluster is stopped or
    held, 1 when the deployment failed; under a rollout strategy the host still waits for its rollout. On SIGTERM
    the agent finishes its present step and exits with 0. On SIGHUP the agent reads its configuration again,
    between two deployments.

    \b
    Example:
      zkdeployment agent /etc/zkdeployment/zkdeployment.cfg
      zkdeployment agent --dry-run /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    check_zookeeper(load(config, host=False), addresses)  # before a file or a server is asked for the host's id
    os.umask(0o022)  # all users may read what packages and scripts write
    settings = load(config)
    log.bind_process(host=str(settings.require_identity()))
    if dry_run:
        revision, plan = preview_plan(settings)
        for number, step in enumerate(plan.steps, 1):
            echo(f"{number}. {sentence(step)}")
            if files := removed_files(step):
                echo(f"   removes {', '.join(files)}")
        if unchanged := unchanged_sentence(plan):
            echo(unchanged)
        echo(f"{len(plan.steps)} steps to {revision}" if plan.steps else f"nothing to do for {revision}", err=True)
        return
    control = build_control()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: control.stop())
    signal.signal(signal.SIGHUP, lambda *_: control.reload())
    if not run_once:
        run_agent(settings, control, verbose=verbose, accept=lambda reloaded: check_zookeeper(reloaded, addresses))
        return
    with build_agent(settings, verbose=verbose, control=control) as (agent, _):
        raise click.exceptions.Exit(_EXIT[agent.run_once()])
