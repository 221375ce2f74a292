"""The hosts as a coordinator sees them: who is registered, with which facts, and who is known but away."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.inventories import known_ids, read_inventories
from zkdeployment.model.host import Host, is_host_name
from zkdeployment.model.strategy import Facts
from zkdeployment.rollout.absence import RESTART

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session


class HostRegistry:
    """Who is there, through one session; ``changed`` is called when hosts come or go.

    A host's node is read when it comes. What it says later is only read where that is asked for: thousands of
    hosts write to theirs all the time. ``left`` says of hosts that were seen before and are away since when, in
    seconds since the epoch.
    """

    def __init__(self, session: Session, changed: Callable[[object], None]) -> None:
        self._session = session
        self._changed = changed
        self._hosts: dict[str, Host] = {}
        self._stale = False
        self.left_at: Mapping[str, float] = {}

    def expire(self) -> None:
        """Read all hosts anew next time: much may have happened since nobody looked."""
        self._stale = True

    def registered(self, now: float) -> Mapping[str, Host]:
        """Return the registered hosts by id, as they were when they came."""
        names = self._session.children(paths.HOSTS, self._changed) or ()
        known = {} if self._stale else self._hosts
        new = self.read(name for name in names if name not in known)
        self._stale = False
        gone = (self.left_at.keys() | self._hosts.keys()).difference(names)
        self.left_at = {name: since for name in gone if now - (since := self.left_at.get(name, now)) < RESTART}
        self._hosts = {name: found for name in names if (found := known.get(name) or new.get(name)) is not None}
        return self._hosts

    def read(self, host_ids: Iterable[str]) -> dict[str, Host]:
        """Read hosts' nodes as they are now."""
        names = list(host_ids)
        nodes = self._session.get_many(f"{paths.HOSTS}/{name}" for name in names)
        return {
            name: Host.from_properties(name, node.properties)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def refresh(self, host_ids: Iterable[str]) -> dict[str, Host]:
        """Read hosts' nodes as they are now, and keep that as what is known of these hosts."""
        found = self.read(host_ids)
        self._hosts |= found
        return found

    def absent(self, registered: Collection[Host]) -> dict[str, Facts]:
        """Return the hosts that are known but not registered, and the names of hosts that targets alone know."""
        ids = {host.identity.id for host in registered}
        away = read_inventories(self._session, known_ids(self._session) - ids)
        identities = [one.identity for one in registered] + [one.identity for one in away]
        known = {name for identity in identities for name in identity.target_names}
        targets = map(unquote, self._session.children(paths.TARGETS) or ())
        nobody = {name for name in targets if is_host_name(name) and name not in known}
        return {one.identity.id: one.facts for one in away} | dict.fromkeys(sorted(nobody), Facts())
