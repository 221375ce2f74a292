"""The rollouts that wait for the first run of their plugins: a check is rolled out when its plugin has run.

Nothing here has to survive the bridge: the service lists rollouts without an answer again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zkdeployment.nagios.first_run import first_run_problem, forced_check_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from zkdeployment.adapters.nagios.program import LocalNagios
    from zkdeployment.nagios.batch import ObjectChange
    from zkdeployment.nagios.status_file import NagiosResult
    from zkdeployment.ports.process import Clock

#: Seconds until Nagios is asked again to run a plugin at once, and how many it is asked for at a time.
_PATIENCE = 30.0
_AT_ONCE = 100


class FirstRuns:
    """Rollouts by instance; ``nagios`` is asked to run their plugins at once."""

    def __init__(self, nagios: LocalNagios, clock: Clock) -> None:
        self._nagios = nagios
        self._clock = clock
        self._waiting: dict[str, ObjectChange] = {}
        self._requested: dict[str, float] = {}

    @property
    def waiting(self) -> AbstractSet[str]:
        """The instances whose plugins have not run yet."""
        return self._waiting.keys()

    def replace(self, instances: Iterable[str], rollouts: Mapping[str, ObjectChange]) -> None:
        """Drop instances, and wait for the first runs of rollouts, by instance."""
        for instance in instances:
            self._waiting.pop(instance, None)
            self._requested.pop(instance, None)
        self._waiting |= rollouts

    def take(
        self, results: Mapping[str, NagiosResult]
    ) -> tuple[list[ObjectChange], list[tuple[ObjectChange, str]]]:
        """Return the rollouts whose plugins ran, and those whose plugins could not, with the reasons; drop both.

        ``results`` are those of the present definitions, by instance.
        """
        succeeded: list[ObjectChange] = []
        failed: list[tuple[ObjectChange, str]] = []
        for instance in [*self._waiting.keys() & results.keys()]:
            change = self._waiting.pop(instance)
            self._requested.pop(instance, None)
            problem = None if change.check is None else first_run_problem(change.check, results[instance])
            if problem is None:
                succeeded.append(change)
            else:
                failed.append((change, problem))
        return succeeded, failed

    def request(self) -> None:
        """Ask Nagios to run plugins that have not run yet; raises ``NagiosError``."""
        now = self._clock.monotonic()
        due = [
            instance
            for instance in sorted(self._waiting)
            if now - self._requested.get(instance, -math.inf) >= _PATIENCE
        ][:_AT_ONCE]
        checks = [change.check for instance in due if (change := self._waiting[instance]).check is not None]
        if checks:
            self._nagios.submit(forced_check_command(check, self._clock.now()) for check in checks)
            self._requested |= dict.fromkeys(due, now)
