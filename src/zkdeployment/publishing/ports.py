"""The adapters of the syncer that have more than one implementation, and the limits of all sources of trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import RevisionError
from zkdeployment.base.source_files import MOST_BYTES_OF_A_FILE, SourceFile, is_tree_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import Origin
    from zkdeployment.publishing.records import CommitSummary
    from zkdeployment.publishing.signing.statement import SignedStatement


class PublicationSigner(Protocol):
    """The key with which publications are signed."""

    def expect(self) -> None:
        """Prepare for a text that will be signed soon, so that its signature takes less time."""

    def abandon(self) -> None:
        """End the preparation, if no text has to be signed after all."""

    def start(self, text: str) -> Callable[[], str]:
        """Begin to sign a text; return a function that waits for the signature and returns it.

        The returned function raises ``ConfigurationError`` if the key can no longer be used.
        """

    def made(self, statement: SignedStatement) -> bool:
        """Whether the signature of a statement is valid and made with this key."""


class PublisherKeys(Protocol):
    """The keys whose publications this host deploys."""

    def verify(self, signed: SignedStatement) -> None:
        """Return if a publisher signed the statement.

        Raises ``UntrustedError`` if none did, ``HostFilesError`` if the keys cannot be read.
        """


class TreeSource(Protocol):
    """The tree's repository. Raises ``SourceError``."""

    def fetch(self) -> Revision:
        """Update the mirror and return the tip of the branch."""

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        """Read the tree files and rollout documents in the top directory of a revision, sorted by name.

        Rollout documents are the YAML files that mention a schema of rollouts; other YAML files are not read
        further. If signatures are required, a revision without a valid signature raises ``RevisionError``.
        """

    def origin(self, revision: Revision) -> Origin:
        """Return author, subject and time of a revision, and its signer if the signature was verified."""

    def newer(self, revision: Revision, than: Revision, most: int) -> Sequence[CommitSummary]:
        """Return the newest commits up to a fetched ``revision`` that another one lacks, newest first.

        If the other one is unknown, only the commit ``revision`` is known to be newer.
        """

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        """Whether ``revision`` is ``ancestor`` or one of its descendants; ``False`` if ``ancestor`` is unknown."""


#: Trees are text written by people; larger repositories are a mistake or an attack.
MOST_BYTES = 128 << 20
MOST_FILES = 10_000

#: Attempts to reach a repository, the first one included.
ATTEMPTS = 4

_LONGEST = 300


def check_entry(name: str, tree: str, kind: str = "") -> None:
    """Raise ``RevisionError`` unless an entry at the top of a tree can be a tree file.

    ``tree`` names the tree in messages. ``kind`` is what the entry is if it is no plain file; bytes of its name
    that are not UTF-8 are kept in ``name``.
    """
    raw_name = name.encode("utf-8", "surrogateescape")
    if raw_name.decode("utf-8", "replace") != name:
        raise RevisionError(f"{tree}: the name of {raw_name!r} is not UTF-8")
    if not name.isprintable():
        raise RevisionError(f"{tree}: the name of {name!a} has characters that cannot be printed")
    if kind:
        raise RevisionError(f"{name} of {tree} is {kind}; a tree file has to be a plain file")


def check_limits(sizes: Mapping[str, int], revision: str) -> None:
    """Raise ``RevisionError`` if files of these sizes (bytes by name) exceed a limit or include no tree file."""
    if not any(map(is_tree_file, sizes)):
        raise RevisionError(f"revision {revision} has no tree files (*.zk) at its top")
    if len(sizes) > MOST_FILES:
        raise RevisionError(f"revision {revision} has {len(sizes)} tree files; {MOST_FILES} are allowed")
    for name, size in sizes.items():
        if size > MOST_BYTES_OF_A_FILE:
            raise RevisionError(
                f"{name} of revision {revision} has {size} bytes; {MOST_BYTES_OF_A_FILE} are allowed"
            )
    if sum(sizes.values()) > MOST_BYTES:
        raise RevisionError(f"the tree files of revision {revision} have more than {MOST_BYTES} bytes")


def shorten(text: str) -> str:
    """Return a name or a subject line without control characters, cut to a readable length."""
    text = sanitize(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
