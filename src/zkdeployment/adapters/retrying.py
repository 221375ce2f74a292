"""Retries of calls that may have failed only because something was out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import tenacity

from zkdeployment.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def persist(
    act: Callable[[], T], *, attempts: int, gap: float, kind: type[ZkdeploymentError] = ZkdeploymentError
) -> T:
    """Return the result of ``act``, retried every ``gap`` seconds after errors of this kind that a retry may help.

    After ``attempts`` calls the last error is raised.
    """
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts),
        wait=tenacity.wait_fixed(gap),
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, kind) and error.retry_helps),
        reraise=True,
    )
    return retrying(act)
