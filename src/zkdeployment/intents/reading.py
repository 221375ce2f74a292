"""Reads the intents of one revision with their contents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.intents.life_cycle import IntentSnapshot
from zkdeployment.planning.targets.content import intent_content
from zkdeployment.planning.targets.governance import read_intents

if TYPE_CHECKING:
    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.model.tree import Tree


def intent_snapshots(documents: Documents, tree: Tree) -> dict[IntentSubject, IntentSnapshot]:
    """Return each intent of a revision with its content in the tree of all files."""
    return {
        intent.subject: IntentSnapshot(intent, intent_content(intent, tree)) for intent in read_intents(documents)
    }
