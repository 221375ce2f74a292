"""Keys that sign publications and commits, and a check of all that a fleet's ZooKeeper holds against them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kazoo.exceptions import NoNodeError

from zkdeployment.publishing.keys import verify_text
from zkdeployment.publishing.signing.snapshot import deviations
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement, Statement, bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kazoo.client import KazooClient


SIGNED = "/zkdeployment/signed"


def make_key(file: Path, *, passphrase: str = "", kind: str = "ed25519") -> Path:
    """Make an SSH key in a new file; the public key is beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", file.name, "-f", str(file)], check=True
    )
    return file


def make_publishers(file: Path, *keys: Path, **purposes: Path) -> Path:
    """Write the list of allowed signers with these keys, each named by its file.

    ``keys`` may sign everything; ``purposes`` maps namespaces to keys that may sign nothing else.
    """
    listed = [("", key) for key in keys]
    listed += [(f'namespaces="{namespace}" ', key) for namespace, key in purposes.items()]
    publics = ((key.name, rights, key.with_name(f"{key.name}.pub").read_text().strip()) for rights, key in listed)
    file.write_text("".join(f"{name}@example.com {rights}{public}\n" for name, rights, public in publics))
    return file


def signed_by(client: KazooClient, publishers: Path) -> tuple[str, Statement]:
    """Return who signed the publication in ZooKeeper, and the statement; all targets must be as signed."""
    statement = SignedStatement.from_data(client.get(SIGNED)[0])
    owner = verify_text(publishers, NAMESPACE, statement.text, statement.signature)
    signed = Statement.from_text(statement.text)
    assert [*deviations(signed, *read_signed_nodes(client))] == []
    return owner.name.partition("@")[0], signed


def read_signed_nodes(client: KazooClient) -> tuple[dict[str, bytes | None], dict[str, bytes | None]]:
    """Return the data of all buckets and of all targets by name, and ``None`` for an absent target ``nobody``."""
    names = client.get_children("/zkdeployment/targets")
    targets: dict[str, bytes | None] = {name: client.get(f"/zkdeployment/targets/{name}")[0] for name in names}
    targets["nobody"] = None
    listed = {*client.get_children(SIGNED), *map(bucket_of, targets)}
    return {name: _data(client, f"{SIGNED}/{name}") for name in listed}, targets


def _data(client: KazooClient, path: str) -> bytes | None:
    try:
        data: bytes = client.get(path)[0]
    except NoNodeError:
        return None
    return data


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
