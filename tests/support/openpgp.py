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
    """A key ring with secret keys without passphrases; ``time`` replaces the current time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.time = ""

    @property
    def gpg(self) -> list[str]:
        """The command line of gpg up to its action."""
        faked = ["--faked-system-time", self.time] if self.time else []
        return ["gpg", "--homedir", str(self.home), "--batch", *faked]

    def make_key(self, person: str, *, expires: str = "never") -> str:
        """Create a signing key; return its fingerprint."""
        self._gpg("--quick-generate-key", person, "ed25519", "sign", expires)
        listed = self._gpg("--with-colons", "--list-keys", person).splitlines()
        return next(line.split(":")[9] for line in listed if line.startswith("fpr:"))

    def revoke(self, fingerprint: str) -> None:
        """Revoke a key with its revocation certificate."""
        prepared = self.home / "openpgp-revocs.d" / f"{fingerprint}.rev"
        certificate = self.home / "revocation.asc"
        certificate.write_text(prepared.read_text().replace("\n:-----BEGIN", "\n-----BEGIN"))
        self._gpg("--import", str(certificate))

    def export(self, *fingerprints: str, armour: bool = True) -> bytes:
        """Return public keys in the format of ``allowed-signers``."""
        form = ["--armor"] if armour else []
        return self._run(*form, "--export", *fingerprints)

    def export_secret(self, fingerprint: str) -> bytes:
        """Return a secret key in the format of ``signing-key``."""
        return self._run("--armor", "--export-secret-keys", fingerprint)

    def _gpg(self, *arguments: str) -> str:
        return self._run(*arguments).decode()

    def _run(self, *arguments: str) -> bytes:
        argv = [*self.gpg, "--quiet", "--yes", "--passphrase", "", *arguments]
        done = subprocess.run(argv, check=True, capture_output=True)
        return done.stdout


@contextmanager
def key_ring() -> Iterator[KeyRing]:
    """Yield an empty key ring, whose path is short enough for the socket of gpg's agent."""
    with tempfile.TemporaryDirectory(prefix="gpg-") as home:
        try:
            yield KeyRing(Path(home))
        finally:
            subprocess.run(["gpgconf", "--kill", "all"], check=True, env=os.environ | {"GNUPGHOME": home})
