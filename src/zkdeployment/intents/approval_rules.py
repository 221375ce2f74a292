"""Rules of approvals: which approvers may approve services below a path, how many have to, and for how long.

The rules are in a file of the configuration, which documents cannot weaken. Each line has a path, the number of
approvals, the days for which an approval counts (``-``: for ever), and the names of approvers (``*``: all).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

_LINE = re.compile(
    r"(?P<path>/|(?:/[^/\s]+)+)\s+(?P<needed>[1-9][0-9]?)\s+(?P<days>-|[1-9][0-9]{0,3})\s+(?P<names>\S.*)"
)

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """The number of approvals that services at and below a path need, and whose; without names, of all approvers.

    An approval counts for some ``days``; ``None``: for ever.
    """

    path: str
    needed: int = 1
    names: tuple[str, ...] = ()
    days: int | None = None

    def may_approve(self, name: str) -> bool:
        """Whether the approval of this person counts."""
        return not self.names or name in self.names

    def covers(self, path: str) -> bool:
        """Whether a path is at or below the path of the rule."""
        return f"{path}/".startswith(f"{self.path.rstrip('/')}/")


def parse_rules(text: str, file: str) -> tuple[ApprovalRule, ...]:
    """Return the rules of a file; raises ``ConfigurationError`` with the first line that is not a rule."""
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.partition("#")[0].strip()
        if not stripped:
            continue
        match = _LINE.fullmatch(stripped)
        names = () if match is None else tuple(match["names"].split())
        needed = 0 if match is None else int(match["needed"])
        if match is None or ("*" in names and len(names) > 1) or (names != ("*",) and len(set(names)) < needed):
            raise ConfigurationError(
                f"{file}:{number}: expected PATH NUMBER DAYS NAME…, as in '/p1 2 30 alice@example.com"
                " bob@example.com', with at least NUMBER names or * for all approvers, and - for DAYS without a"
                f" limit; found {stripped!r}"
            )
        days = None if match["days"] == "-" else int(match["days"])
        rules.append(ApprovalRule(match["path"], needed, () if names == ("*",) else names, days))
    return tuple(rules)


def rules_for(paths: Iterable[str], rules: Sequence[ApprovalRule]) -> tuple[ApprovalRule, ...]:
    """Return the rules that an approval of services at and below some paths has to meet.

    For each path these are the rule of the longest path above it, and all rules below it: who approves a wide
    subtree approves everything in it.
    """
    found: dict[ApprovalRule, None] = {}
    for path in paths:
        above = [rule for rule in rules if rule.covers(path)]
        found[max(above, key=lambda rule: len(rule.path), default=ApprovalRule(path))] = None
        found |= dict.fromkeys(
            rule for rule in rules if rule.path != path and ApprovalRule(path).covers(rule.path)
        )
    return tuple(found)


def missing_approvals(rules: Iterable[ApprovalRule], approvers: Collection[str]) -> str | None:
    """Return whose approvals are missing, by the names of those who approved; ``None`` if there are enough."""
    missing = "; ".join(_missing(rules, approvers))
    return missing or None


def _missing(rules: Iterable[ApprovalRule], approvers: Collection[str]) -> Iterator[str]:
    for rule in rules:
        counted = [name for name in approvers if rule.may_approve(name)]
        if len(counted) < rule.needed:
            others = [name for name in rule.names if name not in approvers]
            by = f": {', '.join(counted)}" if counted else ""
            yield (
                f"{len(counted)} of {rule.needed} approvals for {rule.path}{by}; needs"
                f" {rule.needed - len(counted)} more of {', '.join(others) or 'the approvers'}"
            )


def expiry(rules: Iterable[ApprovalRule], approved: float, now: float) -> str | None:
    """Return why an approval counts no longer that was given at a time; ``None`` if it counts."""
    for rule in rules:
        if rule.days is not None and now > approved + rule.days * _DAY:
            return f"it has expired: approvals for {rule.path} count for {rule.days} days; approve the group again"
    return None
