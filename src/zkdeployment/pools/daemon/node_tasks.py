"""Runs the tasks of a worker on nodes, each in a thread and under claims, and writes their results."""

from __future__ import annotations

import contextvars
import threading
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.errors import (
    AbandonedError,
    ConflictError,
    ProgramError,
    TreeError,
    ZkdeploymentError,
    error_message,
)
from zkdeployment.base.log import get_logger
from zkdeployment.pools.documents import AnsibleMechanism, RoleMechanism
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.results import (
    MechanismOutcome,
    all_failed,
    fail_with_keys,
    finished,
    given_up,
    session_begun,
    session_undone,
)
from zkdeployment.pools.rules.snapshot import PoolChange
from zkdeployment.pools.rules.work import TaskKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.pools.documents import Mechanism, NodePool
    from zkdeployment.pools.ports import PoolMechanism
    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.snapshot import PoolSnapshot
    from zkdeployment.pools.rules.work import NodeTask
    from zkdeployment.pools.store.store import ZooKeeperPools


#: Returns the change that follows from a task, for the records at the time of the write.
Conclusion: TypeAlias = "Callable[[PoolSnapshot], PoolChange]"


class TaskRuns:
    """Runs tasks by the mechanisms of their pools; the methods may be called from any thread."""

    def __init__(self, mechanisms: Mapping[type[Mechanism], PoolMechanism], clock: Clock) -> None:
        self._mechanisms = mechanisms
        self._clock = clock

    def run(self, task: NodeTask) -> Conclusion:
        """Carry out a task and return its conclusion; raises ``ProgramError`` if the whole task failed."""
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
        """Return the conclusion of a task that failed for all its nodes."""
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
        """Remove the keys of tenants from nodes; return the nodes, some of which may have failed."""
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
    """Call ``act`` for all nodes at the same time; return the reasons of failures, by the ids of the nodes."""
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


#: Parallel runs of playbooks, each with processes of Ansible. Other workers take further tasks. Some runs are
#: kept for deprovisioning, and a pool has a few of each kind: playbooks that hang stop no other pool.
_PLAYBOOKS = 12
_PROVISIONING = 8
_OF_POOL = 4

#: Parallel tasks for hosts of the fleet, which follow their leases; and the same number for keys of tenants.
_TASKS = 100

#: Seconds between two attempts to write a result: after a failure, and after a concurrent change.
_AGAIN = 1.0
_OVERTAKEN = 0.2


class _Lane(Enum):
    """Tasks that share a limit; tasks of other lanes do not wait for them."""

    PLAYBOOKS = "playbooks"
    ROLES = "roles"
    KEYS = "keys"


class NodeTasks:
    """Runs tasks; ``start`` and ``resume`` belong to one thread.

    ``wake`` is called when a task has ended. ``is_stopped`` returns whether the process has to end.
    """

    def __init__(
        self, store: ZooKeeperPools, runs: TaskRuns, *, wake: Callable[[], None], is_stopped: Callable[[], bool]
    ) -> None:
        self._store = store
        self._runs = runs
        self._wake = wake
        self._is_stopped = is_stopped
        self._running: dict[frozenset[int], NodeTask] = {}
        self._ended = threading.Condition()
        self._abandoned = threading.Event()

    @property
    def busy(self) -> frozenset[int]:
        """The ids of the nodes that this process works on."""
        with self._ended:
            return frozenset[int]().union(*(task.ids for task in self._running.values()))

    @property
    def must_end(self) -> bool:
        """Whether all tasks have to end as soon as possible, without a result."""
        return self._abandoned.is_set() or self._is_stopped()

    def has_room(self, task: NodeTask) -> bool:
        """Whether another task may begin."""
        lane = _lane(task)
        with self._ended:
            alike = [other for other in self._running.values() if _lane(other) is lane]
        if lane is not _Lane.PLAYBOOKS:
            return len(alike) < _TASKS
        same = [other for other in alike if other.kind is task.kind]
        most = _PROVISIONING if task.kind is TaskKind.PROVISION else _PLAYBOOKS
        of_pool = sum(other.pool.name == task.pool.name for other in same)
        return len(alike) < _PLAYBOOKS and len(same) < most and of_pool < _OF_POOL

    def start(self, task: NodeTask, read: PoolSnapshot) -> None:
        """Claim the nodes of a task and begin it; raises ``ConflictError`` if another worker was faster."""
        with failpoints(f"claim-to-{task.kind.name.lower()}"):
            begun = tuple(replace(node, begun=True) for node in task.nodes if task.kind is TaskKind.PROVISION)
            self._store.commit(PoolChange(nodes=begun, claimed=task.ids), read)
        with self._ended:
            self._running[task.ids] = task
        get_logger().info("pool-task-started", task=task.kind.name.lower(), nodes=sorted(task.ids))
        run = partial(contextvars.copy_context().run, self._run, task)
        threading.Thread(target=run, name=f"pools-{task.kind.name.lower()}", daemon=True).start()

    def abandon(self) -> None:
        """End all tasks without a result, because their claims may be lost."""
        self._abandoned.set()

    def resume(self) -> bool:
        """Permit tasks again when all abandoned tasks have ended; return whether tasks may begin."""
        if self._abandoned.is_set() and not self.busy:
            self._abandoned.clear()
        return not self._abandoned.is_set()

    def join(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until all tasks have ended; return whether they have ended."""
        with self._ended:
            return self._ended.wait_for(lambda: not self._running, timeout)

    def _run(self, task: NodeTask) -> None:
        try:
            conclusion = self._attempt(task)
            if self.must_end:
                conclusion = partial(given_up, task)
            self._record(task, conclusion)
        except Exception as error:  # noqa: BLE001  the worker finds the claims without a task and begins again
            get_logger().error("pool-task-defect", nodes=sorted(task.ids), exc_info=error)
        finally:
            with self._ended:
                del self._running[task.ids]
                self._ended.notify_all()
            self._wake()

    def _attempt(self, task: NodeTask) -> Conclusion:
        """Run a task and return its conclusion, also after a failure."""
        try:
            return self._runs.run(task)
        except AbandonedError as error:
            get_logger().warning("pool-task-abandoned", nodes=sorted(task.ids), reason=error_message(error))
            return partial(given_up, task)
        except ZkdeploymentError as error:
            return partial(given_up, task) if self.must_end else self._runs.failure(task, error_message(error))
        except Exception as error:  # noqa: BLE001  a defect of the program must not make a task run for ever
            get_logger().error("pool-task-defect", nodes=sorted(task.ids), exc_info=error)
            return self._runs.failure(task, repr(error))

    def _record(self, task: NodeTask, conclusion: Conclusion) -> None:
        """Write the conclusion of a task, repeatedly until it is written or the claims are lost."""
        while True:
            try:
                read = self._store.read()
                change = conclusion(read)
                if change != PoolChange():
                    with failpoints(f"end-to-{task.kind.name.lower()}"):
                        self._store.commit(change, read)
            except ConflictError:
                if self.must_end or self._abandoned.wait(_OVERTAKEN):
                    return
            except ZkdeploymentError as error:
                get_logger().warning("pool-result-delayed", nodes=sorted(task.ids), reason=error_message(error))
                if isinstance(error, TreeError):  # the result is too large
                    conclusion = self._runs.failure(task, error_message(error))
                if self.must_end or self._abandoned.wait(_AGAIN):
                    return
            else:
                return


def _lane(task: NodeTask) -> _Lane:
    if task.kind in {TaskKind.CONTEXTUALIZE, TaskKind.REVOKE}:
        return _Lane.KEYS
    mechanism = task.pool.mechanism
    resets = isinstance(mechanism, RoleMechanism) and mechanism.reset is not None
    runs_playbook = isinstance(mechanism, AnsibleMechanism) or (resets and task.kind is TaskKind.DEPROVISION)
    return _Lane.PLAYBOOKS if runs_playbook else _Lane.ROLES
