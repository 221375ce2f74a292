"""The hosts that a coordinator observes: registered hosts with their facts, and known hosts that are absent."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.inventories import known_ids, read_inventories
from zkdeployment.model.host import RESTART, Facts, Host, is_host_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session


class HostRegistry:
    """The registered hosts, read through one session; ``changed`` is called when hosts register or leave.

    A host's node is read when the host registers. Later changes are read only on request, because thousands of
    hosts write to their nodes all the time. ``left_at`` maps the hosts that deregistered within the last
    ``RESTART`` seconds to the time of that, in seconds since the epoch. ``facts`` maps the registered hosts to
    their facts.
    """

    def __init__(self, session: Session, changed: Callable[[object], None]) -> None:
        self._session = session
        self._changed = changed
        self._hosts: dict[str, Host] = {}
        self._stale = False
        self.left_at: Mapping[str, float] = {}
        self.facts: Mapping[str, Facts] = {}

    def expire(self) -> None:
        """Read all hosts again next time: the copies date from an earlier lead and may be outdated."""
        self._stale = True

    def registered(self, now: float) -> Mapping[str, Host]:
        """Return the registered hosts by id, as of their registration or of the last ``refresh``."""
        names = self._session.children(paths.HOSTS, self._changed) or ()
        known = {} if self._stale else self._hosts
        new = self.read(name for name in names if name not in known)
        self._stale = False
        gone = (self.left_at.keys() | self._hosts.keys()).difference(names)
        self.left_at = {name: since for name in gone if now - (since := self.left_at.get(name, now)) < RESTART}
        self._hosts = {name: host for name in names if (host := known.get(name) or new.get(name)) is not None}
        facts = {**self.facts, **{name: host.facts for name, host in new.items()}}
        self.facts = {name: facts[name] for name in self._hosts}
        return self._hosts

    def read(self, host_ids: Iterable[str]) -> dict[str, Host]:
        """Return the current content of hosts' nodes, without updating the registry."""
        names = list(host_ids)
        nodes = self._session.get_many(f"{paths.HOSTS}/{name}" for name in names)
        return {
            name: Host.from_properties(name, node.properties)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def refresh(self, host_ids: Iterable[str]) -> dict[str, Host]:
        """Return the current content of hosts' nodes and keep it in the registry."""
        hosts = self.read(host_ids)
        self._hosts |= hosts
        self.facts = {**self.facts, **{name: host.facts for name, host in hosts.items()}}
        return hosts

    def absent(self, registered: Collection[Host]) -> dict[str, Facts]:
        """Return the facts of known hosts that are not registered, and of host names that are only targets."""
        ids = {host.identity.id for host in registered}
        away = read_inventories(self._session, known_ids(self._session) - ids)
        identities = [host.identity for host in registered] + [inventory.identity for inventory in away]
        known = {name for identity in identities for name in identity.target_names}
        targets = map(unquote, self._session.children(paths.TARGETS) or ())
        unknown = {name for name in targets if is_host_name(name) and name not in known}
        facts = {inventory.identity.id: inventory.facts for inventory in away}
        return facts | dict.fromkeys(sorted(unknown), Facts())
