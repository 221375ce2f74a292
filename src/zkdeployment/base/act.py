"""Acts: interventions of operators in the fleet, the maintenance of hosts, and decisions that are due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Annotated, ClassVar

from zkdeployment.base.durations import age, duration_seconds, utc_text
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.records import APART, OMITTED, Key, Record, shown
from zkdeployment.base.text import listing, printable
from zkdeployment.base.values import dataclass

#: The longest reason that is kept, in characters.
MAX_REASON_LENGTH = 500

#: The recorded reason of an emergency act without a reason.
NO_REASON = "no reason given"


@dataclass(frozen=True, slots=True)
class Act(Record):
    """One intervention: the operator (``USER@HOST``), the verb, the reason, and the time in epoch seconds."""

    is_lenient: ClassVar[bool] = True
    by: Annotated[str, Key(about="The user of the service, or USER@HOST for a verb.")]
    what: str
    reason: str = ""
    time: float = 0.0

    def __str__(self) -> str:
        return f"{self.what} by {self.by}: {self.reason or NO_REASON}"


@dataclass(frozen=True)
class ActRight:
    """The right to a kind of act on the fleet; ``words`` complete the sentence "USER may not …".

    Paths of users do not limit an act that ``is_safe``.
    """

    words: str
    is_safe: bool = False


def sanitize(text: str) -> str:
    """Return a user's input as text for terminals, logs and mail: one line without control characters."""
    return printable(" ".join(text.split()))[:MAX_REASON_LENGTH]


#: The limit of hosts that a sentence names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Maintenance(Record):
    """The maintenance of one host: its author, its reason, and its begin and end in seconds since the epoch.

    Without ``until``, the maintenance lasts until an operator ends it. A record that cannot be read is a
    maintenance without an end.

    With ``drain``, the host undeploys the services that other hosts have. ``kept`` are the services that it keeps,
    each with the reason, as soon as it has finished that; ``None`` before.
    """

    is_lenient: ClassVar[bool] = True
    host_id: Annotated[str, APART]
    by: str
    reason: str
    since: float
    until: float | None = None
    drain: Annotated[bool, OMITTED] = False
    kept: Annotated[Mapping[str, str] | None, OMITTED] = None

    def __str__(self) -> str:
        end = "" if self.until is None else f" until {utc_text(self.until)}"
        return f"in maintenance{self._drained}{end} by {self.by}: {self.reason}"

    @property
    def _drained(self) -> str:
        if not self.drain:
            return ""
        if self.kept is None:
            return ", being drained,"
        kept = listing([f"{path}: {why}" for path, why in sorted(self.kept.items())], _NAMED)
        return f", drained ({f'keeps {kept}' if kept else 'keeps nothing'}),"

    @property
    def is_draining(self) -> bool:
        """Whether the host has not finished its drain."""
        return self.drain and self.kept is None

    def is_in_force(self, now: float) -> bool:
        """Whether the host is in maintenance at ``now``, in seconds since the epoch."""
        return self.until is None or now < self.until


def given_end(text: str, now: float) -> float | None:
    """Return the end that a person gives, in seconds since the epoch; ``None`` for an empty text.

    The end is a duration from ``now`` on, such as ``2h``, or a time with its zone, such as ``2026-05-01T18:00Z``.
    Raises ``ValueError`` for other texts, and for an end that has passed.
    """
    if not text:
        return None
    duration = duration_seconds(text)
    if duration is not None:
        return now + duration
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(
            "until: expected a duration such as 2h, or a time with its zone such as 2026-05-01T18:00Z; found"
            f" {text}"
        )
    end = time.timestamp()
    if end <= now:
        raise ValueError(f"until: expected a time in the future, found {text}")
    return end


def end_given_with(act: Act, text: str) -> float | None:
    """Return the end that a person gives with an act, as ``given_end`` does; raises ``RefusedError``."""
    try:
        return given_end(text, act.time)
    except ValueError as error:
        raise RefusedError(str(error)) from error


def describe_maintenance(hosts: Iterable[tuple[str, Maintenance]]) -> str:
    """Return hosts in maintenance, given by names and records, as part of a sentence; empty without any."""
    return listing([f"{name} is {maintenance}" for name, maintenance in hosts], _NAMED)


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form of the act that makes a decision: the name of the act, the label of its link, and its fields."""

    act: str
    label: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision(Record):
    """A decision for which a ``subject`` waits since a time in seconds since the epoch.

    ``group`` is the group of the rollout that waits, if one does. ``command`` is the verb that makes the decision,
    ``effect`` what the verb does, and ``form`` the form with the same effect.
    """

    subject: str
    reason: str
    since: float
    command: str
    form: Annotated[DecisionForm, APART]
    group: str | None = None
    effect: Annotated[str, APART] = "continues"

    @property
    def advice(self) -> str:
        """The reason, and the verb that makes the decision."""
        return f"{self.reason}; '{self.command}' {self.effect}"

    @shown("sentence")
    def __str__(self) -> str:
        return f"{self.subject} waits for a decision: {self.advice}"


def describe_decision(decision: Decision, now: float) -> str:
    """Return a sentence on a decision, and for how long it has been due; ``now`` is in seconds since the epoch."""
    waited = age(max(0.0, now - decision.since))
    return f"{decision.subject} has waited for a decision for {waited}: {decision.advice}"
