"""The section ``[sync]``: the repository that the syncer publishes, and the keys that it signs with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.config.section import Section

# Common names that git refuses for a branch. ``git check-ref-format`` decides in the end.
_NOT_A_BRANCH = re.compile(r"^[-/]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|[/.]$|\.lock$")

# The path of a node, or the root.
_NODE_PATH = re.compile(r"/|(/[^/\s]+)+")


@dataclass(frozen=True, kw_only=True)
class SyncSettings:
    """The settings of the syncer; without a ``branch``, it publishes the remote's default branch.

    ``interval`` is in seconds. ``history`` is the number of publications that the history keeps. The syncer
    writes its metrics to the file ``metrics``. Acts that are commits are pushed to ``push_url`` (default:
    ``url``) with the SSH key ``push_key``, and signed with ``signing_key``. Publications are signed with the
    SSH key ``publish_key``. The file ``approvers`` lists the keys that may approve intents; without this file,
    approvals need no signature; ``approval_rules`` states which approvers each content needs. Services at and
    below the ``governed_paths`` need an intent. Hosts install packages from the ``repositories``; without any, the
    packages of a publication are not checked.
    """

    url: str
    tree_directory: Path
    branch: str | None = None
    interval: float | None = None
    allowed_signers: Path | None = None
    approvers: Path | None = None
    approval_rules: Path | None = None
    governed_paths: tuple[str, ...] = ()
    push_url: str | None = None
    push_key: Path | None = None
    signing_key: Path | None = None
    publish_key: Path | None = None
    repositories: tuple[str, ...] = ()
    history: int = 500
    metrics: Path | None = None


def read_sync(section: Section) -> SyncSettings | None:
    """Return the settings of the syncer, ``None`` without its repository. Problems are reported to the section."""
    url = section.text("url")
    tree_directory = section.path("tree-directory")
    branch = section.checked("branch", _branch_problem)
    interval = section.number("interval", positive=True)
    allowed_signers = section.path("allowed-signers")
    push_key, signing_key = section.path("push-key"), section.path("signing-key")
    governed_paths = tuple((section.checked("governed-paths", paths_problem) or "").split())
    approval_rules = section.path("approval-rules")
    if approval_rules is not None and section.text("approvers") is None:
        section.report("approval-rules", "expected approvers beside it, found none: no approvals are verified")
    metrics = section.metrics_file()
    history = int(section.checked("history", _count_problem) or 500)
    if url is None or tree_directory is None:
        return None
    return SyncSettings(
        url=url,
        tree_directory=tree_directory,
        branch=branch,
        interval=interval,
        allowed_signers=allowed_signers,
        approvers=section.path("approvers"),
        approval_rules=approval_rules,
        governed_paths=governed_paths,
        push_url=section.text("push-url"),
        push_key=push_key,
        signing_key=signing_key,
        publish_key=section.path("publish-key"),
        repositories=tuple((section.text("repositories") or "").split()),
        history=history,
        metrics=metrics,
    )


def _branch_problem(value: str) -> str | None:
    return f"expected the name of a branch, found {value!r}" if _NOT_A_BRANCH.search(value) else None


def paths_problem(value: str) -> str | None:
    """Return what is wrong with a list of paths of nodes; ``None`` if nothing is."""
    wrong = [path for path in value.split() if not _NODE_PATH.fullmatch(path)]
    return f"expected paths of nodes, separated by blanks, as in /p1 /net, found {wrong[0]!r}" if wrong else None


def _count_problem(value: str) -> str | None:
    return (
        None if re.fullmatch(r"[1-9][0-9]{0,4}", value) else f"expected a number from 1 to 99999, found {value!r}"
    )
