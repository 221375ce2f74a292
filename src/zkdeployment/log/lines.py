"""The format of log lines: structlog's processors, connected to the standard library's logging."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from zkdeployment.errors import is_secret, without_secrets
from zkdeployment.printable import printable_lines

# structlog imports rich if it is installed, for tracebacks that are never written here. That would cost four
# megabytes of each agent, and a third of the start time of a verb.
_HIDE_RICH = "rich" not in sys.modules
if _HIDE_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]  # makes the import fail
import structlog  # noqa: E402

if _HIDE_RICH:
    del sys.modules["rich"]

if TYPE_CHECKING:
    import logging
    from collections.abc import MutableMapping
    from contextlib import AbstractContextManager

#: The fields of all lines of this process.
process: dict[str, object] = {}


def configure() -> None:
    """Connect structlog to the standard library's logging."""
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def make_formatter(*, on_terminal: bool) -> logging.Formatter:
    """Return the formatter for records of structlog and of libraries."""
    # The other traceback formats show the values of variables, which may be secrets.
    render: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
            exception_formatter=structlog.dev.plain_traceback,
        )
        if on_terminal
        else structlog.processors.JSONRenderer()
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _hide_secrets,
            *([_make_printable] if on_terminal else []),
            render,
        ],
    )


def get_logger() -> structlog.stdlib.BoundLogger:
    """Return a logger."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("zkdeployment")
    return logger


def bound(**values: object) -> AbstractContextManager[object]:
    """Return a context manager that adds fields to all lines that this thread writes in it."""
    return structlog.contextvars.bound_contextvars(**values)


def _shared() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _add_process,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _add_process(_logger: object, _method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    for name, value in process.items():
        event.setdefault(name, value)
    return event


def _hide_secrets(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    return {name: "***" if is_secret(name) else _hidden(value) for name, value in event.items()}


def _make_printable(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Escape characters that a terminal acts on; JSON escapes them anyway."""
    return {name: printable_lines(value) if isinstance(value, str) else value for name, value in event.items()}


def _hidden(value: object) -> object:
    match value:
        case str():
            return without_secrets(value)
        case list() | tuple():
            return [_hidden(item) for item in value]
        case dict():
            return {name: "***" if is_secret(str(name)) else _hidden(item) for name, item in value.items()}
    return value
