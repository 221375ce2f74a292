"""The map of all hosts: a few hosts as tiles with names, many as blocks of a hundred cells.

Blocks flow into as many columns as the screen has room for. A change of a host changes one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.web.views.host_query import PAGE_SIZE, HostQuery, HostSort
from zkdeployment.web.views.links import host_page
from zkdeployment.web.views.states import SIGNS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.fleet.host_status import HostState, HostStatus
    from zkdeployment.web.views.states import StateSign

#: Up to this number of hosts, each has a tile with its name.
MOST_TILES = 60

_COLUMNS = 10
_CELLS = _COLUMNS * _COLUMNS
_UNIT = 10

#: The sizes of blocks by the number of hosts, up to which each applies.
_SIZES = ((400, "large"), (2000, "medium"))


@dataclass(frozen=True, slots=True)
class HostTile:
    """A host with its name on the map."""

    name: str
    href: str
    sign: StateSign


@dataclass(frozen=True, slots=True)
class HostBlock:
    """A hundred hosts in the order of their names; ``number`` is from 0.

    ``outlines`` are the shapes of all hosts in one state, as an SVG path. ``label`` names the first and the last
    host and counts the states. ``href`` is the page of the list that begins with these hosts.
    """

    number: int
    label: str
    href: str
    height: int
    outlines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HostMap:
    """The map: either ``tiles`` or ``blocks`` of a ``size``.

    ``extent`` is the number of hosts of the whole map. A browser that shows another number needs the whole map.
    """

    extent: int
    tiles: tuple[HostTile, ...] = ()
    blocks: tuple[HostBlock, ...] = ()
    size: str = "small"


def host_map(hosts: Sequence[HostStatus], changed: Collection[str] | None = None) -> HostMap:
    """Return the map of hosts, which are sorted by name.

    With the ids of ``changed`` hosts, only the blocks that contain one of them are included.
    """
    if len(hosts) <= MOST_TILES:
        tiles = tuple(HostTile(host.name, host_page(host.id), SIGNS[host.state]) for host in hosts)
        return HostMap(len(hosts), tiles=tiles)
    blocks = []
    for number in range(-(-len(hosts) // _CELLS)):
        content = hosts[number * _CELLS : (number + 1) * _CELLS]
        if changed is None or any(host.id in changed for host in content):
            blocks.append(_block(number, content))
    size = next((name for most, name in _SIZES if len(hosts) <= most), "small")
    return HostMap(len(hosts), blocks=tuple(blocks), size=size)


def _block(number: int, hosts: Sequence[HostStatus]) -> HostBlock:
    outlines: dict[HostState, list[str]] = {}
    for place, host in enumerate(hosts):
        row, column = divmod(place, _COLUMNS)
        start = f"M{column * _UNIT} {row * _UNIT}"
        outlines.setdefault(host.state, []).append(start + SIGNS[host.state].outline)
    counts = ", ".join(f"{len(outlines[state])} {sign.name}" for state, sign in SIGNS.items() if state in outlines)
    page = number * _CELLS // PAGE_SIZE + 1
    return HostBlock(
        number=number,
        label=f"{hosts[0].name} to {hosts[-1].name}: {counts}",
        href=HostQuery(sort=HostSort.NAME, page=page).address,
        height=-(-len(hosts) // _COLUMNS) * _UNIT,
        outlines=tuple((SIGNS[state].name, "".join(paths)) for state, paths in outlines.items()),
    )
