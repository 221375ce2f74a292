"""Keys that sign publications, and a check of everything that a fleet's ZooKeeper holds against them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from kazoo.exceptions import NoNodeError

from zkdeployment.publishing.keys.ssh_signatures import verify_text
from zkdeployment.publishing.signing.snapshot import deviations
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement, Statement, bucket_of

if TYPE_CHECKING:
    from pathlib import Path

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
