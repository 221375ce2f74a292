"""Files of the tree's repository: which of them the project reads."""

from __future__ import annotations

from dataclasses import dataclass

#: Tree files: those that trim, and those that are layered on top.
TREE_SUFFIXES = (".zk", ".zkx")

#: Files that may hold documents of a rollout.
DOCUMENT_SUFFIXES = (".yaml", ".yml")

#: Bytes. Trees are text that people write; a larger file is there by mistake, or to harm.
MOST_BYTES_OF_A_FILE = 32 << 20


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it stands in the repository: one of the tree, or one with documents of a rollout."""

    name: str
    content: bytes


def is_tree_file(name: str) -> bool:
    """Whether a file at the top of a repository is one of the tree's."""
    return name.endswith(TREE_SUFFIXES)


def may_hold_documents(name: str, size: int) -> bool:
    """Whether a file (of ``size`` bytes) at the top is to be looked into for documents of a rollout.

    Most YAML files are somebody else's: what is wrong with those, or how large they are, is not our business.
    """
    return name.endswith(DOCUMENT_SUFFIXES) and size <= MOST_BYTES_OF_A_FILE
