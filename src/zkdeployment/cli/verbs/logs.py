"""``zkdeployment logs``: the last output of the scripts of hosts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import ago
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.stop import FailureOutput, LiveOutput, output_place
from zkdeployment.cli.options import emit, output_option, require_path, zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.feed.live_outputs import LiveOutputs
from zkdeployment.fleet.operator import OperatorAdapters, open_operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.zookeeper.servers import Servers

#: Seconds to wait for a host that is asked for the output of its running script.
_PATIENCE = 5.0


@click.command(name="logs")
@click.argument("host", metavar="[HOST]", default="")
@click.argument("service", metavar="[SERVICE]", default="")
@output_option
@zookeeper_options
def command(connection: Servers, host: str, service: str, output: str) -> None:
    """Show the end of the last output of a script, and the file on the host with the whole output.

    HOST is a host's id or name: its running script is shown, else the script with which it failed last. Without
    HOST, the outputs of all hosts that failed in the last publication are shown; at most 20 are kept. SERVICE is
    the path of a service, and limits the outputs to its scripts. The exit code is 3 if HOST is unknown.

    \b
    Example:
      zkdeployment logs
      zkdeployment logs app1.example.com
      zkdeployment logs /shop/web
    """
    if "/" in host and not service:  # no host has such a name
        host, service = "", host
    if service:
        require_path(service)
    with open_operator(connection) as operator:
        snapshot = operator.fleet.snapshot()
        found = [
            each for each in _outputs(operator, snapshot, host) if not service or service in each.step.split()
        ]
    names = {identity.id: identity.name for identity in snapshot.identities}
    if output != "table":
        emit({"outputs": [_body(each, names) for each in found]}, output, schema="logs")
        return
    for each in found:
        _print(each, names)
    if not found:
        echo(f"no output of a script is known; on the hosts, outputs are {output_place(None)}", err=True)


def _outputs(operator: OperatorAdapters, snapshot: FleetSnapshot, name: str) -> Iterator[FailureOutput]:
    """Yield the last known output of one host, or without its name the kept outputs of all hosts."""
    if not name:
        yield from operator.fleet.failure_outputs()
        return
    identity = snapshot.find_identity(name)
    if identity is None:
        raise RefusedError(f"there is no host {name}; 'zkdeployment status' lists all hosts by name and id")
    host = snapshot.find_host(name)
    is_running = host is not None and host.deploying is not None and not host.is_waiting
    live = LiveOutputs(operator.session).wait_for(identity.id, _PATIENCE) if is_running else None
    found = operator.fleet.failure_output(identity.id) if live is None else live
    if found is not None:
        yield found


def _body(output: FailureOutput, names: Mapping[str, str]) -> dict[str, object]:
    who = {"host": output.host_id, "name": names.get(output.host_id, output.host_id)}
    return {**who, "running": isinstance(output, LiveOutput), **output.to_json()}


def _print(output: FailureOutput, names: Mapping[str, str]) -> None:
    what = "printed" if isinstance(output, LiveOutput) else "failed"
    name = names.get(output.host_id, output.host_id)
    echo(f"{name}: {output.step} of {short(output.revision)} {what} {ago(output.time, time.time())}:")
    for line in output.text.splitlines():
        echo(f"  {line}")
    echo(f"The whole output is on the host, {output_place(output)}.")
