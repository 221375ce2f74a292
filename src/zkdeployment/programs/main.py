"""The entry points of the program: they run the verb that the arguments name, and report its errors.

The arguments are parsed by ``program``. Only the usual calls of the agent and of a host's Nagios check, which run
on every host, need no parser.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from zkdeployment.base import log
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.machine.program import without_collection
from zkdeployment.cli.terminal import echo, echo_lines

#: Errors of the disk to which the output is redirected.
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the program and exit: expected errors end with one line on stderr and their exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters outside of the terminal's encoding are escaped
            stream.reconfigure(errors="backslashreplace")
    log.configure(quiet=True)
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        status = 128 + signal.SIGINT
    except ZkdeploymentError as error:
        echo_lines(f"zkdeployment: {error}", err=True)
        status = error.exit_code
    except OSError as error:
        log.get_logger().debug("system-error", exc_info=error)  # the stack trace, with --verbose
        if error.filename is None and error.errno in _UNWRITABLE:
            echo(f"zkdeployment: cannot write: {error.strerror}", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            place = "" if error.filename is None else f"{error.filename}: "
            echo(f"zkdeployment: {place}{error.strerror or error}", err=True)
        status = 1
    sys.exit(status)


def _open_closed_streams() -> None:
    """Discard the output to streams that the caller has closed, such as a shell with ``>&-``."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  as long as the process runs
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  as above


def check() -> NoReturn:
    """Run ``check_zkdeployment``: the monitor under the customary name of Nagios plugins."""
    main(["monitor", *sys.argv[1:]])


def _run(argv: list[str]) -> int:
    """Run a verb and return its exit code.

    An agent without options, as the systemd unit starts it, runs on every host for months. The agent starts
    without click and the verbs, which would take a megabyte of its memory. Unlike a verb, the agent collects
    garbage while it imports modules: garbage from that time would stay in memory.

    A host's Nagios check runs every minute. With plain numbers as limits, as in the shipped command, the check
    also starts without click and the table of verbs: importing them would take a tenth of its processor time.
    """
    match argv:
        case ["agent", config] if not config.startswith("-"):
            from zkdeployment.programs.agent import run_daemon  # noqa: PLC0415

            gc.freeze()  # the imported modules stay, and are not searched for garbage
            run_daemon(Path(config))
            return 0
        case ["monitor", config] if not config.startswith("-"):
            return _check_host(config)
        case ["monitor", config, "-w", warn, "-c", critical] if (
            not config.startswith("-") and _is_number(warn) and _is_number(critical)
        ):
            return _check_host(config, warn, critical)
        case _:
            from zkdeployment.programs.verbs import run  # noqa: PLC0415

            return run(argv)


def _check_host(config: str, *limits: str) -> NoReturn:
    with without_collection():
        from zkdeployment.programs.monitor import check_host  # noqa: PLC0415
    check_host(Path(config), *limits)


def _is_number(limit: str) -> bool:
    return limit.isascii() and limit.isdecimal() and len(limit) < 10
