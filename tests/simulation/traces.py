"""The log of the daemons as part of a simulation's trace."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def trace_of_logs(show: Callable[[str], None] | None) -> Iterator[None]:
    """Pass each line of the log to ``show`` during the block; without it nothing is logged, which is faster."""

    def pass_on(_logger: object, level: str, fields: dict[str, Any]) -> str:
        if show is None:
            raise structlog.DropEvent
        event = fields.pop("event")
        shown = " ".join(
            f"{name}={value}" for name, value in sorted(fields.items()) if name not in {"exc_info", "host"}
        )
        show(f"{level}: {event} {shown}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, pass_on],
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL if show is None else logging.INFO),
        cache_logger_on_first_use=False,
    )
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        structlog.configure(**before)
