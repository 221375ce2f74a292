"""Registered hosts, and published inventories: one compressed node for each, which outlives the host's session."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker, Package
from zkdeployment.base.json_values import json_problem
from zkdeployment.base.log import get_logger
from zkdeployment.base.system import HostSystem
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import pack, unpack
from zkdeployment.zookeeper.transactions import NODE_LIMIT, Create, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.zookeeper.session import Session


def read_hosts(session: Session, names: Sequence[str]) -> tuple[Host, ...]:
    """Return the registered hosts with these names of nodes; read in one pipelined round."""
    nodes = session.get_many(f"{paths.HOSTS}/{name}" for name in names)
    return tuple(
        Host.from_properties(name, node.properties)
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    )


def write_inventory(session: Session, known: KnownHost) -> None:
    """Write a host's inventory unless its node is up to date; a too large inventory is written as unknown."""
    path = _path(known.identity.id)
    known, data = _encode_limited(known)
    node = session.get(path)
    if node is None:
        session.ensure(paths.INVENTORY)
        session.commit(Create(path, data))
    elif replace(decode(known.identity.id, node.data), time=known.time) != known:
        session.commit(Set(path, data, node.version))


def replace_inventory(session: Session, known: KnownHost) -> None:
    """Write a host's inventory, which differs from the host's last one, without reading the node."""
    try:
        session.commit(Set(_path(known.identity.id), _encode_limited(known)[1]))
    except TransactionError:
        write_inventory(session, known)  # the node is missing


def _encode_limited(known: KnownHost) -> tuple[KnownHost, bytes]:
    """Return the inventory in its written form, and its data; a too large inventory becomes unknown."""
    data = encode(known)
    if len(data) <= NODE_LIMIT:
        return known, data
    unknown = f"its inventory is too large: expected at most {NODE_LIMIT} bytes, found {len(data)}"
    get_logger().warning("inventory-too-large", reason=unknown)
    known = replace(known, inventory=None, unknown=unknown)
    return known, encode(known)


def read_inventories(session: Session, host_ids: Iterable[str] | None = None) -> tuple[KnownHost, ...]:
    """Return the last inventories of hosts (default: all known hosts), by id; read in one pipelined round."""
    names = sorted(session.children(paths.INVENTORY) or () if host_ids is None else host_ids)
    nodes = session.get_many(_path(name) for name in names)
    decode_inventory = partial(_inventory, shared={})
    return tuple(
        _decode(name, node.data, decode_inventory)
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    )


def known_ids(session: Session) -> frozenset[str]:
    """Return the ids of all hosts that ever published an inventory and were not forgotten."""
    return frozenset(session.children(paths.INVENTORY) or ())


def encode(known: KnownHost) -> bytes:
    """Encode the data of a host's node."""
    return pack(
        {
            "id": known.identity.id,
            "name": known.identity.name,
            "role": known.identity.role,
            "time": known.time,
            "unknown": known.unknown,
            "tags": list(known.tags),
            "labels": dict(known.labels),
            "rack": known.rack,
            "address": known.address,
            "completed": known.completed,
            "lease": known.idle_role,
            "inventory": None if known.inventory is None else _to_json(known.inventory),
            **({} if known.system is None else {"system": known.system.to_json()}),
        }
    )


def decode(host_id: str, data: bytes, *, software: bool = True) -> KnownHost:
    """Decode a host's node; an invalid one gives an unknown inventory, so that other hosts are still shown.

    Without ``software`` only the markers of the inventory are decoded.
    """
    return _decode(host_id, data, _inventory if software else _markers_only)


def _decode(host_id: str, data: bytes, decode_inventory: Callable[[Any], Inventory]) -> KnownHost:
    try:
        return _known_host(host_id, unpack(data), decode_inventory)
    except KeyError as error:
        reason = f"it lacks the key {error}"
    except (ValueError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
    return KnownHost(Identity(host_id, host_id), unknown=f"its inventory cannot be read ({reason})")


def _path(host_id: str) -> str:
    return f"{paths.INVENTORY}/{host_id}"


def _to_json(inventory: Inventory) -> dict[str, object]:
    return {
        "packages": {
            name: [[package.epoch, package.version, package.release, package.arch] for package in packages]
            for name, packages in inventory.packages.items()
        },
        "scripts": dict(inventory.scripts),
        "directories": sorted(inventory.directories),
        "markers": [
            [
                marker.deployment.path,
                marker.deployment.number,
                marker.application,
                marker.package,
                marker.subtype,
                marker.script,
                marker.version,
                list(marker.files),
            ]
            for marker in inventory.markers
        ],
        "sequences": [marker.sequence for marker in inventory.markers],
        "records": _records(inventory.markers),
        "identities": _identities(inventory.markers),
        "managed": dict(inventory.managed),
        "checkouts": dict(inventory.checkouts),
        "applications": sorted(inventory.applications),
        "controllers": sorted(inventory.controllers),
        "lost_scripts": sorted(inventory.lost_scripts),
        "installonly": sorted(inventory.installonly),
        "originals": dict(inventory.originals),
        "started": inventory.deployments_started,
    }


def _records(markers: Iterable[Marker]) -> list[object]:
    """Return the record of each marker; an empty list if no marker has a record, as on most hosts."""
    records = [None if marker.properties is None else [marker.properties, *marker.packages] for marker in markers]
    return [*records] if any(records) else []


def _identities(markers: Iterable[Marker]) -> list[object]:
    """Return the recorded identity of each marker; an empty list if no marker has one, as on most hosts."""
    identities = [
        None if (host := marker.identity) is None else [host.id, host.name, host.role] for marker in markers
    ]
    return [*identities] if any(identities) else []


def _seconds(value: Any) -> float:
    if (problem := json_problem(value)) is not None:
        raise ValueError(problem)
    return float(value)


def _known_host(host_id: str, value: Any, decode_inventory: Callable[[Any], Inventory]) -> KnownHost:
    inventory, system = value["inventory"], value.get("system")  # most hosts have no system node
    return KnownHost(
        identity=Identity(host_id, _text(value["name"]), _text_or_none(value["role"])),
        inventory=None if inventory is None else decode_inventory(inventory),
        time=_seconds(value["time"]),
        unknown=_text(value["unknown"]),
        tags=tuple(_text(tag) for tag in value["tags"]),
        labels=_texts(value["labels"]),
        rack=_text_or_none(value["rack"]),
        address=_text_or_none(value["address"]),
        completed=_number_or_none(value["completed"]),
        idle_role=_text_or_none(value["lease"]),
        system=None if system is None else HostSystem.from_json(system),
    )


def _inventory(value: Any, shared: dict[object, tuple[Package, ...]] | None = None) -> Inventory:
    """Decode an inventory; ``shared`` are the packages of other ones, whose equal packages are used again."""
    shared = {} if shared is None else shared
    return Inventory(
        packages={_text(name): _packages(name, rows, shared) for name, rows in value["packages"].items()},
        scripts=_texts(value["scripts"]),
        directories=_names(value["directories"]),
        markers=_markers(value),
        managed=_texts(value["managed"]),
        checkouts=_texts(value["checkouts"]),
        applications=_names(value["applications"]),
        controllers=_names(value["controllers"]),
        lost_scripts=_names(value["lost_scripts"]),
        installonly=_names(value.get("installonly", ())),  # agents of 1.0 do not write it
        originals=_texts(value["originals"]),
        deployments_started=bool(value["started"]),
    )


def _packages(name: str, rows: Any, shared: dict[object, tuple[Package, ...]]) -> tuple[Package, ...]:
    key = (name, *map(tuple, rows))
    if key not in shared:
        shared[key] = tuple(
            Package(name, _number(epoch), _text(version), _text(release), _text(arch))
            for epoch, version, release, arch in rows
        )
    return shared[key]


def _markers_only(value: Any) -> Inventory:
    return Inventory(markers=_markers(value))


def _markers(value: Any) -> tuple[Marker, ...]:
    markers = value["markers"]
    records = value["records"] or [None] * len(markers)
    identities = value["identities"] or [None] * len(markers)
    return tuple(
        replace(
            _marker(*fields),
            sequence=_number_or_none(sequence),
            properties=None if record is None else _text(record[0]),
            packages=() if record is None else tuple(_text(package) for package in record[1:]),
            identity=None if identity is None else _identity(*identity),
        )
        for fields, sequence, record, identity in zip(
            markers, value["sequences"], records, identities, strict=True
        )
    )


def _identity(host_id: Any, name: Any, role: Any) -> Identity:
    return Identity(_text(host_id), _text(name), _text_or_none(role))


def _marker(  # noqa: PLR0913, PLR0917  one for each field
    path: Any, number: Any, application: Any, package: Any, subtype: Any, script: Any, version: Any, files: Any
) -> Marker:
    return Marker(
        deployment=Deployment(_text(path), _number(number)),
        application=_text(application),
        package=_text_or_none(package),
        subtype=_text_or_none(subtype),
        script=_text_or_none(script),
        version=_text_or_none(version),
        files=tuple(_text(file) for file in files),
    )


def _texts(value: Any) -> dict[str, str]:
    return {_text(name): _text(text) for name, text in value.items()}


def _names(value: Any) -> frozenset[str]:
    return frozenset(_text(name) for name in value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r}")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a number, found {value!r}")
    return value
