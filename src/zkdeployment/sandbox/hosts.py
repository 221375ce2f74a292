"""The hosts of a sandbox, from a number or from a YAML or JSON file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.documents.facts import read_host_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Names of other members of a sandbox, for ``sandbox stop`` and ``sandbox start``.
_OTHER_MEMBERS = re.compile(r"syncer|coordinator|server|pools|nagios|zookeeper\d+")

#: The limit of agents on one machine; a larger number is probably a mistake.
MAX_HOSTS = 1000


def read_hosts(text: str) -> tuple[Host, ...]:
    """Return the hosts that ``text`` specifies: a number of hosts, or the path of a file.

    Raises ``ConfigurationError``.
    """
    if text.isascii() and text.isdigit():
        return numbered(int(text))
    try:
        document = read_host_document(text, Path(text).read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"--hosts: expected a number of hosts or a readable file, found {text}: {error.strerror}"
        ) from error
    values: Any = document.value
    if not values:
        raise ConfigurationError(f"{text}: expected a mapping of host ids to {{name, role, tags, labels, rack}}")
    hosts = tuple(
        _host("{}:{}:{}: {}".format(text, *document.place((host_id,)), host_id), host_id, facts or {})
        for host_id, facts in values.items()
    )
    _check_names(text, hosts)
    return hosts


def numbered(count: int) -> tuple[Host, ...]:
    """Return ``count`` hosts ``host1`` (``host1.sandbox``) and so on; raises ``ConfigurationError``."""
    if not 1 <= count <= MAX_HOSTS:
        raise ConfigurationError(f"--hosts: expected 1 to {MAX_HOSTS} hosts, found {count}")
    return tuple(Host(Identity(f"host{number}", f"host{number}.sandbox")) for number in range(1, count + 1))


def _host(where: str, host_id: str, values: Mapping[str, Any]) -> Host:
    name = values.get("name") or f"{host_id}.sandbox"
    role = values.get("role") or None
    problem = (
        name_problem(NameKind.HOST_ID, host_id)
        or (
            f"{host_id} is the name of another member of the sandbox"
            if _OTHER_MEMBERS.fullmatch(host_id)
            else None
        )
        or name_problem(NameKind.HOST_NAME, name)
        or (name_problem(NameKind.ROLE, role) if role else None)
    )
    if problem:
        raise ConfigurationError(f"{where}: {problem}")
    return Host(
        Identity(host_id, name, role),
        tags=tuple(values.get("tags") or ()),
        labels=values.get("labels") or {},
        rack=values.get("rack") or None,
    )


def _check_names(where: str, hosts: Sequence[Host]) -> None:
    seen: dict[str, str] = {}
    for host in hosts:
        other = seen.setdefault(host.identity.name, host.identity.id)
        if other != host.identity.id:
            raise ConfigurationError(
                f"{where}: {other} and {host.identity.id} have the same name {host.identity.name}"
            )
