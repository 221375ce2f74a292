"""Logging: structlog over stdlib logging, so that libraries' records take the same path.

On a terminal lines are for people; otherwise each is one JSON object. Event names are constants.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog


def configure(*, verbose: bool = False, quiet: bool = False, stream: TextIO | None = None) -> None:
    """Send everything to ``stream`` (default: standard error).

    With ``quiet``, as for commands that answer at once, only what was not expected: the rest they say themselves.
    """
    target = stream or sys.stderr
    on_terminal = target.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if on_terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    for library in ("kazoo", "git"):
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
