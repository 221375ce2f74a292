"""``zkdeployment sandbox``: a throw-away fleet on this machine."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Column, Table

from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.cli.shared.verb_group import VerbGroup
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.hosts import read_hosts
from zkdeployment.sandbox.layout import default_directory
from zkdeployment.sandbox.process_cleanup import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

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
    help="Where the sandbox is; several live side by side.",
)


@click.group(name="sandbox", cls=VerbGroup)
def command() -> None:
    """Run a throw-away fleet on this machine: real ZooKeeper, real git, real RPMs, an agent for each host.

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
    help="How many, or a YAML or JSON file: host id -> {name, role, tags, labels, rack}.",
)
@click.option(
    "--servers", type=click.Choice(["1", "3"]), default="1", show_default=True, help="ZooKeeper servers to run."
)
@click.option("--syncer/--no-syncer", default=True, help="Whether a syncer follows the tree's branch.")
@click.option("--samples", is_flag=True, help="Build the sample packages and push the sample tree.")
@output_option
def up(sandbox: Sandbox, hosts: str, servers: str, syncer: bool, samples: bool, output: str) -> None:
    """Start a fleet; returns once every agent is registered.

    \b
    Example:
      zkdeployment sandbox up -d /tmp/fleet --hosts 5 --samples
    """
    wanted = read_hosts(hosts)
    with _progress() as report, _terminated_like_interrupted():
        sandbox.up(wanted, servers=int(servers), syncer=syncer, with_samples=samples, report=report)
    _show(sandbox.status(), output)


@command.command()
@directory_option
def down(sandbox: Sandbox) -> None:
    """End all that belongs to the sandbox and remove its directory; also what a crashed one left.

    \b
    Example:
      zkdeployment sandbox down -d /tmp/fleet
    """
    with _progress() as report:
        report("ending the sandbox's processes")
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

    The hosts have no other packages, so nothing that provides a script's /bin/sh: build with AutoReqProv: no.

    \b
    Example:
      zkdeployment sandbox rpm hello-1.2-1.noarch.rpm
    """
    sandbox.add_rpms(files)


@command.command()
@directory_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def start(sandbox: Sandbox, names: tuple[str, ...]) -> None:
    """Start agents (by host id), the syncer, the coordinator or ZooKeeper servers (zookeeper1) that do not run.

    \b
    Example:
      zkdeployment sandbox start host1 syncer
    """
    sandbox.start(names)


@command.command()
@directory_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--kill", is_flag=True, help="With SIGKILL, as a crash would.")
def stop(sandbox: Sandbox, names: tuple[str, ...], kill: bool) -> None:
    """Stop agents (by host id), the syncer, the coordinator or ZooKeeper servers (zookeeper1).

    \b
    Example:
      zkdeployment sandbox stop host2 --kill
    """
    sandbox.stop(names, kill=kill)


@command.command(context_settings={"ignore_unknown_options": True})
@directory_option
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def shell(sandbox: Sandbox, words: tuple[str, ...]) -> None:
    """Run COMMAND, or a shell, in which zkdeployment talks to this sandbox.

    \b
    Example:
      zkdeployment sandbox shell -- zkdeployment status --wait
    """
    sandbox.enter_shell(words)


def _show(status: dict[str, Any], output: str) -> None:
    if output != "table":
        emit(status, output)
        return
    table = Table("name", "pid", "what", Column("where", overflow="fold"), box=None)
    for server in status["servers"]:
        table.add_row(server["id"], _pid(server["pid"]), "ZooKeeper", server["address"])
    table.add_row("syncer", _pid(status["syncer"]), status["branch"], status["tree"])
    table.add_row("coordinator", _pid(status["coordinator"]), "rollouts", status["config"])
    for host_id, host in status["hosts"].items():
        what = host["name"] + (f" ({host['role']})" if host["role"] else "")
        table.add_row(host_id, _pid(host["pid"]), styled(what), str(Path(host["config"]).parent))
    console_for(stderr=False).print(table)
    echo(f"RPM repository: {status['repository']}")


def _pid(pid: int | None) -> str:
    return "-" if pid is None else str(pid)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is under way."""
    console = Console(stderr=True)
    with console.status("") as shown:
        yield lambda text: shown.update(f"{text} ...")


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind as ctrl-c does, so that a fleet half started is taken down."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
