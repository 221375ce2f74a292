"""The command line: one program, one verb a job, each verb imported only when it is used."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from zkdeployment import log
from zkdeployment.cli.shared.terminal import echo, echo_lines
from zkdeployment.cli.shared.verb_group import VerbGroup
from zkdeployment.errors import ZkdeploymentError

#: Verb → the module below this package that defines its ``command``, and its line in ``--help``.
VERBS = {
    "agent": ("agent", "Run the host agent in the foreground."),
    "completion": ("completion", "Print what completes words in bash, zsh or fish."),
    "coordinate": ("coordinate", "Run a coordinator of rollouts in the foreground."),
    "config": ("config", "Check a configuration file."),
    "forget": ("fleet.forget", "Forget hosts that are gone for good."),
    "hold": ("fleet.hold", "Hold all hosts until the next push."),
    "history": ("fleet.history", "Show what was published, and how it went."),
    "lint": ("lint", "Check tree files."),
    "locks": ("fleet.locks", "Show who has and who waits for locks; free one."),
    "monitor": ("fleet.monitor", "Nagios check of this host."),
    "plan": ("plan", "Show what hosts would do, before anything is published."),
    "provide": ("provide", "Register an instance of a service while a command runs."),
    "resume": ("fleet.resume", "End a stop or a hold."),
    "rollout": ("rollout.rollout", "Try out, watch and direct rollouts by a strategy."),
    "sandbox": ("sandbox", "A throw-away fleet on this machine."),
    "status": ("fleet.status", "Show the fleet: version wanted, version had, state, error."),
    "stop": ("fleet.stop", "Stop the whole fleet."),
    "sync": ("sync", "Publish the tree from git to ZooKeeper."),
    "tree": ("tree", "Show, read, compare and change the tree."),
    "version": ("version", "Print the version of this program."),
    "why": ("fleet.why", "Say why a host is not at the cluster version."),
}

#: What a disk says, on which the output was to be put.
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


class Verbs(VerbGroup):
    """A group whose verbs are imported when they are called, so that each starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the verbs."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"zkdeployment.cli.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer verbs without importing them, and options."""
        verbs = [
            CompletionItem(verb, help=VERBS[verb][1]) for verb in sorted(VERBS) if verb.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in sorted(VERBS.items())])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
def program() -> None:
    """Push-button, git-driven deployment for fleets of RPM hosts, coordinated by ZooKeeper.

    Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused, 4 not converged, 5 timed out,
    7 ZooKeeper unreachable, 75 wants to be started again; the monitor alone uses Nagios' 0 to 3.

    \b
    Example:
      zkdeployment sandbox up --hosts 3 --samples
      zkdeployment sandbox shell -- zkdeployment status --wait
    """


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the program; an expected error is one line on stderr and its exit code, no stack trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the terminal's encoding does not have is shown by its code
            stream.reconfigure(errors="backslashreplace")
    log.configure(quiet=True)
    try:
        status = program.main(argv, prog_name="zkdeployment", standalone_mode=False)
    except click.exceptions.Exit as request:
        status = request.exit_code
    except click.Abort:
        echo("interrupted", err=True)
        status = 128 + signal.SIGINT
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except ZkdeploymentError as error:
        echo_lines(f"zkdeployment: {error}", err=True)
        status = error.exit_code
    except OSError as error:
        log.get_logger().debug("system-error", exc_info=error)  # for whoever asks where, with --verbose
        if error.filename is None and error.errno in _UNWRITABLE:
            echo(f"zkdeployment: cannot write: {error.strerror}", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            place = "" if error.filename is None else f"{error.filename}: "
            echo(f"zkdeployment: {place}{error.strerror or error}", err=True)
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def check() -> NoReturn:
    """Run ``check_zkdeployment``: the monitor under the name Nagios people expect."""
    main(["monitor", *sys.argv[1:]])
