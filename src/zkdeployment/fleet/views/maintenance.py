"""Decides whether hosts may go into maintenance, and whether absent hosts may be forgotten."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from zkdeployment.base.act import Maintenance, describe_maintenance
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.targets.services import targets_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot

#: The most hosts of one act, whose records are written in one transaction.
MOST_HOSTS = 500


@dataclass(frozen=True, slots=True)
class HostSelection:
    """Hosts by their ids or names, or all known hosts of a ``role`` or of a ``rack``."""

    hosts: Sequence[str] = ()
    role: str = ""
    rack: str = ""

    def __str__(self) -> str:
        return f"role {self.role}" if self.role else f"rack {self.rack}" if self.rack else ", ".join(self.hosts)

    def check(self) -> None:
        """Raise ``ValueError`` unless exactly one of hosts, role and rack is given."""
        if sum(map(bool, (self.hosts, self.role, self.rack))) != 1:
            raise ValueError("expected hosts, a role or a rack; give exactly one of them")


def select_identities(snapshot: FleetSnapshot, selection: HostSelection) -> tuple[Identity, ...]:
    """Return the selected known hosts, registered or absent.

    Raises ``NotFoundError`` if a name matches no host, and ``RefusedError`` if nothing or too much is selected.
    """
    if selection.hosts:
        found = tuple(dict.fromkeys(_identity(snapshot, name) for name in selection.hosts))
    elif selection.role:
        found = tuple(identity for identity in snapshot.identities if identity.role == selection.role)
    else:
        facts = snapshot.facts
        found = tuple(each for each in snapshot.identities if facts[each.id].rack == selection.rack)
    if not found:
        raise NotFoundError(f"no known host has the {selection}; 'zkdeployment status' lists all hosts")
    if len(found) > MOST_HOSTS:
        raise RefusedError(
            f"the {selection} has {len(found)} hosts: expected at most {MOST_HOSTS} in one act; name the hosts"
        )
    return found


def _identity(snapshot: FleetSnapshot, name: str) -> Identity:
    identity = snapshot.find_identity(name)
    if identity is None:
        raise NotFoundError(f"no host with the id or name {name} is known; 'zkdeployment status' lists all hosts")
    return identity


def check_limit(snapshot: FleetSnapshot, added: Collection[Identity], most: int | None) -> None:
    """Raise ``RefusedError`` if more than ``most`` hosts would be in maintenance at once, with those that are."""
    ids = {identity.id for identity in added}
    total = len(ids | snapshot.maintenance.keys())
    if most is None or total <= most:
        return
    names = {identity.id: identity.name for identity in snapshot.identities}
    now = describe_maintenance((names.get(key, key), each) for key, each in snapshot.maintenance.items())
    raise RefusedError(
        f"{counted(total, 'host')} would be in maintenance: expected at most {most}; now {now or 'no host is'};"
        " end a maintenance with 'zkdeployment uncordon', or raise the limit"
    )


def cordoned(snapshot: FleetSnapshot, selection: HostSelection) -> tuple[Maintenance, ...]:
    """Return the maintenance of the selected hosts, which ends.

    Raises ``RefusedError`` if a named host, or all hosts of a role or a rack, are not in maintenance.
    """
    records: Mapping[str, Maintenance] = snapshot.maintenance
    selected = select_identities(snapshot, selection)
    found = tuple(records[identity.id] for identity in selected if identity.id in records)
    missing = [identity.name for identity in selected if identity.id not in records]
    if not found or (selection.hosts and missing):
        name = missing[0] if selection.hosts else f"a host of the {selection}"
        raise RefusedError(f"{name} is not in maintenance, so there is nothing to end; see 'zkdeployment status'")
    return found


#: The limit of services that a sentence names.
_NAMED = 3


def host_id_of(known: Iterable[KnownHost], name: str) -> str:
    """Return the id of the known host with this id or name; else ``name``, as the id of a host.

    Raises ``RefusedError`` if several hosts have the name.
    """
    names = {host.identity.id: host.identity.name for host in known}
    ids = [host_id for host_id in names if names[host_id] == name]
    if name in names or not ids:
        return name
    if len(ids) > 1:
        named = ", ".join(sorted(ids))
        raise RefusedError(f"{len(ids)} hosts are called {name}: {named}; expected one of these ids")
    return ids[0]


def check_departure(snapshot: FleetSnapshot, targets: Targets, gone: Collection[str]) -> None:
    """Raise ``RefusedError`` if one of the hosts with the ids ``gone`` is expected back from a reboot.

    The error is raised also if the tree deploys something that no host runs without these hosts.
    """
    for host_id in gone:
        if (reboot := snapshot.expected_back.get(host_id)) is not None:
            raise RefusedError(f"{reboot.sentence}; wait for the host, or use --force")
    deployed = "; ".join(_deployed_only_there(snapshot, targets, gone))
    if deployed:
        raise RefusedError(f"the tree deploys {deployed}; remove it there, or use --force")


def _deployed_only_there(snapshot: FleetSnapshot, targets: Targets, gone: Collection[str]) -> Iterator[str]:
    """Return the services of each target that only these hosts serve, with the target."""
    known = snapshot.identities
    kept = {name for identity in known if identity.id not in gone for name in identity.target_names}
    services: dict[str, set[str]] = defaultdict(set)
    for identity in known:
        for name in targets_of(identity) if identity.id in gone else ():
            if name not in kept:
                services[name].update(each.path for each in targets.get(name, ()) if each.n)
    return (f"{listing(sorted(services[name]), _NAMED)} to {name}" for name in sorted(services) if services[name])
