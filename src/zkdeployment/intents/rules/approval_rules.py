"""Rules of approvals: for each path, the permitted approvers, their number, and the life of approvals.

The rules are in a file that the configuration names, so documents cannot weaken them. Each line has a path, the
number of approvals, the days for which an approval counts (``-``: for ever), and the names of approvers (``*``:
all).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.records import Record, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_LINE = re.compile(
    r"(?P<path>/|(?:/[^/\s]+)+)\s+(?P<needed>[1-9][0-9]?)\s+(?P<days>-|[1-9][0-9]{0,3})\s+(?P<names>\S.*)"
)

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """The number of approvals that services at and below a path need, and the permitted approvers.

    Without names, all approvers are permitted. An approval counts for some ``days``; ``None``: for ever.
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


@dataclass(frozen=True, slots=True)
class ApprovalCount(Record):
    """The approvals that a content has for one rule.

    ``approvers`` have approved; ``awaited`` are the others who may approve; empty: all approvers. ``expires`` is
    when the approvals stop counting, in seconds since the epoch; ``None``: never.
    """

    path: str
    needed: int
    approvers: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    expires: float | None = None

    @property
    @shown("missing")
    def missing(self) -> int:
        """The number of missing approvals."""
        return max(self.needed - len(self.approvers), 0)

    def __str__(self) -> str:
        """Return the count as a sentence, without the expiry."""
        by = f": {', '.join(self.approvers)}" if self.approvers else ""
        more = (
            f"; needs {self.missing} more of {', '.join(self.awaited) or 'the approvers'}" if self.missing else ""
        )
        return f"{len(self.approvers)} of {self.needed} approvals for {self.path}{by}{more}"


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

    For each path these are the rule with the longest path at or above it, and all rules below it, because the
    approval of a wide subtree approves everything in it.
    """
    found: dict[ApprovalRule, None] = {}
    for path in paths:
        above = [rule for rule in rules if rule.covers(path)]
        found[max(above, key=lambda rule: len(rule.path), default=ApprovalRule(path))] = None
        found |= dict.fromkeys(
            rule for rule in rules if rule.path != path and ApprovalRule(path).covers(rule.path)
        )
    return tuple(found)


def count_approvals(
    rules: Iterable[ApprovalRule], approvers: Collection[str], approved: float | None = None
) -> tuple[ApprovalCount, ...]:
    """Return the approvals for each rule; ``approvers`` are the names of the people who approved.

    ``approved`` is the time of the first approval, if the approvals can expire.
    """
    return tuple(
        ApprovalCount(
            rule.path,
            rule.needed,
            tuple(name for name in approvers if rule.may_approve(name)),
            tuple(name for name in rule.names if name not in approvers),
            None if approved is None else _end(rule, approved),
        )
        for rule in rules
    )


def missing_approvals(rules: Iterable[ApprovalRule], approvers: Collection[str]) -> str | None:
    """Return a sentence with the missing approvals; ``None`` if those of ``approvers`` suffice."""
    missing = "; ".join(str(count) for count in count_approvals(rules, approvers) if count.missing)
    return missing or None


def _end(rule: ApprovalRule, approved: float) -> float | None:
    return None if rule.days is None else approved + rule.days * _DAY


def expiry(rules: Iterable[ApprovalRule], approved: float, now: float) -> str | None:
    """Return why an approval from the time ``approved`` no longer counts; ``None`` if it counts."""
    for rule in rules:
        end = _end(rule, approved)
        if end is not None and now > end:
            return f"it has expired: approvals for {rule.path} count for {rule.days} days; approve the group again"
    return None
