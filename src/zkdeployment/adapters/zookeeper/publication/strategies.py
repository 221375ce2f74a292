"""The published strategy: a node of its own, compressed; without data there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.packed import pack, unpack
from zkdeployment.errors import TreeError
from zkdeployment.rollout.encoding import strategy_from_json, strategy_to_json

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.strategy import Strategy


def encode_strategy(strategy: Strategy | None) -> bytes:
    """Return the data of the node."""
    return b"" if strategy is None else pack(strategy_to_json(strategy))


def read_strategy(session: Session) -> Strategy | None:
    """Read the published strategy, if there is one; raises ``TreeError`` for what makes no sense."""
    node = session.get(paths.STRATEGY)
    if node is None or not node.data:
        return None
    try:
        return strategy_from_json(unpack(node.data))
    except ValueError as error:
        raise TreeError(f"{paths.STRATEGY}: {error}; 'zkdeployment sync --force' writes it anew") from error
