"""Properties that a request demands from nodes: an equality, or a bound of a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.text import printable
from zkdeployment.pools.rules.node import PASSING_DATA, NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.pools.rules.node import PoolNode

PropertyValue: TypeAlias = "str | int | float | bool"

#: The most properties in one part of a request.
MOST_PROPERTIES = 20

_WRITTEN = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,99})(?P<relation>>=|<=|=)(?P<value>[^\s\x00-\x1f].{0,199})"
)
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)

#: The states of nodes whose properties are not known yet.
_UNKNOWN = frozenset({NodeState.UNUSED, NodeState.PROVISIONING})

#: The most values, and names of properties, that a message lists.
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class NodeProperty:
    """A demand on a node: the name of a property, ``=``, ``>=`` or ``<=``, and a value in its written form."""

    name: str
    relation: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{self.relation}{self.value}"

    def accepts(self, found: PropertyValue) -> bool:
        """Whether a node with this value meets the demand; texts that are numbers count as numbers for bounds."""
        if self.relation == "=":
            return self.value == _text(found) or _are_equal_numbers(self.value, found)
        bound, number = _number(self.value), _number(_text(found))
        if bound is None or number is None:
            return False
        return number >= bound if self.relation == ">=" else number <= bound


def read_property(text: str) -> NodeProperty:
    """Parse a demand, such as ``arch=x86_64`` or ``memory>=16``; raises ``ValueError``."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(f"expected NAME=VALUE, NAME>=NUMBER or NAME<=NUMBER such as memory>=16, found {text!a}")
    if match["relation"] != "=" and _number(match["value"]) is None:
        raise ValueError(f"expected a number after {match['relation']} in {text!a}, found {match['value']!a}")
    return NodeProperty(match["name"], match["relation"], match["value"])


def read_properties(texts: Sequence[str]) -> tuple[NodeProperty, ...]:
    """Parse demands; raises ``ValueError``, also for too many demands."""
    if len(texts) > MOST_PROPERTIES:
        raise ValueError(f"expected at most {MOST_PROPERTIES} properties, found {len(texts)}")
    return tuple(map(read_property, texts))


def node_properties(node: PoolNode) -> Mapping[str, PropertyValue]:
    """Return the properties of a node.

    Properties are its ``hostname``, ``ipaddr`` and ``host``, the values in its data, and the result of
    provisioning; later sources override earlier ones. Lists and objects are not properties.
    """
    provision = node.data.get("provision")
    found = {
        "hostname": node.hostname,
        "ipaddr": node.ipaddr,
        "host": node.host,
        **{name: value for name, value in node.data.items() if name not in PASSING_DATA},
        **(provision if isinstance(provision, Mapping) else {}),
    }
    return {name: value for name, value in found.items() if isinstance(value, str | int | float)}


def meets(node: PoolNode, properties: Sequence[NodeProperty]) -> bool:
    """Whether a node meets all demands."""
    if not properties:
        return True
    found = node_properties(node)
    return all(wanted.name in found and wanted.accepts(found[wanted.name]) for wanted in properties)


def unknown_property(pool: str, properties: Iterable[NodeProperty], nodes: Iterable[PoolNode]) -> str | None:
    """Return the demanded property that no node of a pool has, with the existing ones; ``None``: all are known."""
    known = _known(pool, nodes)
    names = sorted({name for found in known for name in found})
    for wanted in properties:
        if known and wanted.name not in names:
            shown = _listed(names)
            return f"no node of the pool {pool} has the property {wanted.name!a}; the properties are: {shown}"
    return None


def unmet_property(pool: str, properties: Iterable[NodeProperty], nodes: Iterable[PoolNode]) -> str | None:
    """Return the demand that no node of a pool meets, with the values found; ``None`` if all are met."""
    known = _known(pool, nodes)
    for wanted in properties:
        values = [found[wanted.name] for found in known if wanted.name in found]
        if known and not any(map(wanted.accepts, values)):
            shown = _listed(sorted({_text(value) for value in values}))
            return f"no node of the pool {pool} has {wanted}; found: {shown}"
    return None


def _known(pool: str, nodes: Iterable[PoolNode]) -> list[Mapping[str, PropertyValue]]:
    return [node_properties(node) for node in nodes if node.pool == pool and node.state not in _UNKNOWN]


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return ", ".join(printable(text)[:100] for text in texts[:_MOST_SHOWN]) + more


def _text(value: PropertyValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _are_equal_numbers(text: str, found: PropertyValue) -> bool:
    """Whether a number in text form equals a found number; a found text is never a number."""
    return not isinstance(found, str | bool) and _number(text) == found
