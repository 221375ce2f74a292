"""Failed logins, which the audit shows beside the acts of operators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

from zkdeployment.base.records import Key, Record


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
