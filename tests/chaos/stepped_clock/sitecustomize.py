"""Steps the clock of a daemon of a chaos run: Python imports this module first when it is on ``PYTHONPATH``.

The offset in seconds is in the file ``clock-offset`` of the directory in which the daemon was started, and may
change at any moment. As with a real step, monotonic time does not change.
"""

import time
from pathlib import Path

_OFFSET = Path.cwd() / "clock-offset"
_machine_time = time.time


def _stepped_time() -> float:
    try:
        return _machine_time() + float(_OFFSET.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _machine_time()


time.time = _stepped_time
