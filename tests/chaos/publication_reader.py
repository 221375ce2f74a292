"""Reads publications and registrations from ZooKeeper, past all proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from chaos.observations import PublicationSeen, RebootsSeen, RegistrationsSeen
from chaos.pushed import plain_targets
from chaos.trace import uptime
from chaos.trees import SERVICES, path_of
from zkdeployment.base.errors import TreeError
from zkdeployment.publishing.store.assignments import decode_targets
from zkdeployment.publishing.store.reboots import reboot_of
from zkdeployment.publishing.store.service_order import decode_entry
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.base.publication import OrderEntry
    from zkdeployment.zookeeper.session import Session

_SERVICES = tuple(map(path_of, range(SERVICES)))


def read_publication(session: Session) -> PublicationSeen | None:
    """Return the publication, read at one state; ``None`` before the first one, or during a change."""
    state = _state(session)
    if state is None:
        return None
    revision, since, _ = state
    names = session.children(paths.TARGETS) or []
    nodes = session.get_many([f"{paths.TARGETS}/{name}" for name in names])
    services = session.get_many(_SERVICES)
    order, ordered = _read_order(session, since)
    if _state(session) != state:
        return None
    try:
        targets = decode_targets({unquote(name): node for name, node in zip(names, nodes, strict=True)})
    except TreeError:
        targets = {}
    texts = {
        path: str(node.properties.get("text"))
        for path, node in zip(_SERVICES, services, strict=True)
        if node is not None
    }
    return PublicationSeen(uptime(), revision, plain_targets(targets), texts, since, order, ordered)


def read_registrations(session: Session, hosts: Sequence[str]) -> RegistrationsSeen:
    """Return the hosts that are registered."""
    since = uptime()
    nodes = session.get_many([f"{paths.HOSTS}/{host}" for host in hosts])
    created = {host: node.created for host, node in zip(hosts, nodes, strict=True) if node is not None}
    return RegistrationsSeen(since, created)


def read_reboots(session: Session) -> RebootsSeen | None:
    """Return the recorded reboots and the effect of those that failed; ``None`` before the first publication."""
    names = session.children(paths.REBOOTS) or []
    nodes = session.get_many([f"{paths.REBOOTS}/{name}" for name in names])
    hosts, targets = session.get_many([paths.HOSTS, paths.TARGETS])
    if hosts is None or targets is None:
        return None
    boots: dict[str, tuple[str, bool]] = {}
    stopped: dict[str, bool | None] = {}
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue
        record = reboot_of(name, node)
        boots[record.host_id] = record.boot_id, record.expired
        is_replaced = targets.properties.get("sequence") != record.sequence
        has_effect = (
            hosts.properties.get("version") != record.revision or is_replaced or record.rollout is not None
        )
        # A later change, such as a resume, hides the effect.
        is_hidden = not record.expired or max(hosts.changed, targets.changed) > node.changed
        stopped[record.host_id] = None if is_hidden else has_effect
    return RebootsSeen(uptime(), boots, stopped)


def _state(session: Session) -> tuple[str, int, int] | None:
    """Return revision and ``since`` of the publication, and the transaction that wrote these."""
    hosts, targets = session.get_many([paths.HOSTS, paths.TARGETS])
    if hosts is None or targets is None or "importing" in hosts.properties:
        return None
    revision, since = targets.properties.get("version"), targets.properties.get("since")
    if not isinstance(revision, str) or not isinstance(since, int):
        return None
    return revision, since, targets.changed


def _read_order(session: Session, since: int) -> tuple[dict[str, OrderEntry], int]:
    directory = paths.order_path(since)
    node = session.get(directory)
    if node is None:
        return {}, 0
    names = session.children(directory) or []
    entries = session.get_many([f"{directory}/{name}" for name in names])
    order = {
        paths.awaited_service(name): decode_entry(entry)[0]
        for name, entry in zip(names, entries, strict=True)
        if entry is not None
    }
    return order, node.created
