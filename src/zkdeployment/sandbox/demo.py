"""``scripts/demo``: plays the demo scenario in a sandbox of its own, and removes it afterwards."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from zkdeployment.base import log
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.sandbox import processes
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.layout import default_directory
from zkdeployment.sandbox.scenario import DemoScenario

_FAREWELL = """
The fleet keeps running in {directory}. To use it:

  . {activate}
  zkdeployment sandbox shell{option}       # a shell in which zkdeployment finds this fleet; for example:
  zkdeployment status
  zkdeployment tree show

  git clone {tree}
  zkdeployment sandbox push{option} tree -m "my change"

To end it:

  zkdeployment sandbox down{option}
"""

#: The user with the right to read the demo's fleet only.
_VIEWER = "guest"


def main() -> None:
    """Play the scenario; exit with 0 only if all its checks succeeded."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="A fleet follows a git repository, in five stages."
    )
    parser.add_argument("--keep", action="store_true", help="keep the fleet running and print how to use it")
    parser.add_argument(
        "-d",
        "--directory",
        type=Path,
        help="the sandbox's directory; default: a new one, with --keep the usual one",
    )
    options = parser.parse_args()
    log.configure(quiet=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    console = Console()
    try:
        play(options.directory, console, keep=options.keep)
    except ZkdeploymentError as error:
        Console(stderr=True).print(f"[bold red]the demo failed:[/] {error}", highlight=False)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; the sandbox was removed")
        sys.exit(128 + signal.SIGINT)


def play(directory: Path | None, console: Console, *, keep: bool) -> None:
    """Play the scenario in a new sandbox; remove the sandbox after a failure or without ``keep``."""
    if directory is None:
        directory = default_directory() if keep else Path(tempfile.mkdtemp(prefix="zkdemo-"))
    sandbox = Sandbox(directory)
    scenario = DemoScenario(sandbox, console, service=keep)
    begun = time.monotonic()
    scenario.start()
    try:
        scenario.play_stages()
    except BaseException:
        sandbox.down()
        raise
    if keep:
        console.print(_farewell(sandbox), highlight=False, markup=False, soft_wrap=True)
    else:
        sandbox.down()
        scenario.check(not processes.sandbox_processes(sandbox.directory), "no process is left")
        scenario.check(not sandbox.directory.exists(), "no file is left")
    console.print(f"\n[bold green]All five stages succeeded, in {time.monotonic() - begun:.0f} s.[/]")
    if keep:
        console.print(_invitation(sandbox), highlight=False, markup=False, soft_wrap=True)


def _invitation(sandbox: Sandbox) -> str:
    """Return the line that offers the service's page, with a new login that may only read."""
    url, key = sandbox.add_viewer(_VIEWER)
    return f"See the fleet at {url} as the user {_VIEWER} with the key {key}"


def _farewell(sandbox: Sandbox) -> str:
    usual = sandbox.directory == default_directory().resolve()
    return _FAREWELL.format(
        directory=sandbox.directory,
        option="" if usual else f" -d {sandbox.directory}",
        tree=sandbox.status()["tree"],
        activate=Path(sys.prefix) / "bin" / "activate",
    )


if __name__ == "__main__":
    main()
