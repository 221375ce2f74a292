"""A certificate authority, and a real ZooKeeper with encrypted connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import trustme
from cryptography.hazmat.primitives import serialization

from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation, free_port
from zkdeployment.zookeeper.servers import Access

if TYPE_CHECKING:
    from pathlib import Path


#: The usual authorities, for clients of httpx: each one reads them for 25 ms otherwise, also for plain HTTP.
CERTIFICATES = httpx.create_ssl_context()


class Authority:
    """A certificate authority with the certificate ``ca`` (a file); ``directory`` receives issued certificates."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a new certificate for ``name`` and of its key."""
        issued = self._authority.issue_cert(name, common_name=name)
        certificate, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.touch(mode=0o600)
        secret = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        key.write_bytes(  # in the only form that Java reads
            secret.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, key

    def access(self, name: str) -> Access:
        """Return the access settings of a client with a certificate."""
        certificate, key = self.issue(name)
        return Access(ca=self.ca, certificate=certificate, key=key)


class EncryptingServer(ZooKeeperServer):
    """A server that accepts certificates at ``localhost:SECURE_PORT`` and plain connections at ``address``."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.secure_port = free_port()
        certificate, key = authority.issue("localhost")
        keys = directory / "server.pem"
        keys.write_bytes(key.read_bytes() + certificate.read_bytes())
        more = (
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPortAddress=127.0.0.1",
            f"secureClientPort={self.secure_port}",
            f"ssl.keyStore.location={keys}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={authority.ca}",
            "ssl.trustStore.type=PEM",
        )
        super().__init__(find_installation(), directory, more=more)
