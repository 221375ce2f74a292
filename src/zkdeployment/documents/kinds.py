"""The kinds of documents: each has a schema, a form, a subject and a value; and the kinds of all features.

To add a kind, write the record of its documents, and name the kind in the module ``feature`` of its capability.
Reading, checks by ``lint``, publication and file names need no further code.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from zkdeployment.base.features import installed
from zkdeployment.base.records import Record, codec
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import Fault, form_of_fields, mapping_form, one_of
from zkdeployment.documents.places import DocumentPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zkdeployment.documents.yaml_values import Way

ValueT = TypeVar("ValueT")
RecordT = TypeVar("RecordT", bound="DocumentRecord")

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


class DocumentRecord(Record):
    """The value of a document with this ``SCHEMA``; the keys in ``METADATA`` identify it.

    All other keys are its data.
    """

    __slots__ = ()
    SCHEMA: ClassVar[str]
    METADATA: ClassVar[tuple[str, ...]]

    def to_document(self) -> dict[str, Any]:
        """Return the document."""
        data = self.to_json()
        metadata = {key: data.pop(key) for key in self.METADATA if key in data}
        return {"schema": self.SCHEMA, "metadata": metadata, "data": data}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the value of a document of a valid form."""
        return cls.from_json({**document["metadata"], **document["data"]})


def document_kind(record: type[RecordT], name: str, **properties: Any) -> DocumentKind[RecordT]:
    """Return the kind of the documents of a record; ``properties`` are further ones of ``DocumentKind``."""

    def subject(document: Any) -> Subject:
        return tuple(document["metadata"][key] for key in record.METADATA if key in document["metadata"])

    metadata = form_of_fields(form for form in codec(record).fields if form.key in record.METADATA)
    data = form_of_fields(form for form in codec(record).fields if form.key not in record.METADATA)
    form = mapping_form({"metadata": metadata, "data": data}, {"schema": {}})
    return DocumentKind(name, record.SCHEMA, form, record.of_document, subject, **properties)


_SHIPYARD = r"shipyard/|deployment[-_]?(strategy|configuration)/"


@dataclass(frozen=True, slots=True)
class _KnownKinds:
    """The kinds of the installed features by schema, by name and by telltale key, and patterns of their texts.

    ``schemas`` matches a value of the key ``schema`` that looks like one of these schemas, possibly misspelt or of
    another version. ``content`` matches the text of a file that may contain such a document; files of other
    programs may mention zkdeployment's own files.
    """

    by_schema: Mapping[str, DocumentKind[Any]]
    by_name: Mapping[str, DocumentKind[Any]]
    by_key: Mapping[str, DocumentKind[Any]]
    schemas: re.Pattern[str]
    content: re.Pattern[bytes]


@functools.cache
def known_kinds() -> _KnownKinds:
    """Return the kinds of documents of the installed features, those about rollouts first."""
    kinds = [kind for places in installed(DocumentPlaces) for kind in places.kinds()]
    kinds.sort(key=lambda kind: not kind.schema.startswith("shipyard/"))
    titles = "|".join(kind.title for kind in kinds if kind.schema.startswith("zkdeployment/"))
    by_key = {key: kind for kind in kinds for key in kind.telltale_keys}
    keys = rf"|\b({'|'.join(by_key)})[\"']?\s*:" if by_key else ""
    content = (
        rf"{_SHIPYARD}|zk[-_]?deployment/\w+/v?\d|schema[\"']?\s*:\s*[\"']?(zk[-_]?deployment/|({titles})/){keys}"
    )
    return _KnownKinds(
        by_schema={kind.schema: kind for kind in kinds},
        by_name={kind.name: kind for kind in kinds},
        by_key=by_key,
        schemas=re.compile(rf"{_SHIPYARD}|zk[-_]?deployment/|^({titles})/", re.IGNORECASE),
        content=re.compile(content.encode(), re.IGNORECASE),
    )


#: The values of keys that are named or spelt like ``schema``.
_SCHEMA_VALUES = re.compile(rb"(?mi)^[ \t\"'{-]*s\w{3,7}[\"']?[ \t]*:[ \t]*[\"']?([\w.-]{6,24}/\w{4,40}/\w{1,8})")

#: The smallest ratio by which two schemas are alike.
_ALIKE = 0.85


def mentions_documents(content: bytes) -> bool:
    """Whether a file may contain one of these documents; other files need not even be valid YAML."""
    if known_kinds().content.search(content) is not None:
        return True
    return any(_similar_schema(match[1].decode("ascii", "replace")) for match in _SCHEMA_VALUES.finditer(content))


def schema_faults(value: Mapping[str, object]) -> Iterator[Fault]:
    """Return the faults of a document whose schema is similar to a known one, missing, or under another key.

    A document that has the keys of an intent but no schema would govern nothing, although it reads like an intent.
    """
    has_fault = False
    for key, content in value.items():
        if not isinstance(content, str):
            continue
        if key == "schema" and (known_kinds().schemas.search(f"{content}/") or _similar_schema(content)):
            has_fault = True
            yield (key,), f"expected {one_of(known_kinds().by_schema)}, found {content!r}"
        elif key != "schema" and content in known_kinds().by_schema:
            has_fault = True
            yield (key,), f"expected the key schema, found {key!r}"
    kind = None if has_fault else _kind_of_keys(value)
    if kind is not None and "schema" in value:
        yield (
            ("schema",),
            f"expected {kind.schema}, found {value['schema']!r}: the document has the keys of an intent",
        )
    elif kind is not None:
        yield (), f"expected the key schema with {kind.schema}: the document has the keys of an intent"


def _kind_of_keys(value: Mapping[str, object]) -> DocumentKind[Any] | None:
    """Return the kind of intent that a document probably is, judged by keys that no other program uses."""
    parts = [part for part in (value.get("metadata"), value.get("data")) if isinstance(part, dict)]
    keys = {str(key).lower() for part in parts for key in part}
    return next((kind for key, kind in known_kinds().by_key.items() if key in keys), None)


@functools.lru_cache(maxsize=256)
def _similar_schema(text: str) -> bool:
    """Whether a text is one of the schemas with a typing error."""
    if text.count("/") != 2:
        return False
    import difflib  # noqa: PLC0415  programs start faster without it

    known = [schema.lower() for schema in known_kinds().by_schema]
    return bool(difflib.get_close_matches(text.lower(), known, n=1, cutoff=_ALIKE))
