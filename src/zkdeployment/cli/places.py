"""The places of the frame of verbs, which features fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.config.settings import Settings
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.zookeeper.session import Session


class LazyVerb(NamedTuple):
    """A verb that is not imported yet: its ``module``, and its line in ``--help``.

    The name of a module below ``zkdeployment`` may be relative.
    """

    module: str
    help: str
    attribute: str = "command"


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
