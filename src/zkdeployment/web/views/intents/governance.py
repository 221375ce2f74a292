"""How governance begins and ends, on pages: the form that adopts services, and the services that left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.kinds import CLUSTER_SCHEMA, GROUP_SCHEMA, intent_of_document
from zkdeployment.documents.intents.values import ClusterIntents, subject_text
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.cluster import short
from zkdeployment.model.user import ActKind
from zkdeployment.web.views.acts import ActForm
from zkdeployment.web.views.intents.acts import COMMITTED
from zkdeployment.web.views.links import act_page, service_page

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.documents.intents.values import Intent, IntentSubject
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.user import User

#: The most left services that a page lists.
_MOST_LEFT = 200

#: The fields of a form that describe a new intent.
_DESCRIPTION = ("apps", "profile")


@dataclass(frozen=True, slots=True)
class LeftServiceRow:
    """A service that left governance; ``release`` is the form that releases it, or empty."""

    path: str
    href: str
    target: str
    former: str
    revision: str
    state: str
    release: str


@dataclass(frozen=True, slots=True)
class LeftServicesView:
    """The services that left governance, and how many ``more`` there are."""

    rows: tuple[LeftServiceRow, ...]
    more: int = 0


def left_services_view(left: Collection[LeftService], user: User | None) -> LeftServicesView:
    """Return the services that left governance, sorted; ``user`` is who may act, if anyone may."""
    ordered = sorted(left, key=lambda one: (one.path, one.target or ""))
    rows = tuple(_left_row(one, user) for one in ordered[:_MOST_LEFT])
    return LeftServicesView(rows, max(0, len(ordered) - _MOST_LEFT))


def _left_row(one: LeftService, user: User | None) -> LeftServiceRow:
    may_release = user is not None and user.may_act(ActKind.ACT_ON_INTENT, one.path)
    return LeftServiceRow(
        one.path,
        service_page(one.path),
        one.target or "all targets",
        subject_text(one.former),
        short(one.revision),
        "not deployed" if one.is_withheld else "stays as deployed",
        act_page("intent-release", "/intents", path=one.path) if may_release else "",
    )


def service_release_form(left: Sequence[LeftService]) -> ActForm:
    """Return the form that releases the service at one path, which left governance for these targets."""
    path = left[0].path
    return ActForm(
        title=f"Release {path}",
        consequences=(
            *dict.fromkeys(
                f"It left the governance of {subject_text(one.former)} with {short(one.revision)}"
                f"{'' if one.target is None else f' for {one.target}'}, and"
                f" {'is not deployed' if one.is_withheld else 'stays as deployed'} until now."
                for one in left
            ),
            "Hosts deploy it as the tip of the branch has it, without an approval from now on.",
            COMMITTED,
        ),
        button="Release",
        kind="danger",
        fields=(("path", path),),
    )


def requested_adoption(subject: IntentSubject, values: Mapping[str, str]) -> Intent | None:
    """Return the new intent that a form describes; ``None`` if the branch is to have its document.

    Raises ``ConfigurationError`` if the description is not valid.
    """
    text = values.get("apps", "").strip()
    if not text:
        return None
    apps: dict[str, list[str]] = {}
    for part in text.split():
        name, _, paths = part.partition("=")
        apps.setdefault(name, []).extend(paths.split(","))
    try:
        return intent_of_document(_document(subject, apps, values.get("profile", "").strip() or "default"))
    except ValueError as error:
        raise ConfigurationError(
            f"apps: {error}; expected APP=PATH[,PATH…], as in front=/p1/shop/front"
        ) from error


def _document(subject: IntentSubject, apps: Mapping[str, list[str]], profile: str) -> dict[str, object]:
    if len(subject) == 2:
        provider, name = subject
        return {
            "schema": CLUSTER_SCHEMA,
            "metadata": {"provider": provider, "name": name},
            "data": {"network-intents": apps, "state": "Created"},
        }
    keys = ("project", "composite-app", "version", "name")
    return {
        "schema": GROUP_SCHEMA,
        "metadata": dict(zip(keys, subject, strict=True)),
        "data": {"composite-profile": profile, "apps": apps, "state": "Created"},
    }


def adoption_form(intent: Intent, values: Mapping[str, str]) -> ActForm:
    """Return the form that puts deployed services under an intent; ``values`` describe a new one."""
    subject = subject_text(intent.subject)
    becomes = "Applied" if isinstance(intent, ClusterIntents) else "Instantiated"
    fields = [("subject", subject), *((name, values[name]) for name in _DESCRIPTION if values.get(name))]
    return ActForm(
        title=f"Adopt the services of {subject}",
        consequences=(
            f"The intent becomes {becomes}, and hosts change nothing.",
            "From now on, the services and the content do not change without an approval.",
            COMMITTED,
        ),
        button="Adopt",
        fields=tuple(fields),
    )
