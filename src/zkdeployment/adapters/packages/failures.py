"""What dnf and rpm say when something goes wrong, in one human sentence (dnf 4, English messages)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zkdeployment.errors import PackageError

#: dnf's exit status when another program holds a lock (``exit_on_lock``).
LOCKED_STATUS: Final = 200

_SCRIPTLET = re.compile(r"Error in <?(\w+)>? scriptlet in rpm package (\S+)")
_PROGRESS = re.compile(r"  \w[\w ]*: ")
_BEGUN = re.compile(r"^  Preparing +: ", re.MULTILINE)


class LockedError(PackageError):
    """Another program is changing packages right now; nothing was changed."""


class OfflineError(PackageError):
    """A repository is out of reach, perhaps only for a moment; nothing was changed."""


class NotAvailableError(PackageError):
    """No repository has what was asked for; nothing was changed."""


class UnsolvableError(PackageError):
    """The packages asked for cannot be installed together with the rest; nothing was changed."""


class StaleError(PackageError):
    """The host's packages are not what they were when the transaction was prepared; nothing was changed."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """dnf's words (a pattern for whole lines; what it matches is the message's ``{}``) and ours."""

    words: str
    message: str
    kind: type[PackageError] = PackageError
    retry_helps: bool = False

    def error(self, output: str) -> PackageError | None:
        """Return the error that this rule finds in the output, if any."""
        found = re.search(f"^(?:{self.words})", output, re.MULTILINE)
        if found is None:
            return None
        return self.kind(self.message.format(_shortened(found.group())), retry_helps=self.retry_helps)


_LOCKED = _Rule(
    r".*(already locked by|can't create transaction lock).*",
    "another program is changing packages: {}; try again when it is done",
    LockedError,
    retry_helps=True,
)
# The order counts: what names the cause stands before what only names its effect.
_RULES = (
    _LOCKED,
    _Rule(
        r".*(is not signed|GPG check FAILED|GPG verification error|incorrect checksum|"
        r"not correct for this package|Public key for .* is not installed).*(\n.*Failing package is: .*)?",
        "a package is not signed as its repository demands: {}; sign it with the repository's key",
    ),
    _Rule(
        r".*Problem repository: .*",
        "rpm knows no key to check packages with: {}; import the repository's key with 'rpm --import',"
        " or name it as gpgkey in a .repo file",
    ),
    _Rule(
        r".*There are no enabled repositories.*",
        "there is no repository to take packages from; name one as repositories in the configuration",
    ),
    _Rule(r".*Unknown repo: .*", "{}; correct repositories in the configuration"),
    _Rule(
        r".*(Failed to download metadata|Error downloading packages|Cannot download"
        r"|Cannot prepare internal mirrorlist|Curl error).*(\n\s+.*)?",
        "a repository cannot be reached: {}; check that its server is up and its address is right",
        OfflineError,
        retry_helps=True,
    ),
    _Rule(
        r".*(Unable to find a match|Cannot find rpm nevra|No packages? marked for).*",
        "no repository has what is asked for: {}",
        NotAvailableError,
    ),
    _Rule(
        r".*(not installed for action|already installed for action).*",
        "the host's packages were changed by another program meanwhile: {}; try again",
        StaleError,
        retry_helps=True,
    ),
    _Rule(
        r".*(was pulled into the transaction|protected packages|filtered out by exclude).*",
        "it would touch a package that is not managed by zkdeployment: {}",
    ),
    _Rule(
        r".*(Problem[^:\n]*:.*|conflicting requests|nothing provides .*)(\n\s+-.*)*",
        "packages do not fit together: {}",
        UnsolvableError,
    ),
    _Rule(
        r".*needs \S+ more space.*|.*more space needed.*|.*No space left on device.*",
        "the disk is too full: {}; make room",
    ),
    _Rule(r".*conflicts (with file from|between attempted installs).*", "two packages own the same file: {}"),
)


def explain(status: int, output: str) -> PackageError:
    """Return the error that says why dnf failed; ``output`` is all it printed."""
    if status == LOCKED_STATUS:
        return _LOCKED.error(output) or LockedError(_LOCKED.message.format("dnf is locked"), retry_helps=True)
    if (scriptlets := scriptlet_failure(output)) is not None:
        return PackageError(scriptlets)
    begun = _BEGUN.search(output) is not None
    for rule in _RULES:
        if begun and rule.kind in {LockedError, StaleError}:
            continue  # These are said before a transaction begins; now they are a scriptlet's words.
        if (error := rule.error(output)) is not None:
            return error
    ending = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
    return PackageError(f"dnf {ending}: {_shortened(output[-1000:]) or 'it printed nothing'}")


def scriptlet_failure(output: str) -> str | None:
    """Say which scriptlets failed and what they printed, if one did: dnf's exit status alone does not tell."""
    failed: list[str] = []
    words: list[str] = []
    for line in output.splitlines():
        if (found := _SCRIPTLET.match(line)) is not None:
            failed.append(": ".join([f"{found[1]} of {found[2]}", *words]))
            words = []
        elif _PROGRESS.match(line):
            words = []
        elif line.strip():
            words.append(line.strip())
    return f"a package's scriptlet failed: {_shortened('; '.join(failed))}" if failed else None


def _shortened(text: str) -> str:
    words = " ".join(text.split()).removeprefix("Error: ")
    return words if len(words) <= 400 else f"{words[:397]}..."
