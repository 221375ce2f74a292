"""Real OpenPGP keys for tests."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class KeyRing:
    """Whoever has secret keys, without passphrases, and signs with them; ``time`` is another one than now."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.time = ""

    @property
    def gpg(self) -> list[str]:
        """The program, without what it is to do."""
        faked = ["--faked-system-time", self.time] if self.time else []
        return ["gpg", "--homedir", str(self.home), "--batch", *faked]

    def make_key(self, person: str, *, expires: str = "never") -> str:
        """Make a key to sign with; return its fingerprint."""
        self._gpg("--quick-generate-key", person, "ed25519", "sign", expires)
        listed = self._gpg("--with-colons", "--list-keys", person).splitlines()
        return next(line.split(":")[9] for line in listed if line.startswith("fpr:"))

    def revoke(self, fingerprint: str) -> None:
        """Revoke a key with the certificate that was made for it."""
        prepared = self.home / "openpgp-revocs.d" / f"{fingerprint}.rev"
        certificate = self.home / "revocation.asc"
        certificate.write_text(prepared.read_text().replace("\n:-----BEGIN", "\n-----BEGIN"))
        self._gpg("--import", str(certificate))

    def export(self, *fingerprints: str, armour: bool = True) -> bytes:
        """Return public keys as a file of allowed signers holds them."""
        form = ["--armor"] if armour else []
        return self._run(*form, "--export", *fingerprints)

    def _gpg(self, *words: str) -> str:
        return self._run(*words).decode()

    def _run(self, *words: str) -> bytes:
        argv = [*self.gpg, "--quiet", "--yes", "--passphrase", "", *words]
        done = subprocess.run(argv, check=True, capture_output=True)
        return done.stdout


@contextmanager
def key_ring() -> Iterator[KeyRing]:
    """Give an empty key ring; its path is short enough for the socket of gpg's agent."""
    with tempfile.TemporaryDirectory(prefix="gpg-") as home:
        try:
            yield KeyRing(Path(home))
        finally:
            subprocess.run(["gpgconf", "--kill", "all"], check=True, env=os.environ | {"GNUPGHOME": home})
