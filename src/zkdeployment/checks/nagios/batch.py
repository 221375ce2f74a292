"""A batch of changes to the checks of a Nagios, and the requests to the service."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from zkdeployment.base.errors import UnusableCheckError
from zkdeployment.base.values import dataclass
from zkdeployment.checks.nagios.check import NagiosCheck, read_check
from zkdeployment.checks.nagios.files import NagiosResult, nagios_host_name, service_description

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class DeployedInstances:
    """The deployed instances: ``active`` ones, and ``retained`` ones, whose removal failed.

    ``configurations`` has the id of the configuration of each instance. ``removal_allowed`` is whether an operator
    allowed the removal of many unknown checks.
    """

    active: frozenset[str] = frozenset()
    retained: frozenset[str] = frozenset()
    configurations: Mapping[str, str] = field(default_factory=dict)
    removal_allowed: bool = False

    @property
    def instances(self) -> frozenset[str]:
        """All deployed instances."""
        return self.active | self.retained

    def outdated(self, configurations: Mapping[str, str]) -> Collection[str]:
        """Return the active instances whose configurations differ from these, which are keyed by instance."""
        return frozenset(
            instance
            for instance, found in configurations.items()
            if instance in self.active and self.configurations.get(instance, found) != found
        )


#: The text that Nagios 4 writes in place of the output of a plugin that could not be executed, or did not end in
#: time.
_FAILED = re.compile(r"\((?:Return code of 12[67] is out of bounds|Service check timed out after )[^\n]*")


def first_run_problem(check: NagiosCheck, result: NagiosResult) -> str | None:
    """Return why the first run of a check's plugin is a failed rollout; ``None`` if the plugin ran.

    Exit codes 126 and 127 stand for a program that cannot be executed. The result of the plugin does not matter.
    """
    found = _FAILED.match(result.output)
    if found is None or result.state == "ok":
        return None
    return (
        f"the first run of {check.command} failed: {found[0]}; see that Nagios may execute the plugin, and that"
        " what it needs, such as its interpreter, is installed"
    )


def forced_check_command(check: NagiosCheck, now: float) -> str:
    """Return the external command with which Nagios runs a check at once."""
    return (
        f"[{now:.0f}] SCHEDULE_FORCED_SVC_CHECK;{nagios_host_name(check)};{service_description(check)};{now:.0f}"
    )


T = TypeVar("T")

#: The most instances of a request, as the service accepts them.
MOST_INSTANCES = 500

#: The most bytes of the reasons in a request, whose body may have 1 MiB.
_LARGEST = 500_000

#: The most characters of a reason that the service keeps.
LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class FetchedDetails:
    """The details of instances, each with its task; ``failed`` are reasons for which others were not fetched.

    Instances in neither of them have nothing to deploy. Both are keyed by instance.
    """

    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """The outcome of a deployment; ``problem`` is why it failed, empty if it succeeded."""

    instance: str
    config_id: str | None
    problem: str = ""

    @property
    def size(self) -> int:
        """The bytes of the reason."""
        return len(self.problem[:LONGEST_REASON].encode(errors="replace"))

    def to_json(self) -> dict[str, str]:
        """Return the answer as the service expects it."""
        body = {"result": "failed" if self.problem else "success", "reason": self.problem[:LONGEST_REASON]}
        return body if self.config_id is None else body | {"config_id": self.config_id}


def request_parts(items: Iterable[T], size: Callable[[T], int] = lambda _: 0) -> Iterator[list[T]]:
    """Yield items in parts, each of which fits into a request; ``size`` returns the bytes of an item."""
    part: list[T] = []
    total = 0
    for item in items:
        total += size(item)
        if part and (len(part) == MOST_INSTANCES or total > _LARGEST):
            yield part
            part, total = [], size(item)
        part.append(item)
    if part:
        yield part


#: The tasks of the service. After ``deprovision`` another configuration of the instance follows.
_ROLLOUT = "rollout"
_REMOVALS = ("deprovision", "delete")

#: The largest share of checks that a bridge removes if the service did not request it; one check may always be
#: removed.
_MOST_REMOVED = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """A change: instance ``instance`` gets ``check``, or is removed if that is ``None``.

    ``problem`` is why the change is impossible. ``answered`` is whether the service waits for an answer.
    """

    instance: str
    config_id: str | None = None
    check: NagiosCheck | None = None
    problem: str | None = None
    answered: bool = True

    @property
    def is_removal(self) -> bool:
        """Whether the instance is removed."""
        return self.check is None and self.problem is None

    def unanswered(self) -> ObjectChange:
        """Return the change without an answer."""
        return replace(self, answered=False)


@dataclass(frozen=True, slots=True)
class BridgeBatch:
    """Changes to the first of ``bases`` (sets of checks) that Nagios accepts.

    The first base has the present checks. ``removal_allowed`` is whether many checks may be removed whose removal
    the service did not request.
    """

    bases: tuple[Mapping[str, NagiosCheck], ...]
    changes: tuple[ObjectChange, ...] = ()
    removal_allowed: bool = False


def read_change(
    instance: str, details: Mapping[str, Any] | None, has_plugin: Callable[[str], bool]
) -> ObjectChange:
    """Return the change that the details of a deployment request; an unknown instance has no ``details``."""
    if details is None:
        return ObjectChange(instance=instance, answered=False)
    task = details.get("task")
    config_id = details.get("config_id")
    change = ObjectChange(instance=instance, config_id=config_id if isinstance(config_id, str) else None)
    if task in _REMOVALS:
        return change
    if task != _ROLLOUT:
        return _impossible(change, f"expected the task rollout, deprovision or delete, found {str(task)[:100]!a}")
    try:
        check = read_check(instance, details)
    except UnusableCheckError as error:
        return _impossible(change, str(error))
    if not has_plugin(check.command):
        return _impossible(
            change,
            f"Nagios has no plugin {check.command}; install it in the plugins directory, or correct the command",
        )
    return ObjectChange(instance=instance, config_id=check.config_id, check=check)


def update_batch(present: Mapping[str, NagiosCheck], changes: Iterable[ObjectChange]) -> BridgeBatch:
    """Return the batch for changes that the service has announced."""
    return BridgeBatch((dict(present),), tuple(changes))


def synchronizing_batch(
    present: Mapping[str, NagiosCheck],
    deployed: DeployedInstances,
    pending: Collection[str],
    changes: Mapping[str, ObjectChange],
) -> BridgeBatch:
    """Return the batch that brings the ``present`` checks to the state that the service wants.

    ``changes`` are those of fetched instances: of ``pending`` ones, and of active ones that have to be written.
    Doubtful checks are removed before the changes: checks that the service does not know, checks of another
    configuration, and checks whose rollout a killed bridge may have begun. If Nagios does not accept the present
    checks, the base has only the checks that are not doubtful.
    """
    known = deployed.instances.union(pending)
    rollouts = {instance for instance, change in changes.items() if not change.is_removal}
    doubtful = {
        instance: check for instance, check in present.items() if instance not in known or instance in rollouts
    }
    certain = {instance: check for instance, check in present.items() if instance not in doubtful}
    removals = [ObjectChange(instance=instance, answered=False) for instance in sorted(doubtful)]
    bases = (dict(present), certain) if doubtful else (certain,)
    return BridgeBatch(bases, (*removals, *changes.values()), deployed.removal_allowed)


def removal_refusal(batch: BridgeBatch) -> str | None:
    """Return why a batch is refused because of many removals that the service did not request."""
    present = batch.bases[0]
    asked = {change.instance for change in batch.changes if change.answered}
    unasked = present.keys() - changed_checks(present, batch.changes) - asked
    if batch.removal_allowed or len(unasked) <= 1 or len(unasked) <= _MOST_REMOVED * len(present):
        return None
    return (
        f"the service does not know {len(unasked)} of {len(present)} checks in Nagios, more than"
        f" {_MOST_REMOVED:.0%}: no check is changed; see whether the service has lost its content, or allow the"
        " removal with 'zkdeployment checks allow-removal --system NAME --reason TEXT'"
    )


def changed_checks(base: Mapping[str, NagiosCheck], changes: Iterable[ObjectChange]) -> dict[str, NagiosCheck]:
    """Return the checks after these changes."""
    checks = dict(base)
    for change in changes:
        if change.check is None:
            checks.pop(change.instance, None)
        else:
            checks[change.instance] = change.check
    return checks


def _impossible(change: ObjectChange, problem: str) -> ObjectChange:
    return replace(change, problem=problem)
