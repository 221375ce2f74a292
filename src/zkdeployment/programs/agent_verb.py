"""``zkdeployment agent``: runs the host agent, or prints the plan of a host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.agent.daemon.agent import CycleState
from zkdeployment.agent.rules.plan_text import removed_files, sentence, system_lines, unchanged_sentence
from zkdeployment.cli.terminal import echo
from zkdeployment.programs.agent import build_agent, preview_plan, read_settings, run_daemon, signalled_control

if TYPE_CHECKING:
    from zkdeployment.config.settings import Settings

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
    the present step has stop-timeout seconds to finish; then the agent exits with 0. On SIGHUP the agent reads its
    configuration again, between two deployments. With --dry-run, an update of the operating system is downloaded
    and tested, and its packages are shown; the exit code is 1 if the update is impossible.

    \b
    Example:
      zkdeployment agent /etc/zkdeployment/zkdeployment.cfg
      zkdeployment agent --dry-run /etc/zkdeployment/zkdeployment.cfg
    """
    if not run_once and not dry_run:
        run_daemon(config, verbose=verbose, addresses=addresses)
        return
    settings = read_settings(config, verbose=verbose, addresses=addresses)
    if dry_run:
        _print_plan(settings)
        return
    with build_agent(settings, verbose=verbose, control=signalled_control()) as (agent, _):
        raise click.exceptions.Exit(_EXIT[agent.run_once()])


def _print_plan(settings: Settings) -> None:
    found = preview_plan(settings)
    revision, plan = found.revision, found.plan
    for number, step in enumerate(plan.steps, 1):
        echo(f"{number}. {sentence(step)}")
        if files := removed_files(step):
            echo(f"   removes {', '.join(files)}")
        for line in system_lines(step, found.changes, found.reasons, found.problem):
            echo(f"   {line}")
    if unchanged := unchanged_sentence(plan):
        echo(unchanged)
    echo(f"{len(plan.steps)} steps to {revision}" if plan.steps else f"nothing to do for {revision}", err=True)
    if found.problem:
        raise click.exceptions.Exit(1)
