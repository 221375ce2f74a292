"""Named places at which a test makes the agent or the syncer crash; they do nothing unless armed.

``ZKDEPLOYMENT_FAILPOINTS=before:deploy@2=kill,after:marker=freeze`` kills this process (SIGKILL) when it comes to
``before:deploy`` for the second time, and stops it (SIGSTOP) at the first ``after:marker``. Only where the root is
a scratch directory is anything ever armed, so that a variable left behind harms no real host.
"""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "ZKDEPLOYMENT_FAILPOINTS"

_SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
_POINT = re.compile(r"(?P<name>[a-z:-]+)(@(?P<count>[1-9][0-9]*))?=(?P<action>kill|freeze)")
_armed: dict[str, tuple[int, signal.Signals]] = {}


def arm(environment: Mapping[str, str]) -> None:
    """Read the variable; raises ``ConfigurationError`` if it makes no sense."""
    _armed.clear()
    for word in filter(None, environment.get(VARIABLE, "").split(",")):
        match = _POINT.fullmatch(word)
        if match is None:
            raise ConfigurationError(f"{VARIABLE}: expected NAME[@COUNT]=kill or =freeze, found {word!a}")
        _armed[match["name"]] = int(match["count"] or 1), _SIGNALS[match["action"]]


def reach(name: str) -> None:
    """Come to a named place."""
    if name in _armed:
        count, number = _armed.pop(name)
        if count > 1:
            _armed[name] = count - 1, number
        else:
            os.kill(os.getpid(), number)
