"""Logging: structlog over stdlib logging, so that libraries' records take the same path.

On a terminal lines are for people; otherwise each is one JSON object. Event names are constants. What is common to
a part of the work (its host, revision, step) is bound, so that all its lines say it; no line shows a secret.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

from zkdeployment.errors import is_secret, without_secrets

# structlog takes rich in if it can, for tracebacks that we never let it write: four megabytes of each agent, and a
# third of the time in which a verb starts.
_HIDE_RICH = "rich" not in sys.modules
if _HIDE_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]  # Python's way to say that there is none
import structlog  # noqa: E402

if _HIDE_RICH:
    del sys.modules["rich"]

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from contextlib import AbstractContextManager

#: Libraries whose records of what is not unusual nobody wants to read.
_CHATTY = ("kazoo", "git")

_QUIET = 60.0  # seconds between two records of a library that say the same

_process: dict[str, object] = {}


def configure(*, verbose: bool = False, quiet: bool = False, stream: TextIO | None = None) -> None:
    """Send everything to ``stream`` (default: standard error).

    With ``quiet``, as for commands that answer at once, only what was not expected: the rest they say themselves.
    """
    target = stream or sys.stderr
    on_terminal = target.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_process,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Other tracebacks would show the values of variables, which may be secrets.
    render: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if on_terminal
        else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(target)
    handler.addFilter(_Repetitions())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _hide_secrets,
                render,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    for library in _CHATTY:
        logging.getLogger(library).setLevel(logging.ERROR if quiet else logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def get_logger() -> structlog.stdlib.BoundLogger:
    """Return a logger; call it with an event name and keywords."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("zkdeployment")
    return logger


def bind_process(**values: object) -> None:
    """Let every line of this process say these, whichever thread or library writes it."""
    _process.update(values)


def bound(**values: object) -> AbstractContextManager[object]:
    """Let every line that this thread writes inside say these."""
    return structlog.contextvars.bound_contextvars(**values)


def _add_process(_logger: object, _method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    for name, value in _process.items():
        event.setdefault(name, value)
    return event


def _hide_secrets(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    return {name: "***" if is_secret(name) else _hidden(value) for name, value in event.items()}


def _hidden(value: object) -> object:
    match value:
        case str():
            return without_secrets(value)
        case list() | tuple():
            return [_hidden(one) for one in value]
        case dict():
            return {name: "***" if is_secret(str(name)) else _hidden(one) for name, one in value.items()}
    return value


class _Repetitions(logging.Filter):
    """Drops what a chatty library says again and again, as while ZooKeeper is away; it says it once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be logged."""
        if record.name.partition(".")[0] not in _CHATTY or record.levelno >= logging.ERROR:
            return True
        key = record.name, record.msg
        if record.created - self._said.get(key, -_QUIET) < _QUIET:
            return False
        if len(self._said) >= 100:  # messages are few, unless a library puts values into them
            self._said.clear()
        self._said[key] = record.created
        return True
