"""Snapshots of the published state, on which the syncer decides.

The values alone belong here: whether the fleet has converged is judged in ``convergence``, whether a tip is
published in ``verdicts``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.model.publication import Published

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host, Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.rollout.state import RolloutState


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The record of the last publication in ZooKeeper; ``cluster`` is ``None`` where ``/hosts`` does not exist.

    ``stops`` is the data version of the node above the stops, as in ``RequestState``. ``refused`` is the tip that
    is recorded as refused. ``signed`` are the data of the node that holds the signed statement, ``buckets`` is the
    number of nodes below it.
    """

    cluster: Cluster | None
    published: Published = Published()  # noqa: RUF009  immutable
    stops: int | None = None
    refused: Revision | None = None
    signed: bytes | None = None
    buckets: int = 0


@dataclass(frozen=True, slots=True)
class FleetHosts:
    """The hosts of the fleet before a publication: ``registered`` ones, and ``absent`` ones, which are known.

    ``unfinished`` are the hosts, by the path of a service, that were to gain it in the published revision and have
    not got it.
    """

    registered: Sequence[Host] = ()
    absent: Sequence[KnownHost] = ()
    unfinished: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublicationSnapshot(PublishedState):
    """The published state and the hosts, read once before a publication.

    ``hosts`` are registered, ``absent`` are known but not registered. ``rollout`` is the newest rollout of the
    published revision, if one has begun. ``held_by_operator``: a hold of an operator is on record. ``unfinished``
    are the hosts, by the path of a service, that were to gain it in the published revision and have not got it.
    """

    hosts: Sequence[Host] = ()
    absent: Sequence[KnownHost] = ()
    rollout: RolloutState | None = None
    held_by_operator: bool = False
    unfinished: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def known(self) -> tuple[Identity, ...]:
        """The identities of all hosts, registered and absent."""
        return (*(host.identity for host in self.hosts), *(host.identity for host in self.absent))
