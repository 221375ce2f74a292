"""Logging: structlog over the standard library's logging, so that records of libraries take the same path.

Lines on a terminal are readable text; otherwise each line is one JSON object. Event names are constants. Fields
that are common to a part of the work (host, revision, step) are bound, so that all its lines contain them. No line
contains a secret.

structlog is imported with the first line: short commands write no line, and start in half the time without
structlog. In programs without structlog, such as consumers of services, the lines are plain records of
``logging``.
"""

from __future__ import annotations

import logging
import sys
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from contextlib import AbstractContextManager

    import structlog

#: Libraries that log ordinary events as warnings.
_CHATTY = ("kazoo", "git", "uvicorn", "pygls")

_REPEAT_INTERVAL = 60.0  # seconds between two records of a library with the same message

#: Whether structlog still has to be configured.
_due = False


def configure(*, verbose: bool = False, quiet: bool = False, stream: TextIO | None = None) -> None:
    """Configure logging to ``stream`` (default: standard error).

    ``quiet`` is for short commands, which print their results and failures themselves: only errors are logged.
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
        _lines()  # before other threads start


def get_logger() -> structlog.stdlib.BoundLogger:
    """Return a logger; call it with an event name and keywords."""
    try:
        logger: structlog.stdlib.BoundLogger = _lines().get_logger()
    except ModuleNotFoundError:
        return cast("structlog.stdlib.BoundLogger", _PlainLogger(logging.getLogger("zkdeployment")))
    return logger


def bind_process(**values: object) -> None:
    """Add fields to all lines of this process, from any thread or library."""
    _lines().process.update(values)


def bound(**values: object) -> AbstractContextManager[object]:
    """Return a context manager that adds fields to all lines that this thread writes in it."""
    context: AbstractContextManager[object] = _lines().bound(**values)
    return context


def _lines() -> Any:
    global _due  # noqa: PLW0603  as above
    lines = import_module("zkdeployment.base.log.lines")
    if _due:
        lines.configure()
        _due = False
    return lines


class _PlainLogger(logging.LoggerAdapter[logging.Logger]):
    """Writes lines as records of ``logging``, with the keywords behind the event name."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Return the message and the keywords that ``logging`` itself has."""
        own = {name: kwargs.pop(name) for name in ("exc_info",) if name in kwargs}
        return " ".join([str(msg), *(f"{name}={value}" for name, value in kwargs.items())]), own


class _Formatter(logging.Formatter):
    """Formats records like structlog."""

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
    """Drops repeated messages of chatty libraries, for example while ZooKeeper is away, to one in a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._last_times: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        if record.name.partition(".")[0] not in _CHATTY or record.levelno >= logging.ERROR:
            return True
        key = record.name, record.msg
        if record.created - self._last_times.get(key, -_REPEAT_INTERVAL) < _REPEAT_INTERVAL:
            return False
        if len(self._last_times) >= 100:  # a library has few different messages, unless they contain values
            self._last_times.clear()
        self._last_times[key] = record.created
        return True
