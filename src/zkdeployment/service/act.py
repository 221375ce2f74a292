"""The frame of acts: the common parts of the form, the operation of the API and the verb of an act.

An act is one class with its fields, its right, its objections, its consequences and the function that performs
it. The forms and the operations of the API follow from it in ``service/act_routes``, the verbs in
``cli/act_verbs``. The acts on the fleet are in ``service/acts``; the features bring theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from zkdeployment.base.act import NO_REASON, Act, ActRight, sanitize
from zkdeployment.base.errors import ForbiddenError
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.datastructures import State

    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import Right, User
    from zkdeployment.service.views.frame import ActLink
    from zkdeployment.service.views.plan import PlanView


@dataclass(frozen=True)
class ActOption:
    """A choice that the form offers; ``name`` is the name of its field."""

    name: str
    label: str
    explanation: str


@dataclass(frozen=True)
class ActInput:
    """A field that the person fills in; ``kind`` is the type of the field in HTML.

    A number lies between ``least`` and ``most``; a text has at most ``most`` characters.
    """

    name: str
    label: str
    explanation: str = ""
    kind: str = "text"
    value: str = ""
    least: int = 0
    most: int = 500
    required: bool = False


@dataclass(frozen=True)
class ActDetail:
    """Lines that a person reads before the act; ``is_open`` is whether the page shows them at once."""

    title: str
    lines: tuple[str, ...]
    is_open: bool = True


@dataclass(frozen=True)
class ActForm:
    """The form of an act: its effects, and the button that performs it.

    ``objection`` is why the act is not possible now, or empty. ``fields`` name the subject of the act. ``details``
    and the ``plan`` of hosts show the scope of the act. ``asks_reason`` is whether the act is recorded with a
    reason.
    """

    title: str
    consequences: tuple[str, ...]
    button: str
    kind: str = "primary"
    fields: tuple[tuple[str, str], ...] = ()
    inputs: tuple[ActInput, ...] = ()
    options: tuple[ActOption, ...] = ()
    asks_reason: bool = True
    reason_required: bool = True
    objection: str = ""
    details: tuple[ActDetail, ...] = ()
    plan: PlanView | None = None


@dataclass(frozen=True)
class RecordedAct:
    """The record of an act: its author, its text, its reason and its time in seconds since the epoch."""

    by: str
    what: str
    reason: str
    time: float

    @classmethod
    def of(cls, act: Act) -> RecordedAct:
        """Return the answer with an act."""
        return cls(act.by, act.what, act.reason, act.time)


@dataclass(frozen=True, slots=True)
class CommitReference:
    """An act that is a commit: ``job`` is its id, for ``GET /api/v1/jobs/{commit}``.

    The id is that of the branch's tip if there was nothing to change.
    """

    job: str


#: The response to an act that changes nothing.
UNCHANGED: dict[int | str, dict[str, Any]] = {
    200: {"model": CommitReference, "description": "There was nothing to change."}
}


@dataclass(frozen=True, slots=True)
class UndoneCommit:
    """A commit that a rollback undoes; ``time`` is in seconds since the epoch."""

    revision: str
    author: str
    subject: str
    time: float


@dataclass(frozen=True, slots=True)
class CommittedAct:
    """An act that is a commit: ``job`` is the commit, or ``null`` for a dry run.

    ``changed`` is false if the tip of the branch is as wanted already; ``job`` is then the tip. ``diff`` is the
    change as git prints it. ``obstacles`` are the reasons why the commit is not published yet. ``strategy`` is a
    sentence on the strategy that governs it.
    """

    job: str | None
    changed: bool
    diff: str
    undone: list[UndoneCommit]
    obstacles: list[str]
    strategy: str

    @property
    def made(self) -> bool:
        """Whether a commit was made."""
        return self.changed and self.job is not None


@dataclass(frozen=True)
class Actor:
    """The person or the program that acts, with the clock for the record of the act.

    ``user`` is the user of the service, whose rights limit the acts. A person at a terminal is not such a user:
    there, the access lists of ZooKeeper and of the repository decide.
    """

    name: str
    now: Callable[[], float]
    user: User | None = None

    @classmethod
    def of_user(cls, adapters: ServerAdapters, user: User) -> Actor:
        """Return a user of the service as the actor."""
        return cls(user.name, adapters.clock.now, user)

    def require(self, right: ActRight | Right, *paths: str) -> None:
        """Raise ``ForbiddenError`` if the actor may not act on the nodes at these paths; no path is the fleet."""
        user = self.user
        if user is None:
            return
        from zkdeployment.service.users.user import act_refusal, right_refusal  # noqa: PLC0415  verbs start faster without it

        if isinstance(right, ActRight):
            refusal = act_refusal(user, right, *paths)
        else:
            refusal = None if user.may(right) else right_refusal(user, right)
        if refusal is not None:
            raise ForbiddenError(refusal)

    def note(self, what: str, reason: str = "") -> Act:
        """Return the record of an act whose right was checked."""
        return Act(by=self.name, what=what, reason=sanitize(reason), time=self.now())

    def record(self, act: PlannedAct[Any], what: str, *paths: str) -> Act:
        """Return the record of an act; raises ``ForbiddenError`` if the actor may not act at these paths."""
        self.require(act.RIGHT, *paths)
        return self.note(what, act.reason or (NO_REASON if isinstance(act, EmergencyAct) else ""))


@dataclass(frozen=True)
class Visit:
    """A request of a user for an act: the adapters of the service, and the state of its application."""

    adapters: ServerAdapters
    user: User
    state: State

    @property
    def actor(self) -> Actor:
        """The user as the actor."""
        return Actor.of_user(self.adapters, self.user)


@dataclass(frozen=True)
class Given:
    """The bounds of a field of an act, and its place in the form.

    The form has ``label`` and ``explanation`` beside the field, an input of HTML's ``kind`` with a first
    ``value``, or hides a field that is part of the subject of the act; it has no other fields. ``form_name`` is
    the name of the field there. A number lies between ``least`` and ``most``, and so does the length of a text or
    of a list, whose texts have at most ``length`` characters.
    """

    label: str = ""
    explanation: str = ""
    kind: str = "text"
    value: str = ""
    required: bool = False
    hidden: bool = False
    form_name: str = ""
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    length: int | None = None


def given(default: Any = MISSING, **properties: Any) -> Any:
    """Return a field of an act that the person gives; the properties are those of ``Given``."""
    return field(default=default, metadata={"given": Given(**properties)})


class EmergencyAct:
    """An act that needs no reason; errors of its verb begin with ``REFUSAL``, such as ``NOT stopped``."""

    NEEDS_REASON = False
    FORM_NEEDS_REASON = False
    REFUSAL: ClassVar[str]
    IS_OF_FLEET: ClassVar[bool]


#: The most characters of a text without a bound of its own.
_LONGEST = 500

#: The facts for the form of an act, and the adapters that perform the act.
Snapshot = TypeVar("Snapshot")
Adapters = TypeVar("Adapters")


@dataclass(frozen=True, kw_only=True)
class PlannedAct(ABC, Generic[Adapters]):
    """An act that a person or a program may perform; its fields are the given values.

    ``PATH`` is the place of its operation below ``/api/v1``, unless the router of a feature has the operation.
    ``OPERATION`` identifies the operation, whose description is the docstring of the act. ``REQUEST`` describes
    the body of its requests, which they need not have unless ``NEEDS_BODY``; ``ANSWER`` is the type of the answer,
    and ``ROUTE`` has further arguments of FastAPI's route. ``NEEDS_REASON`` is whether requests and verbs have to
    give a reason. ``IS_OF_FLEET`` is whether the act concerns the whole fleet, so that its verb has no host.
    ``ADAPTERS`` names those adapters of the service that perform the act; empty: all.
    """

    RIGHT: ClassVar[ActRight | Right]
    PATH: ClassVar[str] = ""
    OPERATION: ClassVar[str]
    REQUEST: ClassVar[str] = "An act, with the reason for it."
    NEEDS_BODY: ClassVar[bool] = True
    ANSWER: ClassVar[Any] = RecordedAct
    ROUTE: ClassVar[Mapping[str, Any]] = {}
    NEEDS_REASON: ClassVar[bool] = True
    IS_OF_FLEET: ClassVar[bool] = False
    ADAPTERS: ClassVar[str] = ""

    reason: str = ""

    @classmethod
    def given_fields(cls) -> Iterator[tuple[str, str, Any, Given]]:
        """Yield name, type, default (``MISSING``: none) and properties of the fields that a person gives."""
        for each in fields(cls):
            if "given" in each.metadata:
                yield each.name, str(each.type), each.default, each.metadata["given"]

    def check(self) -> None:
        """Raise ``ValueError`` if the fields do not go together."""

    @classmethod
    def served(cls, visit: Visit) -> Adapters:
        """Return the adapters of the service that perform the act."""
        adapters: Any = visit.adapters
        return cast("Adapters", getattr(adapters, cls.ADAPTERS) if cls.ADAPTERS else adapters)

    @abstractmethod
    def perform(self, adapters: Adapters, actor: Actor) -> Any:
        """Perform the act; return its outcome."""

    @classmethod
    def answer(cls, outcome: Any) -> Any:
        """Return the outcome in the form of the operation's answer."""
        return RecordedAct.of(outcome) if isinstance(outcome, Act) else outcome


@dataclass(frozen=True, kw_only=True)
class FormAct(PlannedAct[Adapters], Generic[Snapshot, Adapters]):
    """An act with a form, ``/acts/NAME``, which shows the effects of the act.

    ``BUTTON`` is the text of the button, in one of the styles of ``ActForm``, and the title of the form unless it
    has a ``TITLE``. ``KEY`` opens the form on each page that links to it. ``PAGE_AFTER`` is the page after
    the act; empty: the one before. ``ASKS_REASON`` is whether the form has a field for the reason, and
    ``FORM_NEEDS_REASON`` whether people have to fill it in.
    """

    NAME: ClassVar[str]
    KEY: ClassVar[str] = ""
    BUTTON: ClassVar[str]
    STYLE: ClassVar[str] = "primary"
    TITLE: ClassVar[str] = ""
    PAGE_AFTER: ClassVar[str] = ""
    ASKS_REASON: ClassVar[bool] = True
    FORM_NEEDS_REASON: ClassVar[bool] = True

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:  # noqa: ARG003  some need it
        """Return the act that the fields of a form describe; ``None`` if the form does not exist for them."""
        read: dict[str, Any] = {"reason": sanitize(values.get("reason", ""))}
        for name, kind, _, properties in cls.given_fields():
            if properties.hidden or properties.label:
                text = values.get(properties.form_name or name, "")
                read[name] = bool(text) if kind == "bool" else text
        return cls(**read)

    @classmethod
    def link(cls, label: str, style: str, back: str, **values: str) -> ActLink:
        """Return a link to the form of the act with these values, which returns to the page ``back``."""
        from zkdeployment.service.views.frame import ActLink, act_page  # noqa: PLC0415  verbs start faster without it

        return ActLink(label, act_page(cls.NAME, back, **values), style, cls.KEY)

    @abstractmethod
    def read(self, visit: Visit) -> Snapshot:
        """Read the facts for the form; raises ``NotFoundError`` if the subject of the act does not exist."""

    def concerned(self, found: Snapshot) -> tuple[str, ...]:  # noqa: ARG002  some need it
        """Return the services that the act concerns; without paths, it concerns the whole fleet."""
        return ()

    def title(self, found: Snapshot) -> str:  # noqa: ARG002  some need it
        """Return the title of the form."""
        return self.TITLE or self.BUTTON

    def objection(self, found: Snapshot) -> str:  # noqa: ARG002  some need it
        """Return why the act is not possible now, or an empty text."""
        return ""

    @abstractmethod
    def consequences(self, found: Snapshot) -> tuple[str, ...]:
        """Return the effects as sentences."""

    def situation(self, found: Snapshot, visit: Visit) -> str:  # noqa: ARG002  some need it
        """Return a clause on the facts that a person weighs before the act, such as the state of the fleet.

        The form carries the clause: if the facts changed while the form was open, the act is refused, and the
        person reads the form again. An act that is safe in every situation, such as a stop, has an empty clause.
        """
        return ""

    def form(self, found: Snapshot) -> ActForm:
        """Return the form of the act."""
        shown = [(name, each.form_name or name, kind, each) for name, kind, _, each in self.given_fields()]
        return ActForm(
            title=self.title(found),
            consequences=self.consequences(found),
            button=self.BUTTON,
            kind=self.STYLE,
            fields=tuple((key, str(getattr(self, name))) for name, key, _, each in shown if each.hidden),
            inputs=tuple(
                ActInput(
                    key,
                    each.label,
                    each.explanation,
                    each.kind,
                    each.value,
                    int(each.least or 0),
                    int(each.most or _LONGEST),
                    required=each.required,
                )
                for _, key, kind, each in shown
                if kind != "bool" and each.label
            ),
            options=tuple(
                ActOption(key, each.label, each.explanation)
                for _, key, kind, each in shown
                if kind == "bool" and each.label
            ),
            asks_reason=self.ASKS_REASON,
            reason_required=self.FORM_NEEDS_REASON and self.ASKS_REASON,
            objection=self.objection(found),
        )

    def preview(self, found: Snapshot, form: ActForm, visit: Visit) -> ActForm:  # noqa: ARG002  some need it
        """Return the form with the effects of the act; only a page that shows the form needs these."""
        return form

    def page_after(self, outcome: Any, back: str) -> str:  # noqa: ARG002  some need it
        """Return the page to show after the act; ``back`` is the one from which the form was opened."""
        return self.PAGE_AFTER or back
