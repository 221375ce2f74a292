"""The places of the frame of the fleet, which features fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from zkdeployment.fleet.explanations.explanation import HostFinding
    from zkdeployment.fleet.feed.fleet_assembly import FeedPart, FleetReading
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.fleet.views.forecast import PlanAddition, Prediction, PredictionBasis
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.zookeeper.session import Session


@dataclass(frozen=True, kw_only=True)
class FleetPlaces:
    """The contributions of a feature to views of the fleet."""

    #: The parts of the readings of the fleet, with their events.
    feed_parts: Callable[[], Sequence[FeedPart[Any]]] = tuple
    #: Returns the records of the documents that govern services in a reading of the fleet.
    governing_records: Callable[[FleetReading], Iterable[Any]] = lambda _reading: ()
    #: Returns the addition of the feature to the plan of a publication.
    plan_addition: Callable[[Review, PredictionBasis, Prediction], PlanAddition] | None = None
    #: Reads the facts for the monitor of the fleet, at a time in seconds since the epoch, and returns the function
    #: that judges them.
    alarms: Callable[[Session, float], JudgeAlarms] | None = None
    #: Returns the paths of the feature's nodes for a host, which is given by its id; they go when it is forgotten.
    host_nodes: Callable[[str], Iterable[str]] = lambda _host_id: ()
    #: The findings on hosts (by id), the worst first; with a path, only those about one service. The time is in
    #: seconds since the epoch.
    host_findings: Callable[[OperatorAdapters, Collection[str], float, str | None], Sequence[HostFinding]] = (
        lambda _operator, _hosts, _now, _path: ()
    )
