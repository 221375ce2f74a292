"""The record of what this syncer signed, which decides the numbers of the next signature.

Numbers from ZooKeeper are never signed. An attacker who can write to ZooKeeper could otherwise obtain a signed
publication that hosts prefer to all later ones, or that they mistake for the publication they already have.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError
from zkdeployment.signing.sequences import SigningRecord

if TYPE_CHECKING:
    from zkdeployment.adapters.host_files.signing_file import SigningFile
    from zkdeployment.model.cluster import Revision


class SignedSequences:
    """Keeps the record in ``memory``; without ``memory``, only as long as this object lives.

    Records are written beside other work. ``settle`` waits until they are durable.
    """

    def __init__(self, memory: SigningFile | None) -> None:
        self._memory = memory
        self._known: SigningRecord | None = None
        self._writer = ThreadPoolExecutor(1, "signed-sequences")
        self._writing: Future[None] | None = None

    @property
    def known(self) -> SigningRecord:
        """The record; with sequence 0 if no publication is known to stand."""
        if self._known is None:
            self._known = SigningRecord() if self._memory is None else self._memory.read_signed()
        return self._known

    def reserve(self, sequence: int) -> SigningRecord:
        """Begin to record a sequence, and return the record before. ``settle`` before its signature is written.

        Which publication stands is unknown then, until ``withdraw`` or ``record`` is called.
        """
        before = self.known
        self._write(SigningRecord(sequence))
        return before

    def withdraw(self, before: SigningRecord) -> None:
        """Begin to record that nothing was written since ``reserve``: the last publication still stands."""
        self._write(replace(before, reserved=self.known.reserved))

    def record(self, sequence: int, since: int, revision: Revision, left: str | None) -> None:
        """Begin to record the publication that stands, unless a later one was signed."""
        if sequence >= self.known.reserved:
            self._write(SigningRecord(sequence, sequence, since, revision, left))

    def settle(self) -> None:
        """Wait until the record is durable; raises ``HostFilesError``."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except HostFilesError:
            self._known = None  # what the memory holds
            raise

    def _write(self, record: SigningRecord) -> None:
        if record == self.known:
            return
        self._known = record
        if self._memory is not None:
            self._writing = self._writer.submit(self._memory.write_signed, record)
