"""The loop of a daemon: runs cycles, waits for changes between them, and serves the watchdog."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.systemd import SystemdNotifier
    from zkdeployment.daemons.control import Control
    from zkdeployment.ports.process import Clock


def run_cycles(
    run_cycle: Callable[[], float],
    control: Control,
    clock: Clock,
    notifier: SystemdNotifier,
    *,
    least: Callable[[], float],
) -> None:
    """Run cycles until the daemon is asked to end.

    ``run_cycle`` returns the seconds until the next cycle, which a change may shorten. ``least`` is called after
    each cycle and returns the least seconds between the starts of two cycles.
    """
    while not control.stopping:
        begun = clock.monotonic()
        pause = run_cycle()
        notifier.watchdog()
        control.wait(min(pause, notifier.pace))
        earliest = begun + least()
        while (remaining := earliest - clock.monotonic()) > 0 and not control.stopping:
            control.wait(min(remaining, notifier.pace))
            notifier.watchdog()
