"""Quarantines: forbidden versions, their documents, and the wanted versions that they refuse.

A quarantine names a package, an application or a patch and its version, or the repository of checkouts and its
version there. A version of a package is ``[EPOCH:]VERSION[-RELEASE]``; missing parts match any.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import TreeError, without_passwords
from zkdeployment.base.source_files import Problem
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import NAME, TEXT, Fault, mapping_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.tree.checkout import Checkout, is_checkout, parse_checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.publication import Targets
    from zkdeployment.documents.collection import Documents


SCHEMA = "zkdeployment/Quarantine/v1"

_DAY = r"[0-9]{4}-[01][0-9]-[0-3][0-9]"
_TIME_OF_DAY = r"[0-2][0-9]:[0-5][0-9](:[0-5][0-9])?"
_ZONE = r"Z|[+-][0-9]{2}:?[0-9]{2}"

FORM = mapping_form(
    {
        "metadata": mapping_form(
            {
                "name": NAME | {"description": "the name of a package, or a repository, as text"},
                "version": NAME | {"description": "a version, as text"},
            },
            {},
        ),
        "data": mapping_form(
            {
                "reason": TEXT,
                "by": TEXT,
                "time": {
                    "type": "string",
                    "pattern": rf"^{_DAY}([T ]{_TIME_OF_DAY}({_ZONE})?)?$",
                    "description": "a time as in 2026-01-31T12:00:00Z",
                },
            },
            {},
        ),
    },
    {"schema": {}},
)

_VERSION = re.compile(r"(?:(?P<epoch>[0-9]+):)?(?P<version>[^-]+)(?:-(?P<release>.+))?")


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A forbidden version of a package or of a repository, with the author, the time and the reason."""

    name: str
    version: str
    reason: str
    by: str
    time: str

    def __str__(self) -> str:
        return f"{without_passwords(self.name)} {self.version}"

    @property
    def sentence(self) -> str:
        """The author, the time and the reason of the quarantine."""
        return f"{self} is quarantined by {self.by} since {self.time}: {self.reason}"

    def matches(self, assignment: Assignment) -> bool:
        """Whether an assignment wants this version: of its package, of a patch, or of its checkout."""
        wanted = assignment.version
        if wanted is not None and is_checkout(wanted):
            checkout = _checkout(wanted)
            if checkout is not None and self._is_checkout(checkout):
                return True
        names = {assignment.package, assignment.application}
        in_name = assignment.package.removeprefix(f"{assignment.application}-")
        version = in_name if wanted is None and in_name != assignment.package else wanted
        if self.name in names and version is not None and _is_covered(version, self.version):
            return True
        patch = assignment.patches.get(self.name)
        return patch is not None and _is_covered(patch, self.version)

    def _is_checkout(self, checkout: Checkout) -> bool:
        mine = _checkout(f"{checkout.scheme}:{self.name.removeprefix(f'{checkout.scheme}:')}#{self.version}")
        return mine is not None and (mine.url, mine.revision) == (checkout.url, checkout.revision)

    def to_document(self) -> dict[str, Any]:
        """Return the quarantine in the form of its document."""
        return {
            "schema": SCHEMA,
            "metadata": {"name": self.name, "version": self.version},
            "data": {"reason": self.reason, "by": self.by, "time": self.time},
        }


def quarantined(
    assignments: Iterable[Assignment], quarantines: Iterable[Quarantine]
) -> Iterator[tuple[Assignment, Quarantine]]:
    """Yield each service that wants a version in quarantine, once, with the quarantine."""
    quarantines = tuple(quarantines)
    if not quarantines:
        return
    seen = set()
    for assignment in assignments:
        for quarantine in quarantines:
            key = (assignment.path, quarantine.name, quarantine.version)
            if key not in seen and quarantine.matches(assignment):
                seen.add(key)
                yield assignment, quarantine


def _is_covered(wanted: str, quarantined: str) -> bool:
    """Whether a wanted version is the quarantined one; missing parts of the quarantined version match any.

    A wanted version without an epoch is covered, because it may have any epoch. A wanted version without a release
    is not covered by a quarantine of a single release, because another release satisfies it.
    """
    if wanted == quarantined:
        return True
    mine, other = _VERSION.fullmatch(quarantined), _VERSION.fullmatch(wanted)
    if mine is None or other is None or mine["version"] != other["version"]:
        return False
    epochs = {mine["epoch"], other["epoch"]} - {None}
    return len(epochs) < 2 and mine["release"] in {None, other["release"]}


def _checkout(version: str) -> Checkout | None:
    try:
        return parse_checkout(version)
    except TreeError:
        return None


def _parse(value: Any) -> Quarantine:
    return Quarantine(**value["metadata"], **value["data"])


def _faults(value: Any) -> Iterator[Fault]:
    """Return a fault for a repository with a password, which every reader of the repository could see."""
    name = value["metadata"]["name"]
    if without_passwords(name) != name:
        yield ("metadata", "name"), "the repository contains a password; write its URL without it"


QUARANTINE: DocumentKind[Quarantine] = DocumentKind(
    name="quarantine",
    schema=SCHEMA,
    form=FORM,
    parse=_parse,
    subject=lambda value: (value["metadata"]["name"], value["metadata"]["version"]),
    faults=_faults,
)

DOCUMENT_KINDS = (QUARANTINE,)


def quarantine_problems(targets: Targets, documents: Documents) -> Iterator[Problem]:
    """Yield an error for each service that wants a version in quarantine."""
    for path, quarantine in _wanted(targets, documents.of(QUARANTINE).values()):
        yield Problem(f"{quarantine.sentence}; choose another version", path=path)


def lifted_quarantine_problems(
    targets: Targets, documents: Documents, before: Iterable[Quarantine]
) -> Iterator[Problem]:
    """Yield an error for each service that wants a version whose quarantine the same change removes.

    ``before`` are the quarantines that are in force until the change.
    """
    kept = documents.of(QUARANTINE)
    lifted = [quarantine for quarantine in before if (quarantine.name, quarantine.version) not in kept]
    for path, quarantine in _wanted(targets, lifted):
        message = (
            f"{quarantine.sentence}; this change removes the quarantine and wants the version at once:"
            " remove the quarantine first, and want the version in a later change"
        )
        yield Problem(message, path=path)


def _wanted(targets: Targets, quarantines: Iterable[Quarantine]) -> Iterator[tuple[str, Quarantine]]:
    assignments = (assignment for listed in targets.values() for assignment in listed)
    for assignment, quarantine in quarantined(assignments, quarantines):
        yield assignment.path, quarantine
