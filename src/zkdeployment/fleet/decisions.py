"""The place for the decisions of persons for which features wait; everything that shows the fleet shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.features import installed
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.act import Decision
    from zkdeployment.base.publication import Published
    from zkdeployment.zookeeper.nodes import Node


@dataclass(frozen=True, kw_only=True)
class DecisionPlaces:
    """The nodes of a feature that show for which decisions the feature waits.

    The nodes are the children of the ``directory``. ``is_used`` is whether the last publication has such nodes: a
    fleet without them reads nothing more. ``decide`` returns the decision for which the node with a name waits, if
    one is due.
    """

    directory: Callable[[], str]
    is_used: Callable[[Published], bool]
    decide: Callable[[str, Node], Decision | None]


def used_places(published: Published) -> tuple[DecisionPlaces, ...]:
    """Return the places of decisions whose nodes the last publication has."""
    return tuple(places for places in installed(DecisionPlaces) if places.is_used(published))
