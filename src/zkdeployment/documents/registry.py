"""The kinds of documents that this program reads, by their schemas.

To add a kind, write its module and add the kind to ``KINDS``. Reading, checks by ``lint``, publication and file
names need no further code.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from zkdeployment.checks.documents.groups import CHECK_GROUP
from zkdeployment.checks.documents.kinds import CHECK, SYSTEM
from zkdeployment.checks.documents.on_call import ON_CALL
from zkdeployment.documents.forms import Fault, one_of
from zkdeployment.intents.documents.kinds import CLUSTER, GROUP
from zkdeployment.intents.documents.release import RELEASE
from zkdeployment.pools.documents.kinds import POOLS
from zkdeployment.publishing.rules.quarantines import QUARANTINE
from zkdeployment.strategies.documents import CONFIGURATION, STRATEGY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.documents.kinds import DocumentKind

KINDS: tuple[DocumentKind[Any], ...] = (
    STRATEGY,
    CONFIGURATION,
    QUARANTINE,
    GROUP,
    CLUSTER,
    RELEASE,
    SYSTEM,
    CHECK,
    CHECK_GROUP,
    ON_CALL,
    POOLS,
)

#: The kinds by their schema.
BY_SCHEMA: Mapping[str, DocumentKind[Any]] = {kind.schema: kind for kind in KINDS}

_TITLES = "|".join(kind.title for kind in KINDS if kind.schema.startswith("zkdeployment/"))
_SHIPYARD = r"shipyard/|deployment[-_]?(strategy|configuration)/"

#: A value of the key ``schema`` that looks like one of these schemas, possibly misspelt or of another version.
_OUR_SCHEMA = re.compile(rf"{_SHIPYARD}|zk[-_]?deployment/|^({_TITLES})/", re.IGNORECASE)

#: The keys that only intents have, and their kinds.
_INTENT_KEYS: Mapping[str, DocumentKind[Any]] = {
    "composite-app": GROUP,
    "composite-profile": GROUP,
    "network-intents": CLUSTER,
}

#: Text of a file that may contain such a document. Files of other programs may mention zkdeployment's own files.
_OUR_CONTENT = re.compile(
    rf"{_SHIPYARD}|zk[-_]?deployment/\w+/v?\d|schema[\"']?\s*:\s*[\"']?(zk[-_]?deployment/|({_TITLES})/)"
    rf"|\b({'|'.join(_INTENT_KEYS)})[\"']?\s*:".encode(),
    re.IGNORECASE,
)

#: The values of keys that are named or spelt like ``schema``.
_SCHEMA_VALUES = re.compile(rb"(?mi)^[ \t\"'{-]*s\w{3,7}[\"']?[ \t]*:[ \t]*[\"']?([\w.-]{6,24}/\w{4,40}/\w{1,8})")

#: The smallest ratio by which two schemas are alike.
_ALIKE = 0.85


def mentions_documents(content: bytes) -> bool:
    """Whether a file may contain one of these documents; other files need not even be valid YAML."""
    if _OUR_CONTENT.search(content) is not None:
        return True
    return any(_similar_schema(match[1].decode("ascii", "replace")) for match in _SCHEMA_VALUES.finditer(content))


def schema_faults(value: Mapping[str, object]) -> Iterator[Fault]:
    """Return faults of a document with an unknown but similar schema, without one, or with it under another key.

    A document without a schema that has the keys of an intent would govern nothing, although it reads like one.
    """
    has_fault = False
    for key, content in value.items():
        if not isinstance(content, str):
            continue
        if key == "schema" and (_OUR_SCHEMA.search(f"{content}/") or _similar_schema(content)):
            has_fault = True
            yield (key,), f"expected {one_of(BY_SCHEMA)}, found {content!r}"
        elif key != "schema" and content in BY_SCHEMA:
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
    """Return the kind of intent whose keys a document has that no other program uses."""
    parts = [part for part in (value.get("metadata"), value.get("data")) if isinstance(part, dict)]
    keys = {str(key).lower() for part in parts for key in part}
    return next((kind for key, kind in _INTENT_KEYS.items() if key in keys), None)


@functools.lru_cache(maxsize=256)
def _similar_schema(text: str) -> bool:
    """Whether a text is one of the schemas with a typing error."""
    if text.count("/") != 2:
        return False
    import difflib  # noqa: PLC0415  programs start faster without it

    known = [schema.lower() for schema in BY_SCHEMA]
    return bool(difflib.get_close_matches(text.lower(), known, n=1, cutoff=_ALIKE))
