"""Reads the intents of one revision: their snapshots, and the problems that lint reports with their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.intents.kinds import CLUSTER, GROUP
from zkdeployment.intents.content import intent_content
from zkdeployment.intents.governance import governance_faults
from zkdeployment.intents.life_cycle import IntentSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.intents.values import Intent, IntentSubject
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.tree import Tree

#: The key of the paths, by the kind of document.
_PATHS = {GROUP.name: "apps", CLUSTER.name: "network-intents"}


def read_intents(documents: Documents) -> tuple[Intent, ...]:
    """Return the groups and the clusters of a revision."""
    return (*documents.of(GROUP).values(), *documents.of(CLUSTER).values())


def intent_snapshots(documents: Documents, tree: Tree) -> dict[IntentSubject, IntentSnapshot]:
    """Return each intent of a revision with its content in the tree of all files."""
    return {
        intent.subject: IntentSnapshot(intent, intent_content(intent, tree)) for intent in read_intents(documents)
    }


def intent_problems(documents: Documents, tree: Tree, targets: Targets) -> Iterator[Problem]:
    """Yield the problems of intents with the tree: paths that are no nodes, services under two intents.

    ``targets`` are those of the whole tree, with nothing withheld.
    """
    entries = {
        entry.subject: entry
        for (kind, _), entry in documents.entries.items()
        if kind in {GROUP.name, CLUSTER.name}
    }
    for fault in governance_faults(read_intents(documents), tree, targets):
        entry = entries[fault.subject]
        yield entry.problem(("data", _PATHS[entry.kind.name], fault.app, fault.position), fault.message)
