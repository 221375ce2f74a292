"""The map of hosts, in parts by rollout group, role, rack or service: tiles for few hosts, blocks for many.

Blocks flow into as many columns as the screen has room for. A change of a host changes one block. The sequence of
all blocks numbers the places of the map: a hundred for each block.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.columns import NAME
from zkdeployment.service.views.frame import host_page
from zkdeployment.service.views.hosts import PAGE_SIZE, SIGNS, HostQuery, StateSign, count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.fleet.views.status import HostState, HostStatus


class MapOrder(Enum):
    """The arrangement of the map; the value is that of the parameter ``map``."""

    NAME = "name"
    GROUP = "group"
    ROLE = "role"
    RACK = "rack"
    SERVICE = "service"

    @classmethod
    def of(cls, query: HostQuery) -> MapOrder:
        """Return the arrangement that a view asks for."""
        name = dict(query.kept).get("map", "")
        return next((order for order in cls if order.value == name), cls.NAME)


_TITLES = {
    MapOrder.NAME: "Name",
    MapOrder.GROUP: "Rollout group",
    MapOrder.ROLE: "Role",
    MapOrder.RACK: "Rack",
    MapOrder.SERVICE: "Service",
}

#: The titles of the part with hosts that have no such property.
_WITHOUT = {
    MapOrder.GROUP: "in no group",
    MapOrder.ROLE: "no role",
    MapOrder.RACK: "no rack",
    MapOrder.SERVICE: "no service",
}

#: The most parts of a map, and the most places; the last part has the other hosts.
_MOST_PARTS = 200
_MOST_PLACES = 12_000
_OTHERS = "others"

#: Up to this number of hosts, each has a tile with its name.
MOST_TILES = 60

_COLUMNS = 10
_CELLS = _COLUMNS * _COLUMNS
_UNIT = 10

#: The sizes of blocks by the number of hosts, up to which each applies.
_SIZES = ((400, "large"), (2000, "medium"))


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The hosts on the map: ``parts`` with a title and hosts; ``orders`` are those that a person can choose."""

    order: MapOrder
    parts: tuple[tuple[str, tuple[HostStatus, ...]], ...]
    orders: tuple[MapOrder, ...] = (MapOrder.NAME,)

    def hosts_of(self, part: str) -> Sequence[HostStatus] | None:
        """Return the hosts of the part with a title; ``None`` if there is no such part."""
        return next((hosts for title, hosts in self.parts if title == part and title), None)

    def admitted(self, query: HostQuery) -> HostQuery:
        """Return a view without its limit to a part of the map if the map has no such part."""
        is_known = not query.part or self.hosts_of(query.part) is not None
        return query if is_known else query.limited_to("")

    def blocks(self) -> Iterator[tuple[str, int, tuple[HostStatus, ...]]]:
        """Yield the blocks in the order of their numbers: the title of the part, the first place in it, hosts."""
        for title, hosts in self.parts:
            for first in range(0, len(hosts), _CELLS):
                yield title, first, hosts[first : first + _CELLS]

    def host_at(self, place: int) -> HostStatus | None:
        """Return the host at a place of the map; ``None`` for an empty place."""
        for number, (_, _, hosts) in enumerate(self.blocks()):
            if number == place // _CELLS:
                return hosts[place % _CELLS] if place % _CELLS < len(hosts) else None
        return None


def arrange(
    hosts: Sequence[HostStatus],
    query: HostQuery,
    snapshot: FleetSnapshot,
    services: Callable[[], Mapping[str, Collection[str]]] = dict,
) -> Arrangement:
    """Return the arrangement of hosts, which are sorted by name, that a view asks for.

    ``services`` returns the ids of the hosts of each service; it is called only where they are needed. An
    arrangement that tells nothing about this fleet is replaced by that by name.
    """
    facts = snapshot.facts
    racks = {host: found.rack for host, found in facts.items() if found.rack}
    offered = {
        MapOrder.NAME: True,
        MapOrder.GROUP: snapshot.rollout is not None,
        MapOrder.ROLE: any(host.role for host in hosts),
        MapOrder.RACK: bool(racks),
        MapOrder.SERVICE: bool(snapshot.targets),
    }
    orders = tuple(order for order in MapOrder if offered[order])
    order = MapOrder.of(query)
    match order:
        case MapOrder.GROUP if snapshot.rollout is not None:
            rollout = snapshot.rollout.rollout
            members = [(group.name, rollout.members[group.name]) for group in rollout.strategy.groups]
            parts = _by_membership(hosts, members, _WITHOUT[order])
        case MapOrder.ROLE if offered[order]:
            parts = _by_title(hosts, lambda host: host.role, _WITHOUT[order])
        case MapOrder.RACK if offered[order]:
            parts = _by_title(hosts, lambda host: racks.get(host.id), _WITHOUT[order])
        case MapOrder.SERVICE if offered[order]:
            parts = _by_membership(hosts, sorted(services().items()), _WITHOUT[order])
        case _:
            return Arrangement(MapOrder.NAME, (("", tuple(hosts)),) if hosts else (), orders)
    return Arrangement(order, tuple(_bounded(parts, hosts)), orders)


def _by_title(
    hosts: Sequence[HostStatus], title_of: Callable[[HostStatus], str | None], without: str
) -> Iterator[tuple[str, tuple[HostStatus, ...]]]:
    """Yield each title with its hosts, sorted; hosts without a title come last."""
    found: dict[str, list[HostStatus]] = {}
    for host in hosts:
        found.setdefault(title_of(host) or "", []).append(host)
    rest = found.pop("", [])
    yield from ((title, tuple(found[title])) for title in sorted(found))
    if rest:
        yield without, tuple(rest)


def _by_membership(
    hosts: Sequence[HostStatus], members: Iterable[tuple[str, Collection[str]]], without: str
) -> Iterator[tuple[str, tuple[HostStatus, ...]]]:
    """Yield each title with its hosts, of which each may have several titles; then the hosts without a title."""
    by_id = {host.id: host for host in hosts}
    places = {host.id: place for place, host in enumerate(hosts)}
    shown: set[str] = set()
    for title, ids in members:
        known = sorted((each for each in ids if each in by_id), key=places.__getitem__)
        if known:
            shown.update(known)
            yield title, tuple(by_id[each] for each in known)
    rest = tuple(host for host in hosts if host.id not in shown)
    if rest:
        yield without, rest


def _bounded(
    parts: Iterable[tuple[str, tuple[HostStatus, ...]]], hosts: Sequence[HostStatus]
) -> Iterator[tuple[str, tuple[HostStatus, ...]]]:
    """Yield the parts for which the map has room, and then one with the hosts that these do not contain."""
    shown: set[str] = set()
    places = 0
    for number, (title, found) in enumerate(parts):
        places += len(found)
        if number >= _MOST_PARTS or (places > _MOST_PLACES and number):
            rest = tuple(host for host in hosts if host.id not in shown)
            if rest:
                yield _OTHERS, rest
            return
        shown.update(host.id for host in found)
        yield title, found


@dataclass(frozen=True, slots=True)
class MapChoice:
    """A link to the map in another arrangement."""

    title: str
    href: str
    selected: bool


@dataclass(frozen=True, slots=True)
class HostTile:
    """A host with its name on the map; ``dim``: the filters do not select it."""

    name: str
    href: str
    sign: StateSign
    dim: bool = False


@dataclass(frozen=True, slots=True)
class HostBlock:
    """At most a hundred hosts of a part in the order of their names; ``number`` is from 0.

    ``outlines`` are the shapes of all hosts in one state, as classes and an SVG path, the most urgent last, so
    that their halos are on top. ``label`` names the first and the last host and counts the states. ``href`` is
    the page of the list that begins with these hosts.
    """

    number: int
    hosts: int
    label: str
    href: str
    height: int
    outlines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MapPart:
    """A part of the map with its heading: the title, the states of its hosts, and the view limited to them."""

    number: int
    title: str
    total: str
    counts: tuple[tuple[StateSign, int], ...]
    href: str
    selected: bool
    tiles: tuple[HostTile, ...] = ()
    blocks: tuple[HostBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class HostMap:
    """The map: parts with tiles, or with blocks of a ``size``; ``choices`` are its arrangements.

    ``mark`` identifies the places of all hosts and the filters. A browser that shows a map with another mark needs
    the whole map.
    """

    mark: str
    order: str = MapOrder.NAME.value
    parts: tuple[MapPart, ...] = ()
    size: str = "small"
    choices: tuple[MapChoice, ...] = ()


def map_mark(arrangement: Arrangement, query: HostQuery) -> str:
    """Return the mark of a map."""
    text = "\n".join(f"{title}\t{' '.join(host.id for host in hosts)}" for title, hosts in arrangement.parts)
    view = f"{query.text}\n{query.part}\n{' '.join(query.state_names)}"
    return f"{zlib.crc32(text.encode()):08x}{zlib.crc32(view.encode()):08x}"


def host_map(arrangement: Arrangement, query: HostQuery, changed: Collection[str] | None = None) -> HostMap:
    """Return the map of arranged hosts; hosts that the filters of the view do not select are dim.

    With the ids of ``changed`` hosts, only the blocks that contain one of them, and their parts, are included.
    """
    total = sum(len(hosts) for _, hosts in arrangement.parts)
    chosen = arrangement.hosts_of(query.part)
    in_part = None if chosen is None else {host.id for host in chosen}

    def is_dim(host: HostStatus) -> bool:
        return not query.admits(host) or (in_part is not None and host.id not in in_part)

    never = not query.is_filtered
    parts = []
    number = 0
    for place, (title, hosts) in enumerate(arrangement.parts):
        part_query = query.limited_to(title) if title else query
        tiles: tuple[HostTile, ...] = ()
        blocks: list[HostBlock] = []
        if total <= MOST_TILES:
            tiles = tuple(
                HostTile(host.name, host_page(host.id), SIGNS[host.state], not never and is_dim(host))
                for host in hosts
            )
        else:
            for first in range(0, len(hosts), _CELLS):
                content = hosts[first : first + _CELLS]
                if changed is None or any(host.id in changed for host in content):
                    dim = frozenset() if never else frozenset(host.id for host in content if is_dim(host))
                    blocks.append(_block(number, first, content, part_query, dim))
                number += 1
        if changed is None or tiles or blocks:
            parts.append(_part(place, title, hosts, query, tiles, tuple(blocks)))
    size = next((name for most, name in _SIZES if total <= most), "small")
    choices = tuple(
        MapChoice(_TITLES[order], query.arranged(order.value).address, order is arrangement.order)
        for order in arrangement.orders
    )
    mark = map_mark(arrangement, query)
    return HostMap(mark, arrangement.order.value, tuple(parts), size, choices if len(choices) > 1 else ())


def _part(
    number: int,
    title: str,
    hosts: Sequence[HostStatus],
    query: HostQuery,
    tiles: tuple[HostTile, ...],
    blocks: tuple[HostBlock, ...],
) -> MapPart:
    counts: dict[HostState, int] = {}
    for host in hosts:
        counts[host.state] = counts.get(host.state, 0) + 1
    selected = bool(title) and query.part == title
    return MapPart(
        number=number,
        title=title,
        total=count_text(len(hosts), "host"),
        counts=tuple((sign, counts[state]) for state, sign in SIGNS.items() if state in counts),
        href=query.limited_to("" if selected else title).address,
        selected=selected,
        tiles=tiles,
        blocks=blocks,
    )


def _block(
    number: int, first: int, hosts: Sequence[HostStatus], query: HostQuery, dim: Collection[str]
) -> HostBlock:
    outlines: dict[tuple[HostState, bool], list[str]] = {}
    counts: dict[HostState, int] = {}
    for place, host in enumerate(hosts):
        row, column = divmod(place, _COLUMNS)
        start = f"M{column * _UNIT} {row * _UNIT}"
        outlines.setdefault((host.state, host.id in dim), []).append(start + SIGNS[host.state].outline)
        counts[host.state] = counts.get(host.state, 0) + 1
    named = ", ".join(f"{counts[state]} {sign.name}" for state, sign in SIGNS.items() if state in counts)
    page = first // PAGE_SIZE + 1
    return HostBlock(
        number=number,
        hosts=len(hosts),
        label=f"{hosts[0].name} to {hosts[-1].name}: {named}",
        href=replace(query.unfiltered, sort=NAME, descending=False, page=page).address,
        height=-(-len(hosts) // _COLUMNS) * _UNIT,
        outlines=tuple(
            (f"{SIGNS[state].name} dim" if is_dim else SIGNS[state].name, "".join(outlines[state, is_dim]))
            for state in reversed(tuple(SIGNS))
            for is_dim in (True, False)
            if (state, is_dim) in outlines
        ),
    )
