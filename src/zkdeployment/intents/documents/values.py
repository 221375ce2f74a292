"""Intents: services that are deployed together, and the state of their life cycle.

A deployment intent group governs subtrees of the tree for all of their targets. The network intents of a cluster
govern service nodes for one target. Reading their documents belongs to ``kinds``, decisions to ``intents.rules``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, TypeAlias

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.records import OMITTED, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The names that identify a group (project, composite app, version, name) or a cluster (provider, name).
IntentSubject: TypeAlias = "tuple[str, ...]"


class IntentState(Enum):
    """The state of a group or a cluster. Only groups are Approved and Instantiated, only clusters are Applied."""

    CREATED = "Created"
    APPROVED = "Approved"
    INSTANTIATED = "Instantiated"
    APPLIED = "Applied"
    TERMINATED = "Terminated"

    @property
    def is_active(self) -> bool:
        """Whether the governed service nodes are deployed in this state."""
        return self in {IntentState.INSTANTIATED, IntentState.APPLIED}


class UpdateRule(Enum):
    """The rule for changes of an instantiated group: after its termination, or in place with an approval."""

    TERMINATE = "terminate"
    APPROVE = "approve"


class FleetStop(Enum):
    """The extent of a stop after a failed script of a group: the steps of the group, or the fleet."""

    GROUP = "group"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class FurtherApproval(Record):
    """The approval of the same content and instance by another person; ``signature`` covers the same."""

    by: str
    signature: str
    reason: Annotated[str, OMITTED] = ""


@dataclass(frozen=True, slots=True)
class Approval(Record):
    """The approval of one content, given by its digest.

    ``signature`` covers the subject, the content, the ``state`` and the number of the ``instance``. The state
    names the approved step: a new instance (Approved), the running instance (Instantiated), or the end of
    governance (Released). A signed approval begins or changes only one instance: the number grows with each
    approval, and is at least the time of the approval. State and number are empty in approvals without a
    signature. ``also`` are the approvals of other people.
    """

    content: str
    by: str
    reason: Annotated[str, OMITTED] = ""
    signature: Annotated[str | None, OMITTED] = None
    state: Annotated[str, OMITTED] = ""
    instance: Annotated[int, OMITTED] = 0
    also: Annotated[tuple[FurtherApproval, ...], OMITTED] = ()


#: The state in the approval of a release.
RELEASED = "Released"


@dataclass(frozen=True, slots=True)
class DeploymentIntentGroup:
    """An instantiation of a composite application: its apps, each with the paths of its subtrees."""

    project: str
    composite_app: str
    version: str
    name: str
    composite_profile: str
    apps: Mapping[str, tuple[str, ...]]
    state: IntentState = IntentState.CREATED
    update: UpdateRule = UpdateRule.TERMINATE
    approval: Approval | None = None
    fleet_stop: FleetStop = FleetStop.FLEET

    @property
    def subject(self) -> IntentSubject:
        """The names that identify the group."""
        return self.project, self.composite_app, self.version, self.name

    @property
    def target(self) -> None:
        """No target: the group governs its subtrees for all targets."""

    @property
    def description(self) -> dict[str, object]:
        """The wanted state of the group, besides the content of its subtrees."""
        apps = {app: sorted(paths) for app, paths in self.apps.items()}
        return {"apps": apps, "composite-profile": self.composite_profile}


@dataclass(frozen=True, slots=True)
class ClusterIntents:
    """The network intents of a cluster, each with the paths of its subtrees; ``name`` is the only target."""

    provider: str
    name: str
    apps: Mapping[str, tuple[str, ...]]
    state: IntentState = IntentState.CREATED

    @property
    def subject(self) -> IntentSubject:
        """The names that identify the cluster."""
        return self.provider, self.name

    @property
    def target(self) -> str:
        """The target for which the cluster governs its subtrees."""
        return self.name

    @property
    def approval(self) -> None:
        """No approval: clusters are applied without one."""

    @property
    def update(self) -> UpdateRule:
        """Applied network intents change only after their termination."""
        return UpdateRule.TERMINATE

    @property
    def fleet_stop(self) -> FleetStop:
        """A failure of network intents stops the fleet."""
        return FleetStop.FLEET

    @property
    def description(self) -> dict[str, object]:
        """The wanted state of the cluster, besides the content of its subtrees."""
        return {"network-intents": {name: sorted(paths) for name, paths in self.apps.items()}}


#: A document that governs service nodes.
Intent: TypeAlias = DeploymentIntentGroup | ClusterIntents


def subject_text(subject: IntentSubject) -> str:
    """Return a subject in the form of commands and messages: ``p1/store/v1/shop``."""
    return "/".join(subject)


def parse_subject(text: str) -> IntentSubject:
    """Return the subject that ``subject_text`` wrote; raises ``ConfigurationError`` for other text."""
    parts = tuple(text.split("/"))
    kinds = _SUBJECT_NAMES.get(len(parts))
    if kinds is None or not all(parts):
        raise ConfigurationError(
            f"SUBJECT is {text!r}: expected PROJECT/APP/VERSION/NAME, as in p1/store/v1/shop, or PROVIDER/CLUSTER,"
            " as in ams/web-server"
        )
    for problem in filter(None, map(name_problem, kinds, parts)):
        raise ConfigurationError(f"SUBJECT: {problem}")
    return parts


#: The kinds of the names in the subject of a group, and of a cluster, by their number.
_SUBJECT_NAMES = {4: (NameKind.PLAIN,) * 4, 2: (NameKind.PLAIN, NameKind.TARGET)}


def intent_paths(intent: Intent) -> tuple[str, ...]:
    """Return the paths that an intent governs, sorted."""
    return tuple(sorted({path for paths in intent.apps.values() for path in paths}))
