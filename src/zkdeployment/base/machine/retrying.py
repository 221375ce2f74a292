"""Calls to external systems that are repeated after short failures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from zkdeployment.base.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")


def retry(
    act: Callable[[], T], *, attempts: int, gap: float, kind: type[ZkdeploymentError] = ZkdeploymentError
) -> T:
    """Return the result of ``act``, called again after errors of this kind with ``retry_helps``.

    There are at most ``attempts`` calls, with ``gap`` seconds in between. Raises the error of the last call.
    """
    for _ in range(attempts - 1):
        try:
            return act()
        except kind as error:
            if not error.retry_helps:
                raise
        time.sleep(gap)
    return act()
