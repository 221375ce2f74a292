"""Handles signals: they end a command with its cleanup, and control daemons."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from zkdeployment.base.daemon.control import Control


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C inside the block, unless they are ignored, as by ``nohup``."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN
    ]
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def obey_signals(control: Control, *, hangup: Callable[[], None] | None = None) -> None:
    """Let SIGTERM and SIGINT stop a daemon; let SIGHUP call ``hangup``, which by default starts its next cycle."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: control.stop())
    signal.signal(signal.SIGHUP, lambda *_: (hangup or control.wake)())
