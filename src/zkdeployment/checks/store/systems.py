"""The records of monitoring systems.

The node of a system holds its callback; below it, ``contact`` holds the times of its last contacts,
``results/BUCKET`` the results of instances, ``drift`` the configurations of dropped results, ``removal`` the time
until which many unknown checks may be removed, and ``lease`` the bridge that gets the updates.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.errors import ConflictError
from zkdeployment.base.records import unknown_keys
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules.listing import DroppedResult, with_report
from zkdeployment.checks.rules.monitoring_system import CheckResult, SystemContact, SystemLease, lease_after
from zkdeployment.checks.store.instances import by_bucket, decode_values
from zkdeployment.zookeeper.nodes import Node, encode, pack
from zkdeployment.zookeeper.transactions import Create, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.base.json_values import Value
    from zkdeployment.zookeeper.session import Session

#: Seconds after a recorded contact within which further contacts are not recorded.
_PACE = 5.0

#: Attempts of a write to a node to which other services write, too.
_ATTEMPTS = 20


class ZooKeeperMonitoringSystems:
    """The records of monitoring systems through one session. Methods may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._leases: dict[str, SystemLease] = {}

    def callbacks(self) -> Mapping[str, str | None]:
        """Return the callback of each known monitoring system; ``None`` for a system that polls."""
        names = self._session.children(check_paths.SYSTEMS) or ()
        nodes = self._session.get_many(f"{check_paths.SYSTEMS}/{name}" for name in names)
        return {
            unquote(name): callback_in(node) for name, node in zip(names, nodes, strict=True) if node is not None
        }

    def set_callback(self, system: str, callback: str | None) -> None:
        """Record the callback of a monitoring system."""
        path = check_paths.system_path(system)
        node = self._session.get(path)
        others = {} if node is None else unknown_keys(node.properties, {"callback"})
        data = encode({**others} if callback is None else {**others, "callback": callback})
        if node is None:
            self._session.ensure(path, data)
        elif node.data != data:
            self._session.commit(Set(path, data, node.version))

    def contacts(self) -> Mapping[str, SystemContact]:
        """Return the last contact of each monitoring system that has made one."""
        names = self._session.children(check_paths.SYSTEMS) or ()
        nodes = self._session.get_many(f"{check_paths.SYSTEMS}/{name}/contact" for name in names)
        return {
            unquote(name): SystemContact.from_json(node.properties)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def note_contact(self, system: str, contact: SystemContact) -> None:
        """Record a contact of a monitoring system; times that are ``None`` stay unchanged."""
        path = f"{check_paths.system_path(system)}/contact"
        node = self._session.get(path)
        known = SystemContact() if node is None else SystemContact.from_json(node.properties)
        if not _is_later(contact.fetched, known.fetched) and not _is_later(contact.reported, known.reported):
            return
        others = {} if node is None else node.properties
        data = encode({**others, **known.merged(contact).to_json()})
        if node is None:
            self._session.ensure(path, data)
            return
        with contextlib.suppress(ConflictError):  # another service recorded a contact at the same time
            self._session.commit(Set(path, data, node.version))

    def results(self, system: str, instances: Collection[str] | None = None) -> Mapping[str, CheckResult]:
        """Return the last results of instances (``None``: of all instances) by identifier."""
        above = _results(system)
        grouped = None if instances is None else by_bucket(instances)
        buckets = (self._session.children(above) or ()) if grouped is None else grouped.keys()
        places = [f"{above}/{bucket}" for bucket in buckets]
        found: dict[str, CheckResult] = {}
        for path, node in zip(places, self._session.get_many(places), strict=True):
            held = results_in(path, node)
            wanted = held.keys() if grouped is None else grouped[path.rpartition("/")[2]]
            found |= {instance: held[instance] for instance in wanted if instance in held}
        return found

    def record_results(self, system: str, results: Mapping[str, CheckResult]) -> None:
        """Record results, beside those of other instances."""
        for bucket, instances in sorted(by_bucket(results).items()):
            new = {instance: results[instance].to_json() for instance in instances}
            self._change(f"{_results(system)}/{bucket}", lambda held, new=new: {**held, **new})  # type: ignore[misc]

    def forget_results(self, system: str, instances: Collection[str]) -> None:
        """Remove the results of instances that are gone."""
        for bucket, gone in sorted(by_bucket(instances).items()):
            self._change(
                f"{_results(system)}/{bucket}",
                lambda held, gone=gone: {key: value for key, value in held.items() if key not in gone},  # type: ignore[misc]
            )

    def lease(self, system: str, bridge: str, now: float) -> SystemLease | None:
        """Return the lease of a monitoring system after a request of a bridge (empty: a bridge without a name)."""
        known = self._leases.get(system)
        if known is not None and known.holder == bridge and lease_after(known, bridge, now) is known:
            return known  # no other bridge can have acquired the lease in the meantime
        path = f"{check_paths.system_path(system)}/lease"
        for _ in range(_ATTEMPTS):
            node = self._session.get(path)
            held = None if node is None else SystemLease.if_valid(node.properties)
            lease = lease_after(held, bridge, now)
            if lease is None or lease is held:
                break
            try:
                self._write_lease(path, node, lease)
            except ConflictError:
                continue
            break
        else:
            raise ConflictError(f"{path} is changed all the time; try again")
        if lease is not None:
            self._leases[system] = lease
        return lease

    def _write_lease(self, path: str, node: Node | None, lease: SystemLease) -> None:
        data = encode(lease.to_json())
        if node is None:
            self._session.ensure(path.rpartition("/")[0])
        self._session.commit(Create(path, data) if node is None else Set(path, data, node.version))

    def allow_removal(self, system: str, until: float) -> None:
        """Record the time until which the bridge of a monitoring system may remove many unknown checks."""
        path = _removal(system)
        self._session.ensure(path)
        self._session.commit(Set(path, encode({"allowed-until": until})))

    def removal_allowed_until(self, system: str) -> float:
        """Return the end of the permission to remove unknown checks, in seconds since the epoch; 0 without one."""
        node = self._session.get(_removal(system))
        until = None if node is None else node.properties.get("allowed-until")
        return float(until) if isinstance(until, int | float) else 0.0

    def record_drift(self, system: str, dropped: Mapping[str, str], kept: Collection[str], now: float) -> None:
        """Record the configurations of dropped results, and the instances whose results count."""
        path = f"{check_paths.system_path(system)}/drift"
        if dropped or self._session.get(path) is not None:
            self._change(path, lambda held: _drift_to_json(with_report(_drift_in(held), dropped, kept, now)))

    def drift(self) -> Mapping[str, Mapping[str, DroppedResult]]:
        """Return the records of dropped results by monitoring system and instance."""
        names = self._session.children(check_paths.SYSTEMS) or ()
        places = [f"{check_paths.SYSTEMS}/{name}/drift" for name in names]
        nodes = self._session.get_many(places)
        return {
            unquote(name): _drift_in(decode_values(path, node))
            for name, path, node in zip(names, places, nodes, strict=True)
        }

    def _change(self, path: str, change: Callable[[Mapping[str, Value]], Mapping[str, Value]]) -> None:
        for _ in range(_ATTEMPTS):
            node = self._session.get(path)
            held = decode_values(path, node)
            after = change(held)
            if after == held:
                return
            try:
                if node is None:
                    self._session.ensure(path.rpartition("/")[0])
                self._session.commit(
                    Create(path, pack(after)) if node is None else Set(path, pack(after), node.version)
                )
            except ConflictError:
                continue
            return
        raise ConflictError(f"{path} is changed all the time; try again")


def _drift_in(values: Mapping[str, Value]) -> dict[str, DroppedResult]:
    found = {instance: DroppedResult.if_valid(value) for instance, value in values.items()}
    return {instance: record for instance, record in found.items() if record is not None}


def _drift_to_json(records: Mapping[str, DroppedResult]) -> dict[str, Value]:
    return {instance: record.to_json() for instance, record in records.items()}


def callback_in(node: Node) -> str | None:
    """Return the callback in the node of a monitoring system; ``None`` for a system that polls."""
    callback = node.properties.get("callback")
    return callback if isinstance(callback, str) else None


def results_in(path: str, node: Node | None) -> dict[str, CheckResult]:
    """Return the results in a bucket by instance, without damaged ones."""
    found = {instance: CheckResult.if_valid(value) for instance, value in decode_values(path, node).items()}
    return {instance: result for instance, result in found.items() if result is not None}


def _is_later(time: float | None, known: float | None) -> bool:
    return time is not None and (known is None or abs(time - known) >= _PACE)


def _removal(system: str) -> str:
    return f"{check_paths.system_path(system)}/removal"


def _results(system: str) -> str:
    return f"{check_paths.system_path(system)}/results"
