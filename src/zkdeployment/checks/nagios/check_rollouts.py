"""Rolls out checks: from the service to files of Nagios, with an answer about each after its first run.

The state in memory may be lost: answers are sent after Nagios was reloaded and has run the plugin, and the service
lists rollouts without an answer again when a killed bridge restarts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.errors import NagiosError, ServiceError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.halving import find_acceptable
from zkdeployment.checks.nagios.batch import (
    BridgeBatch,
    CheckAnswer,
    ObjectChange,
    changed_checks,
    first_run_problem,
    forced_check_command,
    read_change,
    removal_refusal,
    request_parts,
    synchronizing_batch,
    update_batch,
)
from zkdeployment.checks.nagios.files import (
    NagiosObjectFile,
    NagiosPlace,
    NagiosResult,
    checks_in,
    object_files,
    verification_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.checks.nagios.check import NagiosCheck
    from zkdeployment.checks.nagios.program import LocalNagios, NagiosObjectDirectory
    from zkdeployment.checks.ports import MonitoringService


#: Seconds between two requests to Nagios to run a plugin at once, and the most plugins in one request.
_PATIENCE = 30.0
_AT_ONCE = 100

#: The most changes of a batch that Nagios rejects one by one; each of them costs some verifications.
_MOST_REJECTED = 10


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
        """Return and drop the rollouts whose plugins ran, and those whose plugins could not run, with the reasons.

        ``results`` are the results of the present definitions, by instance.
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


class CheckRollouts:
    """Brings the objects of ``nagios`` in ``place`` to the state that ``service`` wants.

    ``first_runs`` are the rollouts that wait for the first run of their plugins; without it, a rollout has
    succeeded when Nagios was reloaded. ``proceed`` is called before each verification; if it raises
    ``ShutdownError``, the files stay unchanged.
    """

    def __init__(
        self,
        service: MonitoringService,
        objects: NagiosObjectDirectory,
        nagios: LocalNagios,
        place: NagiosPlace,
        first_runs: FirstRuns | None = None,
        proceed: Callable[[], None] = lambda: None,
    ) -> None:
        self._service = service
        self._objects = objects
        self._nagios = nagios
        self._place = place
        self._first_runs = first_runs
        self._proceed = proceed
        self._names: frozenset[str] | None = None
        self._checks: Mapping[str, NagiosCheck] = {}
        self._written: Mapping[str, float] = {}

    @property
    def checks(self) -> Mapping[str, NagiosCheck]:
        """The checks in Nagios, by instance."""
        return self._checks

    @property
    def proven(self) -> Mapping[str, NagiosCheck]:
        """The checks in Nagios whose plugins have run since they were rolled out, or were rolled out before."""
        waiting = self.waiting
        return {instance: check for instance, check in self._checks.items() if instance not in waiting}

    @property
    def waiting(self) -> AbstractSet[str]:
        """The instances whose plugins have not run yet, and for which the service awaits an answer."""
        return frozenset() if self._first_runs is None else self._first_runs.waiting

    @property
    def written(self) -> Mapping[str, float]:
        """When the definition of each check was written, by instance, in seconds since the epoch."""
        return self._written

    @property
    def is_synchronized(self) -> bool:
        """Whether the last synchronization succeeded and the files have not changed since."""
        return self._names is not None and self._names == self._objects.names()

    def forget(self) -> None:
        """Require a synchronization, because a list or an answer was lost."""
        self._names = None

    def synchronize(self) -> None:
        """Compare all checks with the service: write missing checks, and remove unwanted ones.

        Nagios is reloaded even if no file changes, because the bridge may have been killed before a reload. Raises
        ``ServiceError`` and ``NagiosError``, after which another synchronization is necessary.
        """
        self.forget()
        # In this order, an instance that changes between the two requests is in both lists, never in neither.
        deployed = self._service.list_deployed()
        pending = self._service.list_pending()
        present = checks_in(self._objects.read())
        outdated = deployed.outdated({instance: check.config_id for instance, check in present.items()})
        missing = deployed.active.difference(present).union(outdated) - pending
        changes, failure = self._fetch(pending | missing, restored=missing)
        self._apply(synchronizing_batch(present, deployed, pending, changes))
        get_logger().info(
            "checks-synchronized",
            active=len(deployed.active),
            pending=len(pending),
            outdated=len(outdated),
            written=len(self._checks),
        )
        self._finish(failure)

    def update(self, instances: Collection[str]) -> None:
        """Roll out or remove instances that have changed; raises errors like ``synchronize``.

        If another program has made definitions unreadable, synchronizes instead: an update would remove them.
        """
        names, self._names = self._names, None
        changes, failure = self._fetch(instances, restored=())
        if changes:
            present = checks_in(self._objects.read())
            if present.keys() != self._checks.keys():
                self.synchronize()
                return
            self._apply(update_batch(present, changes.values()))
        else:
            self._names = names
        self._finish(failure)

    def prove(self, results: Mapping[str, NagiosResult]) -> None:
        """Answer the rollouts whose plugins have run, and remove those whose plugins cannot run.

        ``results`` are the results of the present definitions, by instance. Raises errors like ``synchronize``.
        """
        if self._first_runs is None:
            return
        names, self._names = self._names, None
        succeeded, failed = self._first_runs.take(results)
        if failed:
            gone = {change.instance for change, _ in failed}
            self._replace({key: check for key, check in self._checks.items() if key not in gone})
            names = None if names is None else self._objects.names()
        self._answer([*((change, "") for change in succeeded), *failed])
        self._names = names
        self._first_runs.request()

    def _finish(self, failure: ServiceError | None) -> None:
        """Raise the first failure of a request about one instance, after all other instances were handled."""
        if failure is not None:
            self.forget()
            raise failure

    def _fetch(
        self, instances: Collection[str], restored: Collection[str]
    ) -> tuple[dict[str, ObjectChange], ServiceError | None]:
        """Return the changes of instances, and the first failure; ``restored`` instances need no answer."""
        changes: dict[str, ObjectChange] = {}
        failure: ServiceError | None = None
        for part in request_parts(sorted(instances)):
            try:
                fetched = self._service.fetch(part)
            except ServiceError as error:
                return changes, failure or error
            for instance in part:
                if instance in fetched.failed:
                    failure = failure or ServiceError(f"cannot fetch {instance}: {fetched.failed[instance]}")
                    continue
                change = read_change(instance, fetched.details.get(instance), self._nagios.has_plugin)
                changes[instance] = change.unanswered() if instance in restored else change
        return changes, failure

    def _apply(self, batch: BridgeBatch) -> None:
        """Write the part of a batch that Nagios accepts, reload Nagios, and answer."""
        refusal = removal_refusal(batch)
        if refusal is not None:
            raise NagiosError(refusal)
        base = self._accepted_base(batch)
        possible = [change for change in batch.changes if change.problem is None]
        # The last changes are those that a search rejects without halving: new checks rather than former ones.
        possible.sort(key=lambda change: (change.answered, not change.is_removal))
        verified = find_acceptable(
            possible, lambda changes: self._verify(changed_checks(base, changes)), _MOST_REJECTED
        )
        self._replace(changed_checks(base, verified.accepted))
        impossible = [(change, change.problem) for change in batch.changes if change.problem is not None]
        succeeded = [*verified.accepted]
        if self._first_runs is not None:
            unproven = {
                change.instance: change
                for change in verified.accepted
                if change.answered and change.check is not None
            }
            gone = {change.instance for change in batch.changes} | (self._first_runs.waiting - self._checks.keys())
            self._first_runs.replace(gone, unproven)
            succeeded = [change for change in verified.accepted if change.instance not in unproven]
        self._answer([*((change, "") for change in succeeded), *verified.rejected, *impossible])
        self._names = self._objects.names()

    def _replace(self, checks: Mapping[str, NagiosCheck]) -> None:
        """Replace the checks in Nagios by these, which Nagios accepts."""
        files = self._files(checks)
        with failpoints.failpoints("write"):
            self._objects.write(files)
        with failpoints.failpoints("reload"):
            self._nagios.reload()
        self._objects.clean(files)
        self._checks, self._written = checks, self._objects.written()

    def _accepted_base(self, batch: BridgeBatch) -> Mapping[str, NagiosCheck]:
        """Return the first base of a batch that Nagios accepts."""
        words: str | None = None
        for base in batch.bases:
            words = self._verify(base)
            if words is None:
                return base
        raise NagiosError(
            "the configuration of Nagios is broken without the new changes, so that nothing is answered:"
            f" {words}; correct it"
        )

    def _verify(self, checks: Mapping[str, NagiosCheck]) -> str | None:
        """Return the message of Nagios about a configuration with these checks; ``None`` if Nagios accepts it."""
        self._proceed()
        output = self._nagios.verify(self._files(checks))
        return None if output is None else verification_words(output)

    def _files(self, checks: Mapping[str, NagiosCheck]) -> dict[str, NagiosObjectFile]:
        return object_files(checks.values(), self._place)

    def _answer(self, answers: Sequence[tuple[ObjectChange, str]]) -> None:
        """Send answers, each with the problem of a failure; the failure of one does not delay the others."""
        for change, problem in answers:
            if problem:
                get_logger().error("check-rejected", instance=change.instance, reason=problem)
        failed: dict[str, str] = {}
        removed = {change.instance for change, _ in answers if change.check is None}
        due = [
            CheckAnswer(instance=change.instance, config_id=change.config_id, problem=problem)
            for change, problem in answers
            if change.answered
        ]
        for part in request_parts(sorted(due, key=_instance), lambda answer: answer.size):
            unrecorded = self._service.answer(part)
            failed |= unrecorded
            for answer in part:
                if answer.instance not in unrecorded:
                    get_logger().info(
                        "check-answered",
                        instance=answer.instance,
                        outcome="failed" if answer.problem else "success",
                        removed=answer.instance in removed,
                    )
        for instance, reason in failed.items():
            raise ServiceError(f"the service did not record the answer for {instance}: {reason}")


def _instance(answer: CheckAnswer) -> str:
    """Return the sort key of an answer: neighbours in this order are stored together."""
    return answer.instance
