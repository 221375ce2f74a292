"""The names of the files of documents that a command or the service writes: one file for each document."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.documents.kinds import Subject

_UNSAFE = re.compile(r"[^A-Za-z0-9._+~@=-]+")
_LONGEST = 120


def document_file_name(kind: str, subject: Subject) -> str:
    """Return the name of the file of a document: its kind and full subject, as in ``check-front-http.yaml``.

    Characters that do not belong in a file name become ``_``. The name of a subject with such characters, or of a
    very long one, ends with a digest of the subject, so that different subjects have different names.
    """
    joined = "-".join((kind, *subject))
    name = _UNSAFE.sub("_", joined)[:_LONGEST]
    if name != joined:
        name += f"-{hashlib.sha256(chr(0).join(subject).encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
    return f"{name}.yaml"
