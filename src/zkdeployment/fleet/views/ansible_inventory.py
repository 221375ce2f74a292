"""The hosts of the fleet as a dynamic inventory of Ansible: groups, and the variables of each host."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment.base.cluster import short
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.host import Facts, Identity
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.targets.services import unchecked_assignments

if TYPE_CHECKING:
    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.fleet.views.status import FleetStatus, HostStatus

#: The characters that Ansible does not accept in the name of a group.
_INVALID = re.compile(r"[^A-Za-z0-9_]+")

#: The end of names that are unique by a digest. Its length keeps hosts from choosing another value for a name.
_DIGITS = 16
_DIGEST = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}")

#: The names of hosts to which Ansible gives a meaning: its own groups, and the machine on which it runs.
_RESERVED = frozenset({"all", "ungrouped", "localhost", "127.0.0.1"})

#: The beginning of names of groups, and of names that hosts get from their ids.
_OWN = re.compile(r"(?:state|revision|role|tag|label|rack|service|host)_")

#: The key of a text that Ansible does not evaluate, and the prefix of all keys to which Ansible gives a meaning.
_UNSAFE = "__ansible_unsafe"
_SPECIAL = "__ansible_"


class InventoryNames(NamedTuple):
    """The choices for the names in an inventory.

    ``prefix`` begins the names of all groups. ``site`` is the key of the label with the site of a host: the racks
    of a site become groups within the group of its label. With ``by_id``, hosts have their ids as names.
    """

    prefix: str = ""
    site: str | None = None
    by_id: bool = False


@dataclass(frozen=True, slots=True)
class AnsibleInventory:
    """The ``groups`` with their hosts, and the ``variables`` of each host, by its name in the inventory.

    ``children`` are the groups within other groups. The name of a host is its fully qualified name, or its id if
    the name could stand for something else: for another host, for a group, or for a pattern or a machine to which
    Ansible gives a meaning. All texts in the answers are marked as unsafe: hosts write many of them, and Ansible
    evaluates templates in unmarked variables.
    """

    groups: Mapping[str, tuple[str, ...]]
    children: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the answer to ``--list``, which has the variables of all hosts, so that Ansible asks once."""
        groups = {name: {"hosts": list(hosts)} for name, hosts in self.groups.items()}
        for name, children in self.children.items():
            groups[name]["children"] = list(children)
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


class _Group(NamedTuple):
    """A group: its name as people would write it, and the values that distinguish it from other groups."""

    title: str
    values: tuple[object, ...]


def ansible_inventory(
    status: FleetStatus, snapshot: FleetSnapshot, targets: Targets, choices: InventoryNames
) -> AnsibleInventory:
    """Return the inventory of all registered and absent hosts, sorted by name."""
    times = Counter(host.name for host in status.hosts)
    ids = {host.id for host in status.hosts}
    facts, addresses = snapshot.facts, _addresses(snapshot)
    members: dict[_Group, list[str]] = {}
    racks: dict[_Group, set[_Group]] = {}
    variables: dict[str, dict[str, Any]] = {}
    for host in status.hosts:
        is_ambiguous = host.name != host.id and (times[host.name] > 1 or host.name in ids)
        name = _host_name(host, choices, is_ambiguous=is_ambiguous)
        services = unchecked_assignments(Identity(host.id, host.name, host.role), targets)
        for group in _groups(host, facts[host.id], services):
            members.setdefault(group, []).append(name)
        if (nested := _rack_in_site(facts[host.id], choices.site)) is not None:
            site, rack = nested
            members.setdefault(rack, []).append(name)
            racks.setdefault(site, set()).add(rack)
        variables[name] = _variables(host, facts[host.id], addresses.get(host.id), services)
    names = {group: f"{choices.prefix}{name}" for group, name in _group_names(members).items()}
    groups = {names[group]: tuple(hosts) for group, hosts in members.items()}
    children = {names[site]: tuple(sorted(names[rack] for rack in inside)) for site, inside in racks.items()}
    return AnsibleInventory(dict(sorted(groups.items())), children, variables)


def _host_name(host: HostStatus, choices: InventoryNames, *, is_ambiguous: bool) -> str:
    """Return the name of a host in the inventory.

    ``is_ambiguous`` is whether the name of the host is also the name or the id of another host.
    """
    if not choices.by_id and not is_ambiguous and _is_free(host.name, choices.prefix):
        return host.name
    return host.id if _is_free(host.id, choices.prefix) else _unique(f"host_{host.id}", (host.id,))


def _is_free(name: str, prefix: str) -> bool:
    """Whether Ansible and ssh read a text as the name of a host, and as nothing else.

    ``prefix`` begins the names of groups.
    """
    own = _OWN.match(name) or _OWN.match(name.removeprefix(prefix))
    has_meaning = name.lower() in _RESERVED or own is not None
    return is_name(NameKind.HOST_NAME, name) and not has_meaning


def _addresses(snapshot: FleetSnapshot) -> dict[str, str]:
    known = {host.identity.id: host.address for host in snapshot.absent}
    known |= {host.identity.id: host.address for host in snapshot.hosts}
    return {host_id: address for host_id, address in known.items() if address is not None and _is_remote(address)}


def _is_remote(address: str) -> bool:
    """Whether an address is the IP address of another machine than the one on which Ansible runs.

    ssh could read another text as an option, or as the name of another host.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return not (found.is_loopback or found.is_unspecified or getattr(found, "scope_id", None))


def _groups(host: HostStatus, facts: Facts, services: Iterable[Assignment]) -> Iterator[_Group]:
    state, version = host.state.value, host.version
    yield _Group(f"state_{state}", (state,))
    yield _Group(f"revision_{'none' if version is None else short(version)}", (version,))
    if host.role is not None:
        yield _Group(f"role_{host.role}", (host.role,))
    yield from (_Group(f"tag_{tag}", (tag,)) for tag in sorted(facts.tags))
    yield from (_label(key, value) for key, value in sorted(facts.labels.items()))
    if facts.rack is not None:
        yield _Group(f"rack_{facts.rack}", (facts.rack,))
    paths = (service.path.removeprefix("/") for service in services)
    yield from (_Group(f"service_{path}", (path,)) for path in paths)


def _label(key: str, value: str) -> _Group:
    return _Group(f"label_{key}_{value}", (key, value))


def _rack_in_site(facts: Facts, key: str | None) -> tuple[_Group, _Group] | None:
    """Return the group of a host's site, and of the rack in this site; ``None`` if the host lacks one of them.

    Racks in different sites may have the same name.
    """
    site = None if key is None else facts.labels.get(key)
    if key is None or site is None or facts.rack is None:
        return None
    return _label(key, site), _Group(f"rack_{site}_{facts.rack}", (site, facts.rack))


def _group_names(groups: Iterable[_Group]) -> dict[_Group, str]:
    """Return a valid and unique name for each group.

    Groups whose titles differ only in invalid characters would be one group for Ansible: their names get a digest,
    and so does a name that ends in the form of a digest.
    """
    plain = {group: _INVALID.sub("_", group.title) for group in groups}
    times = Counter(plain.values())
    return {
        group: name if times[name] == 1 and not _DIGEST.search(name, len(name) - 1 - _DIGITS) else _unique(*group)
        for group, name in plain.items()
    }


def _unique(title: str, values: tuple[object, ...]) -> str:
    """Return a valid name that no other values with this beginning have."""
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    return f"{_INVALID.sub('_', title)}_{digest[:_DIGITS]}"


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
