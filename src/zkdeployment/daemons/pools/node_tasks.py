"""The tasks on nodes that a worker runs, each in a thread and under claims."""

from __future__ import annotations

import contextvars
import threading
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.daemons.failpoints import failpoints
from zkdeployment.documents.pools.values import AnsibleMechanism, RoleMechanism
from zkdeployment.errors import AbandonedError, ConflictError, TreeError, ZkdeploymentError, error_message
from zkdeployment.log import get_logger
from zkdeployment.pools.results import given_up
from zkdeployment.pools.snapshot import PoolChange
from zkdeployment.pools.work import TaskKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.pools.store import ZooKeeperPools
    from zkdeployment.daemons.pools.task_runs import Conclusion, TaskRuns
    from zkdeployment.pools.snapshot import PoolSnapshot
    from zkdeployment.pools.work import NodeTask

#: Runs of playbooks at once: each is a process of Ansible with its own. Other workers take what is left. Some runs
#: are kept for deprovisioning, and a pool has a few of each kind: playbooks that hang stop no other pool.
_PLAYBOOKS = 12
_PROVISIONING = 8
_OF_POOL = 4

#: Tasks at once about hosts of the fleet, which follow their leases, and as many about the keys of tenants.
_TASKS = 100

#: Seconds between two attempts to write a result: when that failed, and when another process was faster.
_AGAIN = 1.0
_OVERTAKEN = 0.2


class _Lane(Enum):
    """Tasks that share a limit; tasks of other lanes do not wait for them."""

    PLAYBOOKS = "playbooks"
    ROLES = "roles"
    KEYS = "keys"


class NodeTasks:
    """Runs tasks; ``start`` and ``resume`` belong to one thread.

    ``wake`` is called when a task has ended. ``is_stopped`` returns whether the process is to end.
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
        """Whether all tasks are to end as soon as possible, without a result."""
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
        """Make all tasks end without a result: their claims may be lost."""
        self._abandoned.set()

    def resume(self) -> bool:
        """Permit tasks again when all those that were abandoned have ended; return whether tasks may begin."""
        if self._abandoned.is_set() and not self.busy:
            self._abandoned.clear()
        return not self._abandoned.is_set()

    def join(self, timeout: float) -> bool:
        """Wait until all tasks have ended, up to ``timeout`` seconds; return whether they have."""
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
        """Run a task and return what follows, also if it fails."""
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
        """Write what follows from a task, until it is written or the claims are lost."""
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
