"""Calls to external systems that are repeated after short failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tenacity

from zkdeployment.base.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")


def retry(
    act: Callable[[], T], *, attempts: int, gap: float, kind: type[ZkdeploymentError] = ZkdeploymentError
) -> T:
    """Return the result of ``act``, called again after errors of this kind with ``retry_helps``.

    There are at most ``attempts`` calls, with ``gap`` seconds in between. Raises the error of the last call.
    """
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts),
        wait=tenacity.wait_fixed(gap),
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, kind) and error.retry_helps),
        reraise=True,
    )
    return retrying(act)
