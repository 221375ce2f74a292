"""A round of chaos: the faults and acts of a plan, then the end of all faults, and convergence."""

from __future__ import annotations

import heapq
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING

from chaos.plan import ACTS
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.sandbox.processes import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from chaos.checks import Checks
    from chaos.faults import Faults
    from chaos.observer import Observer
    from chaos.operators import Operators
    from chaos.plan import Planned
    from chaos.world import World

#: Seconds between two looks at the fleet.
_LOOK = 0.3

#: Seconds for the fleet to converge after the last fault.
PATIENCE = 180.0


class Round:
    """Plays plans in a world, one after the other."""

    def __init__(
        self, world: World, checks: Checks, observer: Observer, faults: Faults, operators: Operators
    ) -> None:
        self._world = world
        self._checks = checks
        self._observer = observer
        self._faults = faults
        self._operators = operators

    def play(self, plan: Sequence[Planned], seconds: float, seed: str) -> float:
        """Play a plan, and return the seconds of the fleet until it had converged; ends early with a finding."""
        with self._observer.following():
            with ThreadPoolExecutor(1) as people:
                acts = self._disturb(plan, seconds, lambda planned: people.submit(self._operators.act, planned))
            for act in acts:
                act.result()  # raises what an operator met unexpectedly
            return 0.0 if self._checks.findings else self._converge(Random(seed))

    def _disturb(
        self, plan: Sequence[Planned], seconds: float, act: Callable[[Planned], Future[None]]
    ) -> list[Future[None]]:
        """Bring the faults of a plan in time, and end them all."""
        begun, order, acts = time.monotonic(), itertools.count(), []
        due = [(planned.at, next(order), planned, True) for planned in plan]
        heapq.heapify(due)
        while due:
            now = time.monotonic() - begun
            is_over = now >= seconds or bool(self._checks.findings)
            while due and (is_over or due[0][0] <= now):
                _, _, planned, begins = heapq.heappop(due)
                if not begins:
                    self._world.trace.note(f"end of fault: {planned}")
                    self._faults.end(planned)
                elif is_over:
                    continue
                elif planned.kind in ACTS:
                    acts.append(act(planned))
                else:
                    self._world.trace.note(f"fault: {planned}")
                    self._faults.bring(planned)
                    heapq.heappush(due, (planned.at + planned.seconds, next(order), planned, False))
            self._watch()
            time.sleep(_LOOK)
        self._world.trace.note("all faults have ended")
        return acts

    def _watch(self) -> None:
        for name in self._world.sandbox.revive():
            self._world.trace.note(f"{name} ended and was started again")
            if name in self._world.hosts:
                self._observer.agent_restarted(name)
        self._observer.look_at_hosts()

    def _converge(self, chance: Random) -> float:
        begun, deadline = time.monotonic(), Deadline(PATIENCE)
        self._operators.settle(chance)
        obstacle: str | None = "nothing was read"
        while not self._checks.findings:
            self._watch()
            try:
                obstacle = self._operators.obstacle()
                if obstacle is None:
                    self._observer.read_cluster()
                    self._checks.check_end()
                    self._observer.check_publication()
                    break
                self._operators.repair()
            except ZkdeploymentError as error:
                obstacle = str(error)
            if deadline.passed:
                self._checks.findings.append(f"the fleet did not converge within {deadline}: {obstacle}")
            time.sleep(_LOOK)
        return time.monotonic() - begun
