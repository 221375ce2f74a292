"""A table of nodes, as several verbs about pools print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.fleet.ages import ago
from zkdeployment.pools.node import NodeState
from zkdeployment.pools.overview import failure_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

    from zkdeployment.pools.node import PoolNode

_COLOURS = {NodeState.READY: "green", NodeState.FAILED: "red", NodeState.DEPLOYED: "cyan", NodeState.DONE: "dim"}


def print_nodes(nodes: Iterable[PoolNode], now: float) -> None:
    """Print a table of nodes; ``now`` is in seconds since the epoch."""
    headings = ("ID", "POOL", "STATE", "HOSTNAME", "ADDRESS", "SESSION", "SINCE", "COMMENT", "ERROR")
    table = ResponsiveTable(
        headings,
        (_cells(node, now) for node in nodes),
        whole=("POOL", "STATE", "HOSTNAME"),
        numbers=("ID", "SESSION"),
        dispensable=("COMMENT", "ERROR"),
    )
    console_for(stderr=False).print(table, soft_wrap=True)


def _cells(node: PoolNode, now: float) -> tuple[Text | str, ...]:
    return (
        str(node.id),
        node.pool or "-",
        styled(node.state.value, _COLOURS.get(node.state, "")),
        node.hostname or "-",
        node.ipaddr or "-",
        "-" if node.session is None else str(node.session),
        ago(node.changed, now),
        node.comment or "",
        failure_of(node) or "",
    )
