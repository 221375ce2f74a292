"""The published strategy: one compressed node; without data no strategy is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.packed import pack, unpack
from zkdeployment.documents.strategies.encoding import strategy_from_json, strategy_to_json
from zkdeployment.errors import TreeError

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.strategy import Strategy


def encode_strategy(strategy: Strategy | None) -> bytes:
    """Encode the data of the node; empty for no strategy."""
    return b"" if strategy is None else pack(strategy_to_json(strategy))


def read_strategy(session: Session) -> Strategy | None:
    """Return the published strategy, ``None`` if it does not exist; raises ``TreeError`` if it is invalid."""
    return decode_strategy(session.get(paths.STRATEGY))


def decode_strategy(node: Node | None) -> Strategy | None:
    """Return the strategy in the node, ``None`` if it does not exist; raises ``TreeError`` if it is invalid."""
    if node is None or not node.data:
        return None
    try:
        return strategy_from_json(unpack(node.data))
    except ValueError as error:
        raise TreeError(f"{paths.STRATEGY}: {error}; 'zkdeployment sync --force' writes it anew") from error
