"""The worker of host pools: reads everything, writes due changes, probes nodes, and runs tasks in threads."""

from __future__ import annotations

import contextvars
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.daemon.cycles import Backoff, CycleFailures, FailureKind, run_cycles
from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.errors import (
    AbandonedError,
    ConflictError,
    ProgramError,
    RestartError,
    TreeError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
)
from zkdeployment.base.log import get_logger
from zkdeployment.pools.documents import AnsibleMechanism, Mechanism, NodePool, RoleMechanism
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.results import (
    MechanismOutcome,
    all_failed,
    fail_with_keys,
    finished,
    given_up,
    session_begun,
    session_undone,
)
from zkdeployment.pools.rules.snapshot import PoolChange, PoolSnapshot
from zkdeployment.pools.rules.work import (
    NodeTask,
    PoolFacts,
    TaskKind,
    WorkStep,
    at_time,
    next_due,
    next_steps,
    next_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.base.daemon.connection_status import ConnectionStatus
    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.pools.opening import PoolMechanism
    from zkdeployment.pools.store.sources import ZooKeeperPoolSources
    from zkdeployment.pools.store.store import ZooKeeperPools

#: Returns the change that follows from a task, for the records at the time of the write.
Conclusion: TypeAlias = "Callable[[PoolSnapshot], PoolChange]"


class TaskRuns:
    """Runs tasks by the mechanisms of their pools; the methods may be called from any thread.

    ``must_end`` returns whether another worker may continue with the tasks.
    """

    def __init__(
        self, mechanisms: Mapping[type[Mechanism], PoolMechanism], clock: Clock, must_end: Callable[[], bool]
    ) -> None:
        self._mechanisms = mechanisms
        self._clock = clock
        self._must_end = must_end

    def run(self, task: NodeTask) -> Conclusion:
        """Carry out a task and return its conclusion.

        Raises ``ProgramError`` if the whole task failed, among them ``AbandonedError`` if it must end.
        """
        match task.kind:
            case TaskKind.CONTEXTUALIZE:
                return self._contextualize(task)
            case TaskKind.REVOKE:
                return self._conclude(task, self._without_keys(task))
            case TaskKind.DEPROVISION:
                return self._conclude(task, self.mechanism(task.pool).deprovision(task.pool, task.nodes))
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
        log = get_logger().bind(pool=task.nodes[0].pool, task=task.kind.name.lower())
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
            if self._must_end():  # the keys may already be those that another worker wrote
                raise AbandonedError("another worker may continue with the session")
            good = [replace(node, keys=added[node.id]) for node in task.nodes if node.id not in failures]
            left = in_parallel(good, lambda node: self._making(node).remove_keys(node))
            failures |= {
                number: f"decontextualizing node failed: the tenant's key cannot be removed: {reason}"
                for number, reason in left.items()
            }
            log.error("session-undone", failures=failures)
        return lambda read: session_undone(task, failures, read, self._clock.now())

    def _without_keys(self, task: NodeTask) -> MechanismOutcome:
        """Remove the keys of tenants from nodes; return the nodes, some of which may have failed."""
        left = in_parallel(task.nodes, lambda node: self._making(node).remove_keys(node))
        for number, reason in left.items():
            get_logger().warning("key-not-removed", node=number, reason=reason)
        failed = fail_with_keys(task, left, self._clock.now())
        numbers = {node.id for node in failed.nodes}
        clean = (replace(node, revoked=True) for node in task.nodes if node.id not in numbers)
        return replace(failed, nodes=(*clean, *failed.nodes))

    def _making(self, node: PoolNode) -> PoolMechanism:
        """Return the mechanism that made a node, also if its pool is not known any more."""
        return self._mechanisms[AnsibleMechanism if node.host is None else RoleMechanism]

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
            begins = task.kind in {TaskKind.PROVISION, TaskKind.CONTEXTUALIZE}
            begun = tuple(replace(node, begun=True) for node in task.nodes if begins)
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


#: The most parallel probes.
_TOGETHER = 16


class NodeProbes:
    """Probes all ready nodes once for each call of ``begin``; calls ``wake`` when all results are known."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._results: dict[int, str] = {}
        self._is_running = False

    def begin(self, probes: Mapping[int, Callable[[], None]]) -> None:
        """Begin probes, given by the ids of their nodes, unless earlier probes are still running."""
        with self._lock:
            if self._is_running or not probes:
                return
            self._is_running = True
        threading.Thread(target=self._run, args=(probes,), name="pools-probes", daemon=True).start()

    def take(self) -> Mapping[int, str]:
        """Return the new results by node: the reason of a failure, or an empty text.

        Each result is returned once.
        """
        with self._lock:
            results, self._results = self._results, {}
            return results

    def _run(self, probes: Mapping[int, Callable[[], None]]) -> None:
        try:
            with ThreadPoolExecutor(_TOGETHER) as pool:
                found = dict(zip(probes, pool.map(_result, probes.values()), strict=True))
        finally:
            with self._lock:
                self._is_running = False
        with self._lock:
            self._results = {number: reason for number, reason in found.items() if reason is not None}
        self._wake()


def _result(probe: Callable[[], None]) -> str | None:
    """Return the reason why a node did not answer, or an empty text if it did; ``None`` if that is not known."""
    try:
        probe()
    except AbandonedError:
        return None
    except ProgramError as error:
        return error_message(error)
    except ZkdeploymentError:
        return None
    except Exception as error:  # noqa: BLE001  a defect of the program does not concern the node
        get_logger().error("pool-probe-defect", exc_info=error)
        return None
    return ""


#: Seconds from the beginning of a cycle to the next one, for any number of changes.
_LEAST_SECONDS = 0.05

#: Parts of a session's timeout: without a connection until tasks are abandoned; between two requests for a sign
#: of life; and the part without an answer after which tasks are abandoned. The rest is for them to end.
_PATIENCE = 1 / 6
_SILENCE = 2 / 3

#: Seconds between two checks of the connection.
_GUARD = 0.25

#: Seconds between two removals of old records, and the age at which records are removed.
_PRUNING = 86400.0
_KEPT = 366 * 86400.0

#: The longest pause after failures, in seconds.
_LONGEST_PAUSE = 60.0


#: The failures after which a worker continues.
FAILURE_KINDS = (
    FailureKind(UnreachableError, "zookeeper-unreachable", logging.ERROR),
    FailureKind(Exception, "pools-cycle-failed", logging.ERROR),
)


class PoolWorker:
    """Runs a cycle at the start, every ``interval`` seconds, and whenever something has changed.

    ``name`` is unique among all processes. ``connection`` returns the state of the connection to ZooKeeper.
    ``pulse`` asks ZooKeeper for a sign of life. Without one for ``session_timeout`` seconds the claims of this
    worker count as lost. ``renew_leases`` is called before tasks begin. ``record_failure``: see ``CycleFailures``.
    """

    def __init__(  # noqa: PLR0913  the parts and adapters that it depends on
        self,
        store: ZooKeeperPools,
        sources: ZooKeeperPoolSources,
        runs: TaskRuns,
        tasks: NodeTasks,
        control: Control,
        *,
        name: str,
        connect: Callable[[], None],
        connection: Callable[[], ConnectionStatus],
        pulse: Callable[[], object],
        session_timeout: float,
        interval: float,
        clock: Clock,
        notifier: SystemdNotifier,
        renew_leases: Callable[[PoolFacts], None] = lambda _facts: None,
        record_failure: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._store, self._sources = store, sources
        self._runs, self._tasks, self._control = runs, tasks, control
        self._name = name
        self._connect, self._connection = connect, connection
        self._pulse, self._heard_at = pulse, 0.0
        self._session_timeout, self._interval = session_timeout, interval
        self._clock, self._notifier = clock, notifier
        self._renew_leases = renew_leases
        self._backoff = Backoff(first=1.0, most=_LONGEST_PAUSE)
        self._failures = CycleFailures(FAILURE_KINDS, notifier.status, record_failure)
        self._sessions = 0
        self._lost_at: float | None = None
        self._ended = threading.Event()
        self._pruned_at: float | None = None
        self._is_failing = False
        self._problems: dict[str, str] = {}
        self._probes, self._probed_at = NodeProbes(control.wake), clock.monotonic()

    def run(self) -> None:
        """Run cycles until asked to end; raises ``RestartError`` if the connection cannot be restored."""
        self._notifier.ready()
        get_logger().info("pools-worker-started", worker=self._name)
        self._heard_at = self._clock.monotonic()
        for guard in (self._listen, self._guard_claims):
            threading.Thread(target=guard, name="pools-claims", daemon=True).start()
        try:
            run_cycles(
                self.run_cycle,
                self._control,
                self._clock,
                self._notifier,
                least=lambda: max(_LEAST_SECONDS, self._backoff.seconds),
            )
        finally:
            self._notifier.stopping()
            is_over = self._tasks.join(self._control.grace)
            self._ended.set()
            if not is_over:
                get_logger().warning("pool-tasks-left", nodes=sorted(self._tasks.busy))
            get_logger().info("pools-worker-ended", worker=self._name)

    def run_cycle(self) -> float:
        """Carry out all due work; return the seconds until the next cycle."""
        try:
            self._keep_claims()
            pause = self._work()
        except RestartError:
            raise
        except ConflictError:
            return _OVERTAKEN
        except Exception as error:  # noqa: BLE001  the next cycle tries again
            self._failures.report(error)
            self._is_failing = True
            return self._backoff.fail()
        self._backoff.reset()
        self._failures.end()
        if self._is_failing:
            get_logger().info("pools-recovered")
        self._is_failing = False
        return pause

    def _keep_claims(self) -> None:
        """Abandon all tasks if the session with ZooKeeper, and with it their claims, is or may be lost.

        A client learns of the expiry of its session only when it is connected again.
        """
        self._check_connection()
        self._connect()
        sessions = self._connection().sessions
        if sessions != self._sessions:
            self._sessions = sessions
            self._abandon()

    def _check_connection(self) -> None:
        """Abandon all tasks after a long time without a connection, because the session may end before they do."""
        now = self._clock.monotonic()
        if self._connection().connected:
            self._lost_at = None
        elif self._lost_at is None:
            self._lost_at = now
        elif now >= self._lost_at + self._session_time * _PATIENCE:
            self._abandon()

    def permitted(self) -> float:
        """Return the seconds for which the claims certainly hold; abandon all tasks if that time is over."""
        left = self._heard_at + self._session_time * _SILENCE - self._clock.monotonic()
        if left <= 0:
            self._abandon()
        return left

    @property
    def _session_time(self) -> float:
        """The seconds for which the session survives a silent client: the granted time, if less than requested."""
        granted = self._connection().granted
        return self._session_timeout if granted is None else min(self._session_timeout, granted)

    def _listen(self) -> None:
        """Ask ZooKeeper for a sign of life repeatedly, and note the time of the last request that was answered."""
        while not self._ended.wait(self._session_time * _PATIENCE):
            asked = self._clock.monotonic()
            with suppress(ZkdeploymentError):
                self._pulse()
                self._heard_at = asked

    def _guard_claims(self) -> None:
        """Abandon all tasks in time if ZooKeeper is silent, which a cycle may notice after the session's end."""
        while not self._ended.wait(_GUARD):
            self.permitted()

    def _abandon(self) -> None:
        if self._tasks.busy and not self._tasks.must_end:
            get_logger().error("pool-claims-lost", nodes=sorted(self._tasks.busy))
            self._tasks.abandon()

    def _work(self) -> float:
        may_begin = self._tasks.resume()
        self._sources.read()  # this read sets the watches, so it comes first
        self._store.announce(self._name)
        busy = self._tasks.busy
        facts = self._observe()
        self._release(facts.snapshot, busy)
        self._renew_leases(facts)
        impossible: list[str] = []
        is_overtaken = [not self._write(step, facts.snapshot, impossible) for step in next_steps(facts)]
        if may_begin:
            is_overtaken += [not begun for begun in self._begin(facts, busy, impossible)]
        self._probe(facts)
        self._report("pool-changes-impossible", "; ".join(impossible))
        self._prune()
        self._notifier.status(_activity(facts.snapshot, len(self._tasks.busy)))
        due = next_due(facts)
        until_due = self._interval if due is None else max(0.0, due - self._clock.now())
        return min(self._interval, until_due, _OVERTAKEN if any(is_overtaken) else self._interval)

    def _observe(self) -> PoolFacts:
        """Read everything: tenants after sessions, so that the tenant of each session is known and current."""
        read = self._store.read()
        sources, now = self._sources.read(), self._clock.now()
        sources = replace(sources, configuration=at_time(sources.configuration, now))
        reuse: dict[str, Mapping[str, int | str]] = {}
        for pool in sources.configuration.pools.values():
            problem = ""
            if pool.reuse is not None:
                try:
                    reuse[pool.name] = self._runs.mechanism(pool).reuse_values(pool) or {}
                except ZkdeploymentError as error:
                    problem = f"the pool {pool.name} cannot be filled: {error_message(error)}"
            self._report(f"pool-filling-failed:{pool.name}", problem)
        return PoolFacts(sources, read, now, reuse, self._probes.take())

    def _probe(self, facts: PoolFacts) -> None:
        """Probe all ready nodes once per interval; among several workers, the first one by name does so.

        Hosts in maintenance are not probed, because they may be switched off.
        """
        now, workers = self._clock.monotonic(), facts.snapshot.workers
        if now < self._probed_at + self._interval or self._name != min(workers, default=""):
            return
        self._probed_at = now
        away, nodes = facts.sources.maintenance, facts.snapshot.nodes.values()
        ready = (node for node in nodes if node.state is NodeState.READY and node.host not in away)
        pools = ((node, facts.pool_of(node)) for node in ready)
        self._probes.begin(
            {node.id: partial(self._runs.mechanism(pool).probe, node) for node, pool in pools if pool is not None}
        )

    def _release(self, read: PoolSnapshot, busy: frozenset[int]) -> None:
        """Release claims without a task, which a transaction with a lost answer may have left."""
        stray = read.own_claims - busy
        if stray:
            get_logger().warning("pool-claims-released", nodes=sorted(stray))
            self._store.commit(PoolChange(released=stray), read)

    def _write(self, step: WorkStep, read: PoolSnapshot, impossible: list[str]) -> bool:
        """Write a step; return false after a concurrent change, so that the next cycle decides again.

        A step that is too large for ZooKeeper does not block other steps; the reason is added to ``impossible``.
        """
        try:
            numbers = self._store.take_ids(len(step.new)) if step.new else ()
            new = tuple(replace(node, id=number) for node, number in zip(step.new, numbers, strict=True))
            with failpoints(step.event):
                self._store.commit(replace(step.change, nodes=(*step.change.nodes, *new)), read)
        except ConflictError:
            return False
        except TreeError as error:
            values = ", ".join(f"{name} {value}" for name, value in step.values.items())
            impossible.append(f"{step.event} ({values}): {error}")
            return True
        get_logger().info(step.event, **step.values)
        return True

    def _begin(self, facts: PoolFacts, busy: frozenset[int], impossible: list[str]) -> Iterator[bool]:
        """Begin the tasks for which there is room; yield for each whether this worker got its claims.

        A task that is too large for ZooKeeper does not block other tasks; the reason is added to ``impossible``.
        """
        for task in next_tasks(facts, busy):
            if not self._tasks.has_room(task) or self._control.stopping:
                continue
            try:
                self._tasks.start(task, facts.snapshot)
            except ConflictError:
                yield False
            except TreeError as error:
                what = f"pool-task-started ({task.kind.name.lower()}, {len(task.ids)} nodes from {min(task.ids)})"
                impossible.append(f"{what}: {error}")
            else:
                yield True

    def _prune(self) -> None:
        """Remove old records once a day."""
        now = self._clock.monotonic()
        if self._pruned_at is None or now >= self._pruned_at + _PRUNING:
            self._pruned_at = now
            removed = self._store.prune(self._clock.now() - _KEPT)
            if removed:
                get_logger().info("pool-records-pruned", records=removed)

    def _report(self, event: str, problem: str = "") -> None:
        """Log a problem when it begins, changes or ends."""
        if problem == self._problems.get(event, ""):
            return
        self._problems[event] = problem
        log = get_logger()
        if problem:
            log.error(event.partition(":")[0], reason=problem)
        else:
            log.info("pools-recovered", problem=event)


def _activity(read: PoolSnapshot, busy: int) -> str:
    return f"{len(read.nodes)} nodes, {len(read.sessions)} sessions; working on {busy} nodes"
