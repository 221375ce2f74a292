"""The format of log lines: structlog's processors, connected to the standard library's logging."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from zkdeployment.base.errors import is_secret, without_secrets
from zkdeployment.base.text import printable_lines

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, MutableMapping


@contextmanager
def _sparing() -> Iterator[None]:
    """Import structlog without rich and asyncio: six megabytes of each agent, and a third of a verb's start time.

    structlog imports rich if it is installed, for tracebacks that this program never writes; asyncio, for logging
    in coroutines, which this program never does; and greenlet, if it is installed, for ``threadlocal``.
    """
    instead = {"rich": None, "greenlet": None, "asyncio": ModuleType("asyncio")}  # None makes the import fail
    hidden = {name: module for name, module in instead.items() if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


with _sparing():
    import structlog

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
