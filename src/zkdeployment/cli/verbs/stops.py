"""``zkdeployment stop``, ``hold``, ``resume``, ``retry`` and ``forget``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zkdeployment.cli.act_verbs import act_verb
from zkdeployment.cli.operator_options import override_flags
from zkdeployment.cli.options import SECONDS
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.service.acts import HoldFleet, ResumedFleet, ResumeFleet, RetryHost, StopFleet
from zkdeployment.service.host_acts import CordonHosts, ForgetHosts, HostMaintenance, UncordonHosts

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.act import Act


@act_verb(StopFleet, "stop", open_operator)
def stop_fleet(_planned: StopFleet, _act: Act) -> None:
    """Stop the whole fleet: set the cluster version to null.

    Hosts finish their present step and start no other step; the syncer publishes nothing. Only 'zkdeployment
    resume' and 'sync --force' end the stop. Until then, status, why and the monitor show the operator, the time
    and the reason. If the fleet is stopped already, the reason is added. Sessions of host pools go on and expire,
    but hosts of the fleet that are lent change no role.

    \b
    Example:
      zkdeployment stop --reason 'web 1.3 loses sessions; do not roll on'
    """
    echo("stopped")
    echo("Hosts finish their present step; 'zkdeployment resume' ends the stop.", err=True)


@act_verb(HoldFleet, "hold", open_operator)
def hold_fleet(_planned: HoldFleet, _act: Act) -> None:
    """Hold all hosts until the next push: set the cluster version to false.

    Hosts finish their present step and start no other step. The hold ends with 'zkdeployment resume', or when a
    running syncer publishes the next revision, even if some hosts are behind. To prevent publications as well, use
    'zkdeployment stop'. The exit code is 3 while the fleet is stopped or a publication is under way.

    \b
    Example:
      zkdeployment hold --reason 'switch in rack 7 is being replaced'
    """
    echo("held")
    echo("The hold ends with the next publication, or with 'zkdeployment resume'.", err=True)


@act_verb(ResumeFleet, "resume", open_operator)
@click.option(
    "--latest", is_flag=True, help="Request that the syncer publishes the branch's tip, as sync --force does."
)
@override_flags
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=SECONDS,
    default=60.0,
    show_default=True,
    help="How long to wait for the syncer.",
)
def resume_fleet(_planned: ResumeFleet, outcome: ResumedFleet) -> None:
    """End a stop or a hold.

    Without --latest, the published revision is set again, and failed hosts try again. With --latest, the syncer
    first publishes the branch's tip, for example a pushed fix. The exit code is 3 when there is nothing to resume,
    5 when no syncer published in time.

    \b
    Example:
      zkdeployment resume
      zkdeployment resume --latest --reason 'web 1.3 fixed'
    """
    echo(f"resumed at {outcome.revision}")


@act_verb(RetryHost, "retry", open_operator)
@click.argument("host")
def retry_host(_planned: RetryHost, outcome: ResumedFleet) -> None:
    """Let one failed host of a stopped fleet deploy the published revision again.

    HOST is the host's id or name. The fleet stays stopped: no other host starts a step, and the host needs no turn
    in a rollout. If it fails again, its attempt ends; if it succeeds, 'zkdeployment resume' lets the others
    continue. One host tries again at a time: another retry ends this one, and so does 'zkdeployment stop'. The
    exit code is 3 if the fleet is not stopped, if an operator stopped it, or if the host has not failed.

    \b
    Example:
      zkdeployment retry app7.example.com --reason 'its disk was full'
    """
    echo(f"{outcome.act.what}: it deploys {outcome.revision}")
    echo("The fleet stays stopped; 'zkdeployment why HOST' shows how the attempt goes.", err=True)


@act_verb(ForgetHosts, "forget", open_operator)
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@click.option(
    "--force",
    is_flag=True,
    help="Forget hosts although only they run what the tree deploys to them, or they reboot.",
)
def forget_hosts(planned: ForgetHosts, _act: Act) -> None:
    """Forget hosts that were removed permanently, so that 'status' no longer shows them as absent.

    HOST is a host's id or name. The exit code is 3 if one of the hosts is registered, if it is expected back from
    a reboot, or if the tree deploys a service to it that no other host would run: remove the host from the tree
    first. Then no host is forgotten. All locks that are kept for a forgotten host are released: make sure that it
    runs no script. A forgotten host that returns registers like a new host.

    \b
    Example:
      zkdeployment forget app7.example.com --reason 'its mainboard is broken'
    """
    for host in planned.hosts:
        echo(f"forgot {host}")


def _selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments that select hosts by name, role or rack."""
    for decorate in (
        click.option("--rack", metavar="RACK", default="", help="All hosts of this rack."),
        click.option("--role", metavar="ROLE", default="", help="All hosts of this role."),
        click.argument("hosts", metavar="[HOST...]", nargs=-1),
    ):
        function = decorate(function)
    return function


@act_verb(CordonHosts, "cordon", open_operator)
@_selection
@click.option(
    "--until",
    metavar="WHEN",
    default="",
    help="The end of the maintenance: a duration such as 2h, or a time with its zone, 2026-05-01T18:00Z.",
)
@click.option(
    "--at-most",
    metavar="N",
    type=click.IntRange(min=1),
    help="Refuse the act if more hosts would be in maintenance at once.",
)
@click.option("--drain", is_flag=True, help="Undeploy the services that other hosts have.")
def cordon_hosts(_planned: CordonHosts, outcome: HostMaintenance) -> None:
    """Put hosts into maintenance: they start nothing, and nothing waits for them.

    HOST is a host's id or name. The hosts finish their present script and start no other step; their services keep
    running. Publications, rollouts and other hosts do not wait for them. The hosts count neither as failed nor as
    absent, and the monitor reports them as OK, with the author and the reason. 'zkdeployment uncordon' ends the
    maintenance; the hosts then deploy the published revision. The exit code is 3 if more than N hosts would be in
    maintenance. Then no host is put into maintenance.

    With --drain, the hosts first undeploy each service that another host has, under its lock. They keep the other
    services, and 'zkdeployment status' names these with the reasons.

    \b
    Example:
      zkdeployment cordon host2 --until 2h --reason 'its disk is replaced'
      zkdeployment cordon host2 --drain --reason 'new kernel'
      zkdeployment cordon --rack r7 --at-most 20 --reason 'new switch'
    """
    for host in outcome.hosts:
        echo(f"cordoned {host}")
    echo("Hosts finish their present script; 'zkdeployment uncordon' ends the maintenance.", err=True)


@act_verb(UncordonHosts, "uncordon", open_operator)
@_selection
def uncordon_hosts(_planned: UncordonHosts, outcome: HostMaintenance) -> None:
    """End the maintenance of hosts: they deploy the published revision.

    HOST is a host's id or name. The exit code is 3 if a named host, or all hosts of the role or the rack, are not
    in maintenance.

    \b
    Example:
      zkdeployment uncordon host2
      zkdeployment uncordon --rack r7 --reason 'the switch works'
    """
    for host in outcome.hosts:
        echo(f"uncordoned {host}")
