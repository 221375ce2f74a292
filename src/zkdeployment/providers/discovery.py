"""Service discovery: the registered instances of a service as targets in the form that Prometheus reads.

All registered instances are targets, also those that a split update has not put into service yet: they run.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from zkdeployment.base.records import Key, Record
from zkdeployment.base.values import dataclass
from zkdeployment.providers.selection import provider_version
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import is_path

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Properties
    from zkdeployment.providers.settings import DiscoverySettings

#: The beginning of the names of labels. Prometheus drops such labels unless relabelling gives them other names.
_PREFIX = "__meta_zkdeployment_"

#: The node below a service at which its instances register.
PROVIDERS = "/providers"

#: The address of an instance: a host or an IPv6 address in brackets, and usually a port.
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)

_LARGEST_PORT = 65535

#: The most digits of a number in a text.
_MOST_DIGITS = 20

#: The path of metrics, without a query.
_METRICS_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,199}")

#: The most characters in the value of a label from a property, and of a value in a problem.
_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class TargetGroup(Record):
    """The address to scrape of one instance, and its labels."""

    targets: tuple[str, ...]
    labels: Annotated[
        Mapping[str, str],
        Key(
            about="`__meta_zkdeployment_service`, `_instance`, `_revision`, `_host` and `_role`, where known, and"
            " the labels of `[discovery]` in the configuration: `__meta_zkdeployment_label_NAME`,"
            " `__metrics_path__` and `__scheme__`."
        ),
    ]


class Discovery(NamedTuple):
    """The targets, by address, and the problems of omitted instances."""

    groups: tuple[TargetGroup, ...] = ()
    problems: tuple[str, ...] = ()


def service_of(path: str) -> str:
    """Return the path of the service whose instances register at a path."""
    return path.removesuffix(PROVIDERS) or path


def discover(
    service: str,
    instances: Mapping[str, Properties],
    roles: Mapping[str, str],
    port: str | None,
    settings: DiscoverySettings,
) -> Discovery:
    """Return the targets of a service; ``instances`` maps addresses to properties, ``roles`` host ids to roles.

    ``port`` is the property with the port of the metrics; ``None``: the port in the address of the instance.
    ``settings`` are the other properties that become labels.
    """
    groups, problems = [], []
    for address, properties in sorted(instances.items()):
        try:
            target = _target(address, properties, port)
            request = dict(_request_labels(properties, settings))
        except ValueError as error:
            problems.append(f"instance {address} of {service} is no target: {error}")
            continue
        host = host_of(properties)
        labels = {
            "service": service,
            "instance": address,
            "revision": provider_version(properties),
            "host": host,
            "role": roles.get(host, ""),
            **{f"label_{name}": _label_value(properties.get(key)) for name, key in settings.labels.items()},
        }
        shown = {f"{_PREFIX}{name}": value for name, value in labels.items() if value}
        groups.append(TargetGroup((target,), shown | request))
    return Discovery(tuple(groups), tuple(problems))


def host_of(properties: Properties) -> str:
    """Return the id of the host of an instance; empty if the instance does not name its host."""
    host = properties.get("host")
    return host if isinstance(host, str) else ""


def hosts_of(instances: Collection[Properties]) -> list[str]:
    """Return the ids of the hosts of instances that can be names of nodes."""
    found = {host_of(properties) for properties in instances}
    return sorted(host for host in found if "/" not in host and is_path(f"{paths.HOSTS}/{host}"))


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of an instance's address; raises ``ValueError`` with what was expected."""
    host, port = _host_and_port(address)
    if port is None:
        raise ValueError("expected a port in its address, found none")
    return host, _port(port, "its address")


def whole_number(value: Any, least: int, most: int, noun: str, place: str) -> int:
    """Return a number from ``least`` to ``most``, also from its digits; raises ``ValueError`` with the place."""
    text = value.strip() if isinstance(value, str) else ""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    number = int(text) if is_number else value if type(value) is int else None
    if number is None or not least <= number <= most:
        raise ValueError(f"expected {noun} from {least} to {most} in {place}, found {_found(value)}")
    return number


def _label_value(value: Any) -> str:
    """Return the value of a property as the value of a label; empty if a label cannot have it."""
    text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, int | float) else ""
    return "".join(c if c.isprintable() else "?" for c in text[:_MOST_CHARACTERS])


def _request_labels(properties: Properties, settings: DiscoverySettings) -> Iterator[tuple[str, str]]:
    """Yield the labels that decide how Prometheus scrapes an instance.

    Raises ``ValueError`` with what was expected.
    """
    path = None if settings.metrics_path is None else properties.get(settings.metrics_path)
    if path is not None:
        if not (isinstance(path, str) and _METRICS_PATH.fullmatch(path)):
            place = f"the property {settings.metrics_path}"
            raise ValueError(f"expected a path such as /metrics in {place}, found {_found(path)}")
        yield "__metrics_path__", path
    scheme = None if settings.scheme is None else properties.get(settings.scheme)
    if scheme is not None:
        if not (isinstance(scheme, str) and scheme in {"http", "https"}):
            place = f"the property {settings.scheme}"
            raise ValueError(f"expected http or https in {place}, found {_found(scheme)}")
        yield "__scheme__", scheme


def _found(value: Any) -> str:
    """Return a value for a problem, in ASCII and not longer than a line."""
    return ascii(value)[:_MOST_CHARACTERS]


def _target(address: str, properties: Properties, port: str | None) -> str:
    """Return the address to scrape; raises ``ValueError`` with what was expected."""
    if port is None:
        host, number = split_address(address)
        return f"{host}:{number}"
    host, _ = _host_and_port(address)
    place = f"the property {port}"
    if (value := properties.get(port)) is None:
        raise ValueError(f"expected {place} with a port, found none")
    return f"{host}:{_port(value, place)}"


def _host_and_port(address: str) -> tuple[str, str | None]:
    """Return the host, with an IPv6 address in its shortest form, and the text of the port, if there is one."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError("expected an address such as app1:8080 or [2001:db8::1]:8080")
    host, port = match["host"], match["port"]
    if host.startswith("["):
        try:
            host = f"[{ipaddress.IPv6Address(host[1:-1])}]"
        except ValueError:
            raise ValueError(f"expected an IPv6 address in brackets, found {host}") from None
    return host, port


def _port(value: Any, place: str) -> int:
    return whole_number(value, 1, _LARGEST_PORT, "a port", place)
