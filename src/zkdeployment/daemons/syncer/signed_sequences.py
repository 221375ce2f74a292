"""The record of what this syncer signed, which decides the numbers of the next signature.

The numbers in ZooKeeper are never signed: whoever can write there could have a publication signed that hosts
prefer to all that follow, or one that they take for what they have already.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.signing.sequences import SigningRecord

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.ports.memory import SigningMemory


class SignedSequences:
    """Keeps the record in ``memory``; without ``memory``, only as long as this object lives."""

    def __init__(self, memory: SigningMemory | None) -> None:
        self._memory = memory
        self._known: SigningRecord | None = None

    @property
    def known(self) -> SigningRecord:
        """The record; with sequence 0 if no publication is known to stand."""
        if self._known is None:
            self._known = SigningRecord() if self._memory is None else self._memory.read_signed()
        return self._known

    def reserve(self, sequence: int) -> SigningRecord:
        """Record a sequence before it is signed; return the record before. Raises ``HostFilesError``.

        Which publication stands is unknown then, until ``withdraw`` or ``record`` is called.
        """
        before = self.known
        self._write(SigningRecord(sequence))
        return before

    def withdraw(self, before: SigningRecord) -> None:
        """Record that nothing was written to ZooKeeper since ``reserve``: the last publication still stands."""
        self._write(replace(before, reserved=self.known.reserved))

    def record(self, sequence: int, since: int, revision: Revision) -> None:
        """Record the publication that stands, unless a later one was signed; raises ``HostFilesError``."""
        if sequence >= self.known.reserved:
            self._write(SigningRecord(sequence, sequence, since, revision))

    def _write(self, record: SigningRecord) -> None:
        if record == self.known:
            return
        if self._memory is not None:
            self._memory.write_signed(record)
        self._known = record
