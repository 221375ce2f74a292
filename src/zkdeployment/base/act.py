"""Records of the audit: acts, which are interventions of operators in the fleet, and failed logins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

from zkdeployment.base.records import Key, Record
from zkdeployment.base.text import printable

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


class LoginProblem(Enum):
    """The reasons for which logins are refused; the value is the text for logs and people.

    An unknown name and a wrong key are one problem: an answer must not reveal which names exist.
    """

    WRONG = "the name or the key is wrong"
    RETIRED = "the user is retired"
    EXPIRED = "the key has expired"
    THROTTLED = "there were too many failed logins"
    TAKEN = "another user has this name"


@dataclass(frozen=True, slots=True)
class FailedLogin(Record):
    """A failed login; ``user`` is ``None`` if no user has the given name, which may be a misplaced key."""

    is_lenient: ClassVar[bool] = True
    time: float
    user: Annotated[str | None, Key(about="The user; null if there is no user of the given name.")] = None
    address: str = "?"
    problem: LoginProblem = LoginProblem.WRONG
