"""The places of the frame of verbs, which features fill."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.config.settings import Settings
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.zookeeper.session import Session


class Subject(Enum):
    """The subjects of verbs, in the order of ``zkdeployment --help``; each value is the heading there."""

    SEE = "See the fleet"
    CHANGE = "Change the fleet"
    ROLLOUTS = "Rollouts and promotion"
    SERVICES = "Intents, checks and instances"
    POOLS = "Host pools"
    AUTHORING = "Write the tree"
    DAEMONS = "Daemons"
    OTHER = "Other verbs"


class LazyVerb(NamedTuple):
    """A verb that is not imported yet: its ``module``, its line in ``--help``, and its ``subject`` there.

    The name of a module below ``zkdeployment`` may be relative.
    """

    module: str
    help: str
    attribute: str = "command"
    subject: Subject = Subject.OTHER


@dataclass(frozen=True)
class VerbPlaces:
    """The verbs of a feature, by name."""

    verbs: Mapping[str, LazyVerb]


@dataclass(frozen=True)
class LeaderPlaces:
    """The success criterion that a feature adds to rollouts."""

    #: Makes the criterion, which waits for something outside of rollouts. The third argument returns the node by
    #: which the coordinator leads, the last one wakes the coordinator.
    criterion: Callable[[Settings, Session, Callable[[], str | None], Callable[[], None]], OutsideCriterion]
