"""Tries again what may only have been out of reach."""

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
    """Return what ``act`` returns; where a retry helps with an error of this kind, try again in ``gap`` seconds.

    At most ``attempts`` times in all; then the last error is raised.
    """
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts),
        wait=tenacity.wait_fixed(gap),
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, kind) and error.retry_helps),
        reraise=True,
    )
    return retrying(act)
