"""The kinds of documents: each has a schema, a form, a subject and a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.documents.forms import Fault
    from zkdeployment.documents.yaml_values import Way

ValueT = TypeVar("ValueT")

#: The subject of a document: the names that identify it among the documents of its kind.
Subject: TypeAlias = "tuple[str, ...]"


def _no_faults(_value: Any) -> Iterable[Fault]:
    return ()


@dataclass(frozen=True, slots=True)
class DocumentKind(Generic[ValueT]):
    """One kind of document.

    ``name`` is part of the names of files and nodes. ``schema`` is the value of the key ``schema`` and selects the
    kind. ``form`` is the JSON schema of the document. The callables receive a document of a valid form with typed
    values: ``parse`` returns its value, ``subject`` its subject, ``faults`` the faults beyond its form. ``place``
    is where the subject stands in the document. ``typed`` is false for a form that only checks text: numbers then
    stay text, because the document belongs to another program. ``telltale_keys`` are keys that only documents of
    this kind have: a document with one of these keys and without a schema is a mistake. ``has_own_changes`` is
    whether another text describes the changes of such documents.
    """

    name: str
    schema: str
    form: dict[str, Any]
    parse: Callable[[Any], ValueT]
    subject: Callable[[Any], Subject]
    place: Way = ("metadata", "name")
    faults: Callable[[Any], Iterable[Fault]] = _no_faults
    advice: Callable[[Any], Iterable[Fault]] = _no_faults
    typed: bool = True
    telltale_keys: tuple[str, ...] = ()
    has_own_changes: bool = False

    @property
    def title(self) -> str:
        """The name of the kind in its schema: ``zkdeployment/Quarantine/v1`` → ``Quarantine``."""
        return self.schema.split("/")[1]
