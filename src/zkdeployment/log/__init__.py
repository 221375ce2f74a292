"""Logging: structlog over stdlib logging, so that libraries' records take the same path.

On a terminal lines are for people; otherwise each is one JSON object. Event names are constants. What is common to
a part of the work (its host, revision, step) is bound, so that all its lines say it; no line shows a secret.

structlog is imported with the first line: a command that answers at once writes none, and starts in half the time.
"""

from __future__ import annotations

import logging
import sys
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import structlog

#: Libraries whose records of what is not unusual nobody wants to read.
_CHATTY = ("kazoo", "git")

_QUIET = 60.0  # seconds between two records of a library that say the same

#: Whether structlog is yet to be told what was configured.
_due = False


def configure(*, verbose: bool = False, quiet: bool = False, stream: TextIO | None = None) -> None:
    """Send everything to ``stream`` (default: standard error).

    With ``quiet``, as for commands that answer at once, only what was not expected: the rest they say themselves.
    """
    global _due  # noqa: PLW0603  there is one log in a process
    _due = True
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.addFilter(_Repetitions())
    handler.setFormatter(_Formatter(on_terminal=target.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    for library in _CHATTY:
        logging.getLogger(library).setLevel(logging.ERROR if quiet else logging.WARNING)
    if not quiet:
        _lines()  # before there are other threads


def get_logger() -> structlog.stdlib.BoundLogger:
    """Return a logger; call it with an event name and keywords."""
    logger: structlog.stdlib.BoundLogger = _lines().get_logger()
    return logger


def bind_process(**values: object) -> None:
    """Let every line of this process say these, whichever thread or library writes it."""
    _lines().process.update(values)


def bound(**values: object) -> AbstractContextManager[object]:
    """Let every line that this thread writes inside say these."""
    context: AbstractContextManager[object] = _lines().bound(**values)
    return context


def _lines() -> Any:
    global _due  # noqa: PLW0603  as above
    lines = import_module("zkdeployment.log.lines")
    if _due:
        lines.configure()
        _due = False
    return lines


class _Formatter(logging.Formatter):
    """Writes records as structlog does."""

    def __init__(self, *, on_terminal: bool) -> None:
        super().__init__()
        self._on_terminal = on_terminal

    def format(self, record: logging.LogRecord) -> str:
        return self._inner.format(record)

    @cached_property
    def _inner(self) -> logging.Formatter:
        formatter: logging.Formatter = _lines().make_formatter(on_terminal=self._on_terminal)
        return formatter


class _Repetitions(logging.Filter):
    """Drops what a chatty library says again and again, as while ZooKeeper is away; it says it once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is to be logged."""
        if record.name.partition(".")[0] not in _CHATTY or record.levelno >= logging.ERROR:
            return True
        key = record.name, record.msg
        if record.created - self._said.get(key, -_QUIET) < _QUIET:
            return False
        if len(self._said) >= 100:  # messages are few, unless a library puts values into them
            self._said.clear()
        self._said[key] = record.created
        return True
