"""``scripts/demo``: plays the story in a sandbox of its own and leaves nothing behind."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from zkdeployment import log
from zkdeployment.errors import ZkdeploymentError
from zkdeployment.sandbox import process_cleanup
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.layout import default_directory
from zkdeployment.sandbox.story import DemoStory

_FAREWELL = """
The fleet stays up in {directory}. Talk to it:

  . {activate}
  zkdeployment sandbox shell{option}       # a shell in which zkdeployment finds this fleet; in it for example:
  zkdeployment status
  zkdeployment tree show

  git clone {tree}
  zkdeployment sandbox push{option} tree -m "my change"

and end it:

  zkdeployment sandbox down{option}
"""


def main() -> None:
    """Play the story; exit with 0 only if all of it came true."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="A fleet follows a git repository, in five stages."
    )
    parser.add_argument("--keep", action="store_true", help="leave the fleet up and say how to talk to it")
    parser.add_argument(
        "-d",
        "--directory",
        type=Path,
        help="where; default: a new directory, with --keep the sandbox's usual place",
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
        Console(stderr=True).print("interrupted; nothing is left behind")
        sys.exit(128 + signal.SIGINT)


def play(directory: Path | None, console: Console, *, keep: bool) -> None:
    """Tell the story in a new sandbox in ``directory``; end that unless all went well and it is to be kept."""
    if directory is None:
        directory = default_directory() if keep else Path(tempfile.mkdtemp(prefix="zkdemo-"))
    sandbox = Sandbox(directory)
    story = DemoStory(sandbox, console)
    begun = time.monotonic()
    story.start()
    try:
        story.tell()
    except BaseException:
        sandbox.down()
        raise
    if keep:
        console.print(_farewell(sandbox), highlight=False, markup=False, soft_wrap=True)
    else:
        sandbox.down()
        story.check(not process_cleanup.sandbox_processes(sandbox.directory), "no process is left")
        story.check(not sandbox.directory.exists(), "no file is left")
    console.print(f"\n[bold green]All five stages did what they say, in {time.monotonic() - begun:.0f} s.[/]")


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
