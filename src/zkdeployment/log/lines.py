"""How a line of the log is made: by structlog, through stdlib logging."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from zkdeployment.errors import is_secret, without_secrets
from zkdeployment.printable import printable_lines

# structlog takes rich in if it can, for tracebacks that we never let it write: four megabytes of each agent, and a
# third of the time in which a verb starts.
_HIDE_RICH = "rich" not in sys.modules
if _HIDE_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]  # Python's way to say that there is none
import structlog  # noqa: E402

if _HIDE_RICH:
    del sys.modules["rich"]

if TYPE_CHECKING:
    import logging
    from collections.abc import MutableMapping
    from contextlib import AbstractContextManager

#: What every line of this process says.
process: dict[str, object] = {}


def configure() -> None:
    """Let what structlog gives out go through stdlib logging."""
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def make_formatter(*, on_terminal: bool) -> logging.Formatter:
    """Return what makes a line of a record, structlog's or a library's."""
    # Other tracebacks would show the values of variables, which may be secrets.
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
    """Let every line that this thread writes inside say these."""
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
    """Spell out what a terminal would act on; JSON has its own way to do that."""
    return {name: printable_lines(value) if isinstance(value, str) else value for name, value in event.items()}


def _hidden(value: object) -> object:
    match value:
        case str():
            return without_secrets(value)
        case list() | tuple():
            return [_hidden(one) for one in value]
        case dict():
            return {name: "***" if is_secret(str(name)) else _hidden(one) for name, one in value.items()}
    return value
