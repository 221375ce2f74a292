"""Named points at which a test makes a daemon crash or freeze; they do nothing unless armed.

``ZKDEPLOYMENT_FAILPOINTS=before:deploy@2=kill,after:marker=freeze`` kills this process (SIGKILL) when it reaches
``before:deploy`` for the second time, and stops it (SIGSTOP) at the first ``after:marker``. Failpoints are armed
only if the root is a scratch directory, so a forgotten variable harms no real host.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIABLE = "ZKDEPLOYMENT_FAILPOINTS"

_SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
_POINT = re.compile(r"(?P<name>[a-z:-]+)(@(?P<count>[1-9][0-9]*))?=(?P<action>kill|freeze)")
_armed: dict[str, tuple[int, signal.Signals]] = {}


def arm(environment: Mapping[str, str]) -> None:
    """Arm the failpoints named in ``environment``; raises ``ConfigurationError`` if the variable is malformed."""
    _armed.clear()
    for point in filter(None, environment.get(VARIABLE, "").split(",")):
        match = _POINT.fullmatch(point)
        if match is None:
            raise ConfigurationError(f"{VARIABLE}: expected NAME[@COUNT]=kill or =freeze, found {point!a}")
        _armed[match["name"]] = int(match["count"] or 1), _SIGNALS[match["action"]]


@contextlib.contextmanager
def failpoints(action: str) -> Iterator[None]:
    """Surround an action with the failpoints ``before:ACTION`` and, if the action succeeds, ``after:ACTION``."""
    reach(f"before:{action}")
    yield
    reach(f"after:{action}")


def reach(name: str) -> None:
    """Reach the failpoint ``name``: kill or freeze this process if that failpoint is armed for this time."""
    if name in _armed:
        count, number = _armed.pop(name)
        if count > 1:
            _armed[name] = count - 1, number
        else:
            os.kill(os.getpid(), number)
