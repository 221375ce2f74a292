"""Decides whether absent hosts may be forgotten: not while only they serve a target of the tree."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.text import listing
from zkdeployment.publishing.targets.services import targets_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot

#: The limit of services that a sentence names.
_NAMED = 3


def host_id_of(known: Iterable[KnownHost], name: str) -> str:
    """Return the id of the known host with this id or unambiguous name; else ``name``, as the id of a host."""
    names = {host.identity.id: host.identity.name for host in known}
    ids = [host_id for host_id in names if names[host_id] == name]
    return ids[0] if name not in names and len(ids) == 1 else name


def check_departure(snapshot: FleetSnapshot, targets: Targets, gone: Collection[str]) -> None:
    """Raise ``RefusedError`` if the tree deploys something that no host runs without the hosts with these ids."""
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
