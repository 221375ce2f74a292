"""The hosts of the fleet as a dynamic inventory of Ansible: groups, and the variables of each host."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import short
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.host import Identity
from zkdeployment.publishing.targets.services import unchecked_assignments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.host import Facts
    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.fleet.views.status import FleetStatus, HostStatus

#: The characters that Ansible does not accept in the name of a group.
_INVALID = re.compile(r"[^A-Za-z0-9_]+")

#: The key of a text that Ansible does not evaluate, and the prefix of all keys to which Ansible gives a meaning.
_UNSAFE = "__ansible_unsafe"
_SPECIAL = "__ansible_"


@dataclass(frozen=True, slots=True)
class AnsibleInventory:
    """The ``groups`` with their hosts, and the ``variables`` of each host, by its name in the inventory.

    The name is the fully qualified name of the host, or its id if several hosts have that name. All texts in the
    answers are marked as unsafe: hosts write many of them, and Ansible evaluates templates in unmarked variables.
    """

    groups: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the answer to ``--list``, which has the variables of all hosts, so that Ansible asks once."""
        groups = {name: {"hosts": list(hosts)} for name, hosts in self.groups.items()}
        return {**groups, "_meta": {"hostvars": _marked(self.variables)}}

    def host(self, name: str) -> dict[str, Any]:
        """Return the variables of a host, by its name in the inventory or its id; raises ``NotFoundError``."""
        if name in self.variables:
            return dict(_marked(self.variables[name]))
        for values in self.variables.values():
            if values["zkdeployment_id"] == name:
                return dict(_marked(values))
        raise NotFoundError(f"no host has the name or the id {name}; 'zkdeployment status' lists all hosts")


def _marked(value: Any) -> Any:
    """Return a value with all texts in it marked as unsafe, without keys to which Ansible gives a meaning."""
    match value:
        case str():
            return {_UNSAFE: value.encode(errors="replace").decode()}
        case Mapping():
            return {key: _marked(item) for key, item in value.items() if not key.startswith(_SPECIAL)}
        case list() | tuple():
            return [_marked(item) for item in value]
    return value


def ansible_inventory(status: FleetStatus, snapshot: FleetSnapshot, targets: Targets) -> AnsibleInventory:
    """Return the inventory of all registered and absent hosts, sorted by name."""
    times = Counter(host.name for host in status.hosts)
    facts, addresses = snapshot.facts, _addresses(snapshot)
    members: dict[tuple[str, str], list[str]] = {}
    variables: dict[str, dict[str, Any]] = {}
    for host in status.hosts:
        name = host.name if times[host.name] == 1 else host.id
        if name.startswith("-"):  # ssh would read the name as an option
            continue
        services = unchecked_assignments(Identity(host.id, host.name, host.role), targets)
        for group in _groups(host, facts[host.id], services):
            members.setdefault(group, []).append(name)
        variables[name] = _variables(host, facts[host.id], addresses.get(host.id), services)
    names = _group_names(members)
    groups = {names[group]: tuple(hosts) for group, hosts in members.items()}
    return AnsibleInventory(dict(sorted(groups.items())), variables)


def _addresses(snapshot: FleetSnapshot) -> dict[str, str]:
    known = {host.identity.id: host.address for host in snapshot.absent}
    known |= {host.identity.id: host.address for host in snapshot.hosts}
    return {host_id: address for host_id, address in known.items() if address is not None and _is_ip(address)}


def _is_ip(address: str) -> bool:
    """Whether an address is an IP address; ssh could read another text as an option, or as another host."""
    try:
        return not getattr(ipaddress.ip_address(address), "scope_id", None)
    except ValueError:
        return False


def _groups(host: HostStatus, facts: Facts, services: Iterable[Assignment]) -> Iterator[tuple[str, str]]:
    """Yield the groups of a host: the property that makes the group, and its value."""
    yield "state", host.state.value
    yield "revision", short(host.version) if host.version is not None else "none"
    if host.role is not None:
        yield "role", host.role
    yield from (("tag", tag) for tag in sorted(facts.tags))
    yield from (("label", f"{key}={value}") for key, value in sorted(facts.labels.items()))
    if facts.rack is not None:
        yield "rack", facts.rack
    yield from (("service", service.path.removeprefix("/")) for service in services)


def _group_names(groups: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a valid and unique name for each group.

    Values that differ only in invalid characters would be one group for Ansible: their names get a digest.
    """
    plain = {group: _INVALID.sub("_", "_".join(group)) for group in groups}
    times = Counter(plain.values())
    return {
        group: name if times[name] == 1 else f"{name}_{hashlib.sha256(group[1].encode()).hexdigest()[:8]}"
        for group, name in plain.items()
    }


def _variables(
    host: HostStatus, facts: Facts, address: str | None, services: Iterable[Assignment]
) -> dict[str, Any]:
    found = {
        "ansible_host": address,
        "zkdeployment_id": host.id,
        "zkdeployment_name": host.name,
        "zkdeployment_role": host.role,
        "zkdeployment_rack": facts.rack,
        "zkdeployment_tags": sorted(facts.tags),
        "zkdeployment_labels": dict(facts.labels),
        "zkdeployment_state": host.state.value,
        "zkdeployment_version": host.version,
        "zkdeployment_wanted": host.wanted,
        "zkdeployment_error": host.error,
        "zkdeployment_services": [service.to_json() for service in services],
    }
    return {name: value for name, value in found.items() if name != "ansible_host" or value is not None}
