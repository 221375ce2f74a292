"""Which hosts a sandbox has: a number, or a YAML or JSON file."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from zkdeployment.errors import ConfigurationError
from zkdeployment.model.host import Host, Identity
from zkdeployment.model.names import Kind, name_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEYS = ("name", "role", "tags", "labels", "rack")

#: ``sandbox stop`` means something else by these.
_TAKEN = re.compile(r"syncer|coordinator|zookeeper\d+")

#: More agents than this on one machine are more likely a mistake than a wish.
MOST = 1000


def read_hosts(text: str) -> tuple[Host, ...]:
    """Return the hosts that ``text`` means: a number of them, or a file of them.

    Raises ``ConfigurationError``.
    """
    if text.isascii() and text.isdigit():
        return numbered(int(text))
    try:
        read = yaml.safe_load(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"--hosts: expected a number of hosts or a file of them, and {text} cannot be read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{text} is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict) or not read:
        raise ConfigurationError(f"{text}: expected a mapping of host ids to {{name, role, tags, labels, rack}}")
    hosts = tuple(_host(f"{text}: {host_id}", str(host_id), values) for host_id, values in read.items())
    _check_names(text, hosts)
    return hosts


def numbered(count: int) -> tuple[Host, ...]:
    """Return ``host1`` (``host1.sandbox``) and so on; raises ``ConfigurationError``."""
    if not 1 <= count <= MOST:
        raise ConfigurationError(f"--hosts: expected 1 to {MOST} hosts, not {count}")
    return tuple(Host(Identity(f"host{number}", f"host{number}.sandbox")) for number in range(1, count + 1))


def _host(where: str, host_id: str, values: object) -> Host:
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise ConfigurationError(f"{where}: expected a mapping with {', '.join(_KEYS)}")
    for key in values:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; expected {', '.join(_KEYS)}"
            raise ConfigurationError(f"{where}: unknown key {key!r}{hint}")
    name = _text(where, values, "name") or f"{host_id}.sandbox"
    role = _text(where, values, "role")
    problem = (
        name_problem(Kind.HOST_ID, host_id)
        or (f"{host_id} is the name of another part of the sandbox" if _TAKEN.fullmatch(host_id) else None)
        or name_problem(Kind.HOST_NAME, name)
        or (name_problem(Kind.ROLE, role) if role else None)
    )
    if problem:
        raise ConfigurationError(f"{where}: {problem}")
    tags = values.get("tags") or []
    labels = values.get("labels") or {}
    if not isinstance(tags, list) or not isinstance(labels, dict):
        raise ConfigurationError(f"{where}: expected a list of tags and a mapping of labels")
    return Host(
        Identity(host_id, name, role),
        tags=tuple(str(tag) for tag in tags),
        labels={str(key): str(value) for key, value in labels.items()},
        rack=_text(where, values, "rack"),
    )


def _text(where: str, values: dict[Any, Any], key: str) -> str | None:
    match values.get(key):
        case None | "":
            return None
        case str() | int() as value:
            return str(value)
        case value:
            raise ConfigurationError(f"{where}: expected text as {key}, not {value!r}")


def _check_names(where: str, hosts: Sequence[Host]) -> None:
    seen: dict[str, str] = {}
    for host in hosts:
        other = seen.setdefault(host.identity.name, host.identity.id)
        if other != host.identity.id:
            raise ConfigurationError(
                f"{where}: {other} and {host.identity.id} have one name, {host.identity.name}"
            )
