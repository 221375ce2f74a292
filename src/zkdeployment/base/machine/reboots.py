"""Reboots: the record of a reboot that a host has begun, and what a host has completed of its system node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Annotated, ClassVar

from zkdeployment.base.cluster import Revision
from zkdeployment.base.deployment import Deployment, DeploymentFailure
from zkdeployment.base.durations import utc_clock_text
from zkdeployment.base.records import OMITTED, Key, Record
from zkdeployment.base.stop import Stop
from zkdeployment.base.system import WantedSystem
from zkdeployment.base.values import dataclass

#: The most reboots for one step; one more is a failure.
MAX_REBOOTS = 3

_NO_EXCEPTIONS: Mapping[str, str] = MappingProxyType({})


def deployment_of(system: WantedSystem) -> Deployment:
    """Return a system node as the only instance of a service, by which its lock and its failures are named."""
    return Deployment(system.path, 0)


@dataclass(frozen=True)
class RebootRecord(Record):
    """A reboot that a host records in ZooKeeper and on its disk before it begins.

    ``step`` is the step of ``revision`` that needs the reboot; ``path`` and ``number`` name its deployment, and
    ``sequence`` the publication. ``boot_id`` is that of the kernel before the reboot. ``since`` and ``deadline``
    are in seconds since the epoch. ``count`` is the number of reboots that were begun for the step. ``rollout``
    and ``phase`` name the part of a rollout that judges the failure; without them the failure stops the fleet,
    unless it concerns the host ``alone``, which can be leased. ``expired`` means that the failure is reported.
    """

    is_lenient: ClassVar[bool] = True
    host_id: Annotated[str, Key("host")]
    host_name: Annotated[str, Key("name")]
    revision: Revision
    sequence: int
    path: str
    number: Annotated[int, Key("n")]
    step: str
    boot_id: str
    since: float
    deadline: float
    count: int = 1
    rollout: Annotated[str | None, OMITTED] = None
    phase: Annotated[str | None, OMITTED] = None
    alone: Annotated[bool, OMITTED] = False
    expired: Annotated[bool, OMITTED] = False

    def __str__(self) -> str:
        return f"reboots since {utc_clock_text(self.since)} for {self.step!r}, {self.return_text}"

    @property
    def sentence(self) -> str:
        """The host and its reboot as a sentence without a full stop."""
        return f"{self.host_name} ({self.host_id}) {self}"

    @property
    def return_text(self) -> str:
        """When the host is expected back, as text for people."""
        return f"expected back by {utc_clock_text(self.deadline)}"

    @property
    def deployment(self) -> Deployment:
        """The deployment whose step needs the reboot."""
        return Deployment(self.path, self.number)

    @property
    def failed(self) -> DeploymentFailure:
        """The failure of a host that does not come back."""
        return DeploymentFailure(self.sequence, self.step, self.path, self.number)

    def is_due(self, now: float) -> bool:
        """Whether the deadline has passed without a report of it."""
        return not self.expired and self.is_over(now)

    def is_over(self, now: float) -> bool:
        """Whether the host is no longer expected back."""
        return self.expired or now > self.deadline

    def seen_at(self, now: float) -> RebootRecord:
        """Return the record as readers show it: when the deadline has passed, the host is not awaited."""
        return replace(self, expired=self.is_over(now))

    def failure(self, now: float) -> Stop:
        """Return the failure of a host that did not come back."""
        reason = (
            f"the host did not come back from its reboot within {self.deadline - self.since:.0f} s; start"
            " the machine, or declare it dead with 'zkdeployment forget'"
        )
        return Stop(self.host_id, self.host_name, self.revision, self.step, reason, now)


@dataclass(frozen=True)
class SystemState(Record):
    """The state of a host's operating system on its disk: the completed update, and the reboot under way.

    ``updated`` is the node whose update is complete, ``time`` when it was, in seconds since the epoch;
    ``release`` is that of the last update, because ``updated`` may be a node that only reboots;
    ``advisories`` are the security advisories of the release that the host lacked after it, if known, and
    ``exceptions`` the packages that it did not treat like all others, as in ``HostSystem``.
    ``is_settled``: the question of a reboot after that update is answered. ``is_updating``: a later update has
    begun and is not recorded as complete, so that the host may have packages of either release. ``pending`` is the
    reboot under way.
    ``begun`` counts the reboots that were begun for a step, ``boots`` those that took place, by deployment.
    ``publication`` is the one whose steps asked for them, as ``DeploymentBasis.effective``; a state that an
    earlier version of the program wrote has none.
    """

    updated: Annotated[WantedSystem | None, OMITTED] = None
    is_settled: Annotated[bool, Key("settled", omit=True)] = True
    is_updating: Annotated[bool, Key("updating", omit=True)] = False
    time: Annotated[float | None, OMITTED] = None
    release: Annotated[str | None, OMITTED] = None
    advisories: Annotated[int | None, OMITTED] = None
    exceptions: Annotated[Mapping[str, str], OMITTED] = field(default_factory=dict)
    pending: Annotated[RebootRecord | None, OMITTED] = None
    begun: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict)
    boots: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict)
    publication: Annotated[str | None, OMITTED] = None

    @property
    def present_release(self) -> str | None:
        """The release of the last update; records of former agents have it only in their node."""
        return self.release or (None if self.updated is None else self.updated.new_release)

    def after_update(
        self,
        system: WantedSystem,
        now: float,
        advisories: int | None = None,
        exceptions: Mapping[str, str] = _NO_EXCEPTIONS,
    ) -> SystemState:
        """Return the state after the update that a node wants; the question of a reboot is open."""
        return replace(
            self._without(str(deployment_of(system))),
            updated=system,
            is_settled=False,
            is_updating=False,
            time=now,
            release=system.release,
            advisories=advisories,
            exceptions=exceptions,
        )

    def settled(self, system: WantedSystem) -> SystemState:
        """Return the state after the reboot that a node wants, or the decision that none is needed."""
        without = self._without(str(deployment_of(system)))
        return replace(without, updated=system, release=self.present_release, is_settled=True, is_updating=False)

    def rebooting(self, record: RebootRecord, publication: str) -> SystemState:
        """Return the state in which a reboot for a step of a publication has begun."""
        begun = {**self.begun, str(record.deployment): record.count}
        return replace(self, pending=record, begun=begun, publication=publication)

    def booted(self, boot_id: str) -> SystemState:
        """Return the state after a start of the agent on the kernel with this boot id."""
        if self.pending is None or self.pending.boot_id == boot_id:
            return self
        subject = str(self.pending.deployment)
        return replace(self, pending=None, boots={**self.boots, subject: self.boots.get(subject, 0) + 1})

    def withdrawn(self) -> SystemState:
        """Return the state without the reboot under way, which does not take place and does not count."""
        if self.pending is None:
            return self
        begun = {**self.begun, str(self.pending.deployment): self.pending.count - 1}
        return self._with_reboots(None, {name: count for name, count in begun.items() if count}, self.boots)

    def completed(self, deployment: Deployment) -> SystemState:
        """Return the state after the step of a deployment succeeded: its reboots count no more."""
        return self._without(str(deployment))

    def without_abandoned(self, is_wanted: Callable[[str], bool]) -> SystemState:
        """Return the state in which only reboots for deployments that ``is_wanted`` accepts count."""
        begun = {name: count for name, count in self.begun.items() if is_wanted(name)}
        boots = {name: count for name, count in self.boots.items() if is_wanted(name)}
        return self._with_reboots(self.pending, begun, boots)

    def counting_for(self, publication: str, lasting: Collection[str] = ()) -> SystemState:
        """Return the state in which only reboots for steps of this publication, and ``lasting`` ones, count.

        The steps of another publication may change what needs a reboot. Reboots without a recorded publication
        count: the update before a reboot may also have updated this program.
        """
        if self.publication not in (None, publication):
            return self.without_abandoned(lambda name: name in lasting)
        return replace(self, publication=publication if self.pending or self.begun or self.boots else None)

    def after_failure(self, deployment: Deployment) -> SystemState:
        """Return the state after the failure of a deployment's step was reported.

        If the step has used all its reboots, they count no more, so that a retry may reboot the host again.
        """
        is_used = self.begun.get(str(deployment), 0) >= MAX_REBOOTS
        return self._without(str(deployment)) if is_used else self

    def _without(self, subject: str) -> SystemState:
        is_own = self.pending is not None and str(self.pending.deployment) == subject
        state = replace(self, pending=None) if is_own else self
        return state.without_abandoned(lambda name: name != subject)

    def _with_reboots(
        self, pending: RebootRecord | None, begun: Mapping[str, int], boots: Mapping[str, int]
    ) -> SystemState:
        """Return the state with these reboots; without any, no publication is recorded."""
        publication = self.publication if pending or begun or boots else None
        return replace(self, pending=pending, begun=begun, boots=boots, publication=publication)
