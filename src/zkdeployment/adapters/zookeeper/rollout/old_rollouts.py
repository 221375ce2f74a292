"""Removal of the nodes of earlier rollouts; a final state stays while its publication is in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.transactions import Delete

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.rollout.leadership import RolloutLeadership


def remove_old_rollouts(session: Session, leadership: RolloutLeadership, current: str) -> None:
    """Remove grants, reports and acts of all rollouts but the current one, and states that left the history."""
    names = [name for name in session.children(paths.ROLLOUTS) or () if name != current]
    _, children = session.look([], [paths.rollout_path(name) for name in names])
    kept = {str(sequence) for sequence in paths.sequences(session.children(paths.HISTORY) or ())}
    for name, directories in zip(names, children, strict=True):
        path = paths.rollout_path(name)
        for directory in directories or ():
            _remove(session, leadership, f"{path}/{directory}")
        if name.partition("-")[0] not in kept:
            leadership.commit("tidy", Delete(path))


def _remove(session: Session, leadership: RolloutLeadership, directory: str) -> None:
    names = session.children(directory) or ()
    leadership.commit_in_batches("tidy", (Delete(f"{directory}/{name}") for name in names))
    leadership.commit("tidy", Delete(directory))
