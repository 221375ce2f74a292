"""Reads the file of the rules of approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.ssh_signatures import read_keys
from zkdeployment.intents.approval_rules import parse_rules

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.intents.approval_rules import ApprovalRule


def read_rules(file: Path | None) -> tuple[ApprovalRule, ...] | None:
    """Return the rules in a file, ``None`` without a file; raises ``ConfigurationError``."""
    return None if file is None else parse_rules(read_keys(file).decode("utf-8", "replace"), str(file))
