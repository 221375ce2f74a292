"""``zkdeployment sandbox``: verbs of a throw-away fleet on this machine."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Column, Table

from zkdeployment.base.daemon.control import interrupted_by_signals
from zkdeployment.base.machine.program import pools_libraries, service_libraries
from zkdeployment.cli.options import emit, output_option
from zkdeployment.cli.tables import console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import VerbGroup
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.fleets import MAX_FLEETS, start_fleets
from zkdeployment.sandbox.layout import default_directory, read_hosts
from zkdeployment.sandbox.nagios import find_nagios
from zkdeployment.sandbox.processes import VARIABLE, begin_reboot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

directory_option = click.option(
    "-d",
    "--directory",
    "sandbox",
    metavar="DIR",
    envvar=VARIABLE,
    show_envvar=True,
    default=default_directory,
    show_default="a fixed place in the user's state directory",
    callback=lambda _context, _option, value: Sandbox(Path(value)),
    help="The directory of the sandbox; several sandboxes can run side by side.",
)


@click.group(name="sandbox", cls=VerbGroup)
def command() -> None:
    """Run a throw-away fleet on this machine: real ZooKeeper, real git, real RPMs, and an agent for each host.

    \b
    Example:
      zkdeployment sandbox up --hosts 3 --samples
      zkdeployment sandbox shell -- zkdeployment status --wait
      zkdeployment sandbox down
    """


@command.command()
@directory_option
@click.option(
    "--hosts",
    metavar="N|FILE",
    default="3",
    show_default=True,
    help="The number of hosts, or a YAML or JSON file: host id -> {name, role, tags, labels, rack}.",
)
@click.option(
    "--servers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="The number of ZooKeeper servers.",
)
@click.option(
    "--fleets",
    type=click.IntRange(2, MAX_FLEETS),
    metavar="N",
    help="Start N fleets with these hosts each, each with its own ZooKeeper, branch and service, and a promoter"
    " that takes the sample tree from fleet to fleet; implies --server and --samples.",
)
@click.option("--syncer/--no-syncer", default=True, help="Whether a syncer follows the tree's branch.")
@click.option("--samples", is_flag=True, help="Build the sample packages and push the sample tree.")
@click.option(
    "--server",
    is_flag=True,
    help="Start the service, with pages and an HTTP API, add an admin to it, and start the worker of host pools.",
)
@click.option("--nagios", is_flag=True, help="Start a Nagios with its bridge and a user for it; implies --server.")
@output_option
def up(
    sandbox: Sandbox,
    *,
    hosts: str,
    servers: str,
    fleets: int | None,
    syncer: bool,
    samples: bool,
    server: bool,
    nagios: bool,
    output: str,
) -> None:
    """Start a fleet, and return when every agent is registered, and the service and the worker answer.

    \b
    Example:
      zkdeployment sandbox up -d /tmp/fleet --hosts 5 --samples --server
      zkdeployment sandbox up -d /tmp/fleets --hosts 1 --fleets 3
    """
    requested = read_hosts(hosts)
    if fleets is not None and (nagios or servers != "1" or not syncer):
        raise click.UsageError("--fleets cannot be combined with --nagios, --servers or --no-syncer")
    # What a machine lacks is reported before anything is started.
    if nagios:
        find_nagios()
    if server or nagios or fleets is not None:
        with pools_libraries():
            import_module("ansible_runner")  # the worker is a program of its own and imports it
    with _progress() as report, interrupted_by_signals(), service_libraries():
        if fleets is not None:
            start_fleets(sandbox, requested, fleets, with_samples=True, report=report)
        else:
            sandbox.up(
                requested,
                servers=int(servers),
                syncer=syncer,
                with_samples=samples,
                service=server or nagios,
                report=report,
            )
        if nagios:
            report("starting Nagios")
            sandbox.add_nagios()
    _show(sandbox.status(), output)


@command.command()
@directory_option
def down(sandbox: Sandbox) -> None:
    """End all processes of the sandbox, also after a crash, and remove its directory.

    \b
    Example:
      zkdeployment sandbox down -d /tmp/fleet
    """
    with _progress() as report:
        report("ending the processes of the sandbox")
        sandbox.down()


@command.command()
@directory_option
@output_option
def status(sandbox: Sandbox, output: str) -> None:
    """Show addresses, directories, logs and processes.

    \b
    Example:
      zkdeployment sandbox status -o json
    """
    _show(sandbox.status(), output)


@command.command()
@directory_option
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-m", "--message", default="Pushed by hand", show_default=True, help="The commit's message.")
def push(sandbox: Sandbox, path: Path, message: str) -> None:
    """Make the files of the directory PATH the content of the tree's branch, and print the revision.

    \b
    Example:
      zkdeployment sandbox push ./tree -m "hello 1.1"
    """
    echo(sandbox.push(path, message))


@command.command()
@directory_option
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def rpm(sandbox: Sandbox, files: tuple[Path, ...]) -> None:
    """Sign RPM files, add them to the repository and refresh its metadata.

    The hosts have no other packages, so nothing provides the /bin/sh of a script: build with AutoReqProv: no.

    \b
    Example:
      zkdeployment sandbox rpm hello-1.2-1.noarch.rpm
    """
    sandbox.add_rpms(files)


@command.command()
@directory_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def start(sandbox: Sandbox, names: tuple[str, ...]) -> None:
    """Start agents (by host id), syncer, coordinator, promoter, server, pools, nagios or zookeeper1, zookeeper2….

    \b
    Example:
      zkdeployment sandbox start host1 syncer
    """
    sandbox.start(names)


@command.command()
@directory_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--kill", is_flag=True, help="End them with SIGKILL, like a crash.")
def stop(sandbox: Sandbox, names: tuple[str, ...], kill: bool) -> None:
    """Stop agents (by host id), syncer, coordinator, promoter, server, pools, nagios or zookeeper1, zookeeper2….

    \b
    Example:
      zkdeployment sandbox stop host2 --kill
    """
    sandbox.stop(names, kill=kill)


@command.command(hidden=True)
@directory_option
@click.argument("host_id", metavar="HOST")
@click.option("--background", is_flag=True, help="Return at once, like systemctl reboot.")
def reboot(sandbox: Sandbox, host_id: str, *, background: bool) -> None:
    """End all processes of HOST, and start its agent again with a new boot id.

    \b
    Example:
      zkdeployment sandbox reboot host2
    """
    if background:
        begin_reboot(sandbox.directory, host_id)
    else:
        sandbox.reboot(host_id)


@command.command(context_settings={"ignore_unknown_options": True})
@directory_option
@click.argument("argv", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def shell(sandbox: Sandbox, argv: tuple[str, ...]) -> None:
    """Run COMMAND, or a shell, in which zkdeployment uses this sandbox.

    \b
    Example:
      zkdeployment sandbox shell -- zkdeployment status --wait
    """
    sandbox.enter_shell(argv)


def _show(status: dict[str, Any], output: str) -> None:
    if output != "table":
        emit(status, output)
        return
    table = Table("name", "pid", "what", Column("where", overflow="fold"), box=None)
    for server in status["servers"]:
        table.add_row(server["id"], _pid(server["pid"]), "ZooKeeper", server["address"])
    table.add_row("syncer", _pid(status["syncer"]), status["follows"], status["tree"])
    table.add_row("coordinator", _pid(status["coordinator"]), "rollouts", status["config"])
    if (service := status["server"]) is not None:
        login = f"service: user {service['user']}, key {service['key']}"
        table.add_row("server", _pid(service["pid"]), login, service["url"])
        table.add_row("pools", _pid(status["pools"]), "the worker of host pools", status["config"])
    if status["fleets"]:
        table.add_row("promoter", _pid(status["promoter"]), "promotions", status["config"])
    for name, directory in status["fleets"].items():
        table.add_row("", "", f"fleet {name}: sandbox status -d", directory)
    if (nagios := status["nagios"]) is not None:
        table.add_row("nagios", _pid(nagios["pid"]), "Nagios: monitoring system nagios1", "")
        table.add_row("", _pid(nagios["bridge"]), "the bridge of Nagios", "")
    for host_id, host in status["hosts"].items():
        name = host["name"] + (f" ({host['role']})" if host["role"] else "")
        table.add_row(host_id, _pid(host["pid"]), styled(name), str(Path(host["config"]).parent))
    console_for(stderr=False).print(table)
    echo(f"RPM repository: {status['repository']}")


def _pid(pid: int | None) -> str:
    return "-" if pid is None else str(pid)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the present activity on a terminal."""
    console = Console(stderr=True)
    with console.status("") as spinner:
        yield lambda text: spinner.update(f"{text} ...")
