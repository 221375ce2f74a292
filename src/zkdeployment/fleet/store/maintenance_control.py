"""Begins and ends the maintenance of hosts, with the record of the act in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.act import Act, Maintenance
from zkdeployment.fleet.store.audit import recording
from zkdeployment.fleet.views.maintenance import HostSelection, check_limit, cordoned, select_identities
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set, commit_afresh

if TYPE_CHECKING:
    from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
    from zkdeployment.zookeeper.session import Session


class ZooKeeperMaintenance:
    """The maintenance of hosts as operators begin and end it, through one session."""

    def __init__(self, session: Session, fleet: ZooKeeperFleetReader) -> None:
        self._session = session
        self._fleet = fleet

    def begin(
        self,
        selection: HostSelection,
        act: Act,
        *,
        until: float | None = None,
        most: int | None = None,
        drain: bool = False,
    ) -> tuple[str, ...]:
        """Put the selected hosts into maintenance, and return their names; a new record replaces the former one.

        With ``drain``, the hosts undeploy the services that other hosts have.

        Raises ``NotFoundError`` for unknown hosts, and ``RefusedError`` if more than ``most`` hosts would be in
        maintenance. Then nothing is written.
        """
        names: tuple[str, ...] = ()

        def beginning() -> list[Operation]:
            nonlocal names
            parent = self._session.get(paths.MAINTENANCE)
            snapshot = self._fleet.snapshot()
            selected = select_identities(snapshot, selection)
            check_limit(snapshot, selected, most)
            names = tuple(identity.name for identity in selected)
            records = [Maintenance(each.id, act.by, act.reason, act.time, until, drain) for each in selected]
            return [
                # Two acts at the same time must not exceed the limit together.
                Set(paths.MAINTENANCE, b"", -1 if parent is None else parent.version),
                *map(self._writing, records),
                recording(self._session, act),
            ]

        self._session.ensure(paths.MAINTENANCE)
        commit_afresh(self._session, beginning, "begin the maintenance")
        return names

    def end(self, selection: HostSelection, act: Act) -> tuple[str, ...]:
        """End the maintenance of the selected hosts, and return their ids.

        Raises ``NotFoundError`` for unknown hosts, and ``RefusedError`` if there is no maintenance to end.
        """
        ids: tuple[str, ...] = ()

        def ending() -> list[Operation]:
            nonlocal ids
            records = cordoned(self._fleet.snapshot(), selection)
            ids = tuple(record.host_id for record in records)
            return [*(Delete(paths.maintenance_path(host_id)) for host_id in ids), recording(self._session, act)]

        commit_afresh(self._session, ending, "end the maintenance")
        return ids

    def _writing(self, record: Maintenance) -> Operation:
        path = paths.maintenance_path(record.host_id)
        node, data = self._session.get(path), encode(record.to_json())
        return Create(path, data) if node is None else Set(path, data, node.version)
