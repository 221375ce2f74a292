"""Runs commands: within the process of the tests, which is faster than a process for each, or as programs."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import structlog
from click.testing import CliRunner

from zkdeployment.base.machine import process
from zkdeployment.programs.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


Done: TypeAlias = "subprocess.CompletedProcess[str]"


def invoke(*arguments: object, env: Mapping[str, str] | None = None) -> Done:
    """Run ``zkdeployment`` with these arguments and additional environment; return what ``subprocess.run`` would.

    Unsuitable for verbs that handle signals or that start processes which outlive them.
    """
    argv = [str(word) for word in arguments]
    with _logs_kept(), CliRunner().isolation(env=env) as (out, err, _):
        try:
            main(argv)
        except SystemExit as end:
            status = end.code
    assert isinstance(status, int)
    return subprocess.CompletedProcess(argv, status, out.getvalue().decode(), err.getvalue().decode())


def run(*argv: object, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Done:
    """Run a program and return what ``subprocess.run`` would.

    At the time limit of the test, all programs that it started end with it.
    """
    done = process.run([str(word) for word in argv], env=env, cwd=cwd)
    return subprocess.CompletedProcess(done.argv, done.status, done.stdout, done.stderr)


@contextmanager
def _logs_kept() -> Iterator[None]:
    """Let other threads log to the present output, and restore the configuration of logging afterwards."""
    loggers = [logging.getLogger(name) for name in (None, "kazoo", "git")]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    configuration, thread, output = structlog.get_config(), threading.current_thread(), sys.stdout

    def make_logger(*_: object) -> structlog.PrintLogger:
        return structlog.PrintLogger(None if threading.current_thread() is thread else output)

    structlog.configure(logger_factory=make_logger)
    try:
        yield
    finally:
        structlog.configure(**configuration)
        for logger, level, handlers in before:
            logger.setLevel(level)
            logger.handlers[:] = handlers
