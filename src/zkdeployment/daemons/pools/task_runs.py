"""The work outside ZooKeeper for a task on nodes, and the changes that follow from it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.errors import ProgramError, error_message
from zkdeployment.log import get_logger
from zkdeployment.pools.node import NodeState
from zkdeployment.pools.playbook_results import MechanismOutcome
from zkdeployment.pools.results import all_failed, fail_with_keys, finished, session_begun, session_undone
from zkdeployment.pools.work import TaskKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.documents.pools.values import Mechanism, NodePool
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.snapshot import PoolChange, PoolSnapshot
    from zkdeployment.pools.work import NodeTask
    from zkdeployment.ports.pools import PoolMechanism
    from zkdeployment.ports.process import Clock

#: The change that follows from a task, given what is stored when it is written.
Conclusion: TypeAlias = "Callable[[PoolSnapshot], PoolChange]"


class TaskRuns:
    """Runs tasks by the mechanisms of their pools; the methods may be called from any thread."""

    def __init__(self, mechanisms: Mapping[type[Mechanism], PoolMechanism], clock: Clock) -> None:
        self._mechanisms = mechanisms
        self._clock = clock

    def run(self, task: NodeTask) -> Conclusion:
        """Do what a task asks for and return what follows; raises ``ProgramError`` if all of it failed."""
        match task.kind:
            case TaskKind.CONTEXTUALIZE:
                return self._contextualize(task)
            case TaskKind.REVOKE:
                return self._conclude(task, self._without_keys(task, task.nodes))
            case TaskKind.DEPROVISION:
                return self._deprovision(task)
            case TaskKind.PROVISION:
                outcome = self.mechanism(task.pool).provision(task.pool, task.nodes)
                return self._conclude(task, outcome)

    def failure(self, task: NodeTask, reason: str) -> Conclusion:
        """Return what follows from a task that failed for all its nodes."""
        log = get_logger().bind(nodes=sorted(task.ids), reason=reason)
        if task.kind is TaskKind.CONTEXTUALIZE:
            log.error("session-undone", session=task.session)
            failures = dict.fromkeys(task.ids, reason)
            return lambda read: session_undone(task, failures, read, self._clock.now())
        return self._conclude(task, all_failed(task, reason, self._clock.now()))

    def mechanism(self, pool: NodePool) -> PoolMechanism:
        """Return the mechanism of a pool."""
        return self._mechanisms[type(pool.mechanism)]

    def _conclude(self, task: NodeTask, outcome: MechanismOutcome) -> Conclusion:
        log = get_logger().bind(pool=task.pool.name, task=task.kind.name.lower())
        for problem in outcome.problems:
            log.error("nodes-failed", reason=problem)
        states = {node.id: node.state.value for node in outcome.nodes}
        log.info("nodes-finished", states=states, deleted=list(outcome.deleted))
        return lambda read: finished(task, outcome, read, self._clock.now())

    def _contextualize(self, task: NodeTask) -> Conclusion:
        """Write the keys of a session on all nodes; if one node fails, remove them from the others."""
        log = get_logger().bind(session=task.session, nodes=sorted(task.ids))
        failures, added = dict[int, str](), dict[int, tuple[str, ...]]()
        if not task.keys:
            log.error("session-undone", reason="the tenant has no SSH key")
        else:

            def write(node: PoolNode) -> None:
                added[node.id] = self._of(task, node).write_keys(node, task.keys)

            refused = in_parallel(task.nodes, write)
            failures = {number: f"contextualizing node failed: {reason}" for number, reason in refused.items()}
            if not failures:
                log.info("session-begun")
                return lambda read: session_begun(task, read, self._clock.now(), added)
            good = [replace(node, keys=added[node.id]) for node in task.nodes if node.id not in failures]
            left = in_parallel(good, lambda node: self._of(task, node).remove_keys(node))
            failures |= {
                number: f"decontextualizing node failed: the tenant's key cannot be removed: {reason}"
                for number, reason in left.items()
            }
            log.error("session-undone", failures=failures)
        return lambda read: session_undone(task, failures, read, self._clock.now())

    def _deprovision(self, task: NodeTask) -> Conclusion:
        """Remove the keys of tenants that are still on nodes, then deprovision the nodes."""
        clean = self._without_keys(task, [node for node in task.nodes if node.has_key])
        failed = [node for node in clean.nodes if node.state is NodeState.FAILED]
        rest = [node for node in task.nodes if node.id not in {node.id for node in failed}]
        none = MechanismOutcome((), (), ())
        outcome = self.mechanism(task.pool).deprovision(task.pool, rest) if rest else none
        together = MechanismOutcome(
            (*outcome.nodes, *failed), outcome.deleted, (*outcome.problems, *clean.problems)
        )
        return self._conclude(task, together)

    def _without_keys(self, task: NodeTask, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Remove the keys of tenants from nodes; return the nodes, of which some may have failed."""
        left = in_parallel(nodes, self.mechanism(task.pool).remove_keys)
        for number, reason in left.items():
            get_logger().warning("key-not-removed", node=number, reason=reason)
        failed = fail_with_keys(task, left, self._clock.now())
        numbers = {node.id for node in failed.nodes}
        clean = (replace(node, revoked=True) for node in nodes if node.id not in numbers)
        return replace(failed, nodes=(*clean, *failed.nodes))

    def _of(self, task: NodeTask, node: PoolNode) -> PoolMechanism:
        """Return the mechanism of the pool of one node of a session."""
        pool = task.pools.get(node.id)
        if pool is None:
            raise ProgramError(f"the pool {node.pool} is unknown")
        return self.mechanism(pool)


def in_parallel(nodes: Sequence[PoolNode], act: Callable[[PoolNode], None]) -> dict[int, str]:
    """Act on all nodes at once; return the reasons of those for which that failed, by id."""
    failures: dict[int, str] = {}

    def attempt(node: PoolNode) -> None:
        try:
            act(node)
        except ProgramError as error:
            failures[node.id] = error_message(error)
        except Exception as error:  # noqa: BLE001  a defect must not pass for success
            failures[node.id] = repr(error)
            get_logger().error("pool-task-defect", node=node.id, exc_info=error)

    threads = [threading.Thread(target=attempt, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures
