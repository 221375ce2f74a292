"""Explains failures of dnf and rpm in one sentence each (dnf 4 and dnf 5, English messages).

The kinds of package errors are also in this module. The callers decide how to react to them.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from zkdeployment.base.errors import PackageError
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

#: dnf 4's exit status when another program holds a lock (``exit_on_lock``).
LOCKED_STATUS: Final = 200

_SCRIPTLET = re.compile(r"Error in <?(\w+)>? scriptlet in rpm package (\S+)")
#: dnf 5 prints the scriptlet's output below its error, and the epoch 0.
_SCRIPTLET_5 = re.compile(r">>> (?:Error|Non-critical error) in %?(\w+) scriptlet: (\S+)")
_OUTPUT_5 = re.compile(r">>> (?!Scriptlet output:$|.*: (?:install|erase) failed$)(?:\[RPM\] )?(.*)")
_OTHER_5 = re.compile(r">>> (Running|Finished) \S+ scriptlet: ")
_PROGRESS = re.compile(r"  \w[\w ]*: .*\d+/\d+ *$|\[ *\d+/\d+\] ")
#: dnf 4 knows no names of triggers.
_NO_NAME = "unknown"
#: The longest text of dnf, and the most scriptlets, in one message.
_LONGEST, _NAMED = 600, 2
_BEGUN = re.compile(r"^(?:  Preparing +: |\[\d+/\d+\] Prepare transaction )", re.MULTILINE)


class LockedError(PackageError):
    """Another program holds the lock of dnf or rpm; no package was changed."""


class OfflineError(PackageError):
    """A repository is unreachable at the moment; no package was changed."""


class NotAvailableError(PackageError):
    """No repository has a requested package; no package was changed."""


class HiddenError(NotAvailableError):
    """Only packages that dnf's settings hide would satisfy a request; no package was changed."""


class UnsolvableError(PackageError):
    """The requested packages conflict with other packages or lack dependencies; no package was changed."""


class StaleError(PackageError):
    """The host's packages changed after the transaction was prepared; the transaction changed no package."""


@dataclass(frozen=True)
class _Rule:
    """One kind of failure: a pattern for whole lines of dnf's output, and the message that explains it.

    The matched text replaces ``{}`` in the message.
    """

    pattern: str
    message: str
    kind: type[PackageError] = PackageError
    retry_helps: bool = False

    def error(self, output: str) -> PackageError | None:
        """Return the explained error if the output matches the pattern."""
        match = re.search(f"^(?:{self.pattern})", output, re.MULTILINE)
        if match is None:
            return None
        return self.kind(self.message.format(_beginning(match.group())), retry_helps=self.retry_helps)


_LOCKED = _Rule(
    # dnf 5 does not report the reason if rpm's lock is held; a warning about signatures may follow.
    r".*(already locked by|can't create transaction lock|Failed to obtain rpm transaction lock).*"
    r"|.*Rpm transaction failed\.\s*(?:^Warning: .*\s*)*\Z",
    "another program is changing packages: {}; try again after it has finished",
    LockedError,
    retry_helps=True,
)
DISK_FULL: Final = "the disk is too full"
NO_REPOSITORIES: Final = "no repository is enabled on this host; set repositories in the configuration"

# The first match wins: patterns of causes come before patterns of their effects.
_RULES = (
    _LOCKED,
    _Rule(
        r".*needs \S+ more space.*|.*more space needed.*|.*No space left on device.*"
        r"|.*Failed writing received data to disk.*",
        f"{DISK_FULL}: {{}}; free some space",
    ),
    _Rule(
        r".*(OpenPGP check for package .*have any OpenPGP keys configured|Problem repository: ).*",
        "cannot check signatures, as rpm has no key for the repository: {}; import its key with 'rpm --import', or"
        " set gpgkey in a .repo file",
    ),
    _Rule(
        r".*(is not signed|GPG check FAILED|GPG verification error|incorrect checksum|OpenPGP check for package|"
        r"not correct for this package|Public key for .* is not installed).*(\n.*Failing package is: .*)?",
        "a package lacks the signature that its repository requires: {}; sign it with the repository's key",
    ),
    _Rule(r".*There are no enabled repositories.*", NO_REPOSITORIES),
    _Rule(
        r".*(Unknown repo: |No matching repositories for ).*",
        "{}; correct the name in --repositories or in the configuration",
    ),
    _Rule(
        r".*(Failed to download metadata|Error downloading packages|Cannot download"
        r"|Failed to download packages|Cannot prepare internal mirrorlist|Curl error).*(\n\s+.*)?",
        "a repository cannot be reached: {}; check that its server is running and that its address is correct",
        OfflineError,
        retry_helps=True,
    ),
    _Rule(
        r".*(All matches were filtered out by |matches only excluded packages).*",
        "dnf does not use a requested package although a repository has it: {}; change dnf's configuration, or"
        " correct the version in the tree",
        HiddenError,
    ),
    _Rule(
        r".*(Unable to find a match|Cannot find rpm nevra|No packages? marked for|No match for argument"
        r"|Cannot perform (Install|Reinstall) action, no match for).*",
        "no repository has a requested package: {}; publish the package, or correct the version in the tree",
        NotAvailableError,
    ),
    _Rule(
        r".*(not installed for action|already installed for action|is already installed\."
        r"|Cannot perform Remove action, no match for"
        r"|Cannot perform \w+ action (because|for) .*(is installed in a different version|is not installed)).*",
        "another program changed packages after this transaction was prepared: {}; try again",
        StaleError,
        retry_helps=True,
    ),
    _Rule(
        r".*removing the following protected packages.*",
        "the change would remove a package that dnf protects: {}; exclude the package that replaces it, or end the"
        " protection in dnf's configuration",
    ),
    _Rule(
        r".*was pulled into the transaction.*",
        "the change would touch a package that is not managed by zkdeployment: {}; change that package by other"
        " means first",
    ),
    _Rule(
        r".*(Problem[^:\n]*:.*|conflicting requests|nothing provides .*)(\n\s+-.*)*",
        "the packages cannot be installed together: {}; correct their dependencies, or the versions in the tree",
        UnsolvableError,
    ),
    _Rule(
        r".*conflicts (with file from|between attempted installs).*",
        "two packages own the same file: {}; remove the file from one of the packages",
    ),
    _Rule(
        r".*unpacking of archive failed.*",
        "rpm cannot write a file of a package: {}; move what is at that path, or correct the package",
    ),
)


def has_begun(output: str) -> bool:
    """Whether dnf began to change packages, or to run their scriptlets, according to all its output."""
    return _BEGUN.search(output) is not None or scriptlet_failure(output) is not None


def explain(status: int, output: str, program: str = "dnf") -> PackageError:
    """Return the error that explains why dnf failed, from its exit status and all its output.

    The end of the output explains a failure of an unknown kind, which names the ``program``.
    """
    if status == LOCKED_STATUS:
        return _LOCKED.error(output) or LockedError(_LOCKED.message.format("dnf is locked"), retry_helps=True)
    if (scriptlets := scriptlet_failure(output)) is not None:
        return PackageError(scriptlets)
    begun = _BEGUN.search(output) is not None
    for rule in _RULES:
        if begun and rule.kind in {LockedError, StaleError}:
            continue  # dnf prints these only before a transaction begins; here a scriptlet printed the text.
        if (error := rule.error(output)) is not None:
            return error
    ending = f"was killed by signal {-status}" if status < 0 else f"failed with exit status {status}"
    return PackageError(f"{program} {ending}: {_end(output) or 'no output'}")


def scriptlet_failure(output: str) -> str | None:
    """Return a message with the failed scriptlets and the end of their output; ``None`` if none failed.

    dnf may exit with 0 after a scriptlet failed.
    """
    failed: list[tuple[str, list[str]]] = []
    printed: list[str] = []
    prints = False  # whether dnf 5 prints the output of the last failed scriptlet now
    for line in output.splitlines():
        if (match := _SCRIPTLET.match(line)) is not None:
            name = f"trigger at {match[2]}" if match[1] == _NO_NAME else f"{match[1]} of {match[2]}"
            failed.append((name, printed))
            printed = []
        elif (match := _SCRIPTLET_5.match(line)) is not None:
            failed.append((f"{match[1]} of {match[2].replace('-0:', '-')}", []))
            prints = True
        elif line.startswith(">>> "):
            prints = prints and _OTHER_5.match(line) is None
            if prints and (match := _OUTPUT_5.match(line)) is not None:
                failed[-1][1].append(match[1])
        elif _PROGRESS.match(line):
            printed, prints = [], False
        elif line.strip():
            printed.append(line.strip())
    if not failed:
        return None
    causes = [": ".join(filter(None, [name, _end(": ".join(lines))])) for name, lines in failed]
    more = f"; and {len(causes) - _NAMED} more" if len(causes) > _NAMED else ""
    return f"a package's scriptlet failed: {'; '.join(causes[:_NAMED])}{more}"


@contextlib.contextmanager
def report_disk_errors(*, changed: bool = False) -> Iterator[None]:
    """Raise ``PackageError`` for an ``OSError``; ``changed`` is whether the packages have changed before."""
    try:
        yield
    except OSError as error:
        raise PackageError(f"cannot write {error.filename}: {error.strerror}", changed=changed) from error


def _beginning(text: str) -> str:
    message = _one_line(text)
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 3]}..."


def _end(text: str) -> str:
    message = _one_line(text)
    return message if len(message) <= _LONGEST else f"...{message[3 - _LONGEST :]}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).removeprefix("Error: ").removeprefix(">>> [RPM] ")
