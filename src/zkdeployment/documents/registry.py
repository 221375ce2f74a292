"""The kinds of documents that this program reads, by their schemas.

To add a kind, write its module and add the kind to ``KINDS``. Reading, checks by ``lint``, publication and file
names need no further code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.checks.kinds import CHECK, SYSTEM
from zkdeployment.documents.forms import Fault, one_of
from zkdeployment.documents.intents.kinds import CLUSTER, GROUP
from zkdeployment.documents.intents.release import RELEASE
from zkdeployment.documents.pools.kinds import POOLS
from zkdeployment.documents.quarantine import QUARANTINE
from zkdeployment.documents.strategies.kinds import CONFIGURATION, STRATEGY

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
    POOLS,
)

#: The kinds by their schema.
BY_SCHEMA: Mapping[str, DocumentKind[Any]] = {kind.schema: kind for kind in KINDS}

_TITLES = "|".join(kind.title for kind in KINDS if kind.schema.startswith("zkdeployment/"))
_SHIPYARD = r"shipyard/|deployment[-_]?(strategy|configuration)/"

#: A value of the key ``schema`` that looks like one of these schemas, possibly misspelt or of another version.
_OUR_SCHEMA = re.compile(rf"{_SHIPYARD}|zk[-_]?deployment/|^({_TITLES})/", re.IGNORECASE)

#: Text of a file that may contain such a document. Files of other programs may mention zkdeployment's own files.
_OUR_CONTENT = re.compile(
    rf"{_SHIPYARD}|zk[-_]?deployment/\w+/v?\d|schema[\"']?\s*:\s*[\"']?(zk[-_]?deployment/|({_TITLES})/)".encode(),
    re.IGNORECASE,
)


def mentions_documents(content: bytes) -> bool:
    """Whether a file may contain one of these documents; other files need not even be valid YAML."""
    return _OUR_CONTENT.search(content) is not None


def schema_faults(value: Mapping[str, object]) -> Iterator[Fault]:
    """Return faults of a document with an unknown but similar schema, or with the schema under another key."""
    for key, content in value.items():
        if not isinstance(content, str):
            continue
        if key == "schema" and _OUR_SCHEMA.search(f"{content}/"):
            yield (key,), f"expected {one_of(BY_SCHEMA)}, found {content!r}"
        elif key != "schema" and content in BY_SCHEMA:
            yield (key,), f"expected the key schema, found {key!r}"
