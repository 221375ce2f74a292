"""The output of Nagios when it verifies its configuration."""

from __future__ import annotations

import re

from zkdeployment.printable import printable

#: A definition that exists twice is only a warning, but the errors that follow do not name it.
_ERROR = re.compile(r"^\s*(?:Error: *|Warning: *(?=Duplicate definition))(.+)$", re.MULTILINE)
_LIMIT = 1000


def verification_words(output: str) -> str:
    """Return the errors in the output of a verification that failed, in one line."""
    errors = list(dict.fromkeys(match[1].strip() for match in _ERROR.finditer(output)))
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return printable(" / ".join(errors or lines[-3:]))[:_LIMIT] or "Nagios printed nothing"
