"""The configuration of ZooKeeper authentication and access lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.config.settings import load
from zkdeployment.zookeeper.servers import Access, AclEntry

if TYPE_CHECKING:
    from pathlib import Path

CREATOR = AclEntry("auth", "", "cdrwa")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with the files that the tested configurations name."""
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("PEM")
    (tmp_path / "credentials").write_text("agents:a:secret\n")
    for name in ("key.pem", "credentials"):
        (tmp_path / name).chmod(0o640)
    return tmp_path


def access(place: Path, *lines: str) -> Access:
    file = place / "zkdeployment.cfg"
    file.write_text("\n".join(["[zkdeployment]", *lines]).replace("PLACE", str(place)))
    return load(file, host=False).access


def test_by_default_there_is_no_authentication(place: Path):
    assert access(place) == Access()


def test_credentials_are_read_from_a_file_and_give_the_creator_all_rights(place: Path):
    result = access(place, "zookeeper-credentials = PLACE/credentials", "zookeeper-plain-text = yes")
    assert result == Access(
        credentials=place / "credentials", secret="agents:a:secret", plain_text=True, acl=(CREATOR,)
    )
    assert "secret" not in repr(result).replace("secrets", "").replace(str(place), "")


@pytest.mark.parametrize("allowed", [(), ("zookeeper-plain-text = no",)])
def test_a_password_is_not_sent_in_plain_text_unless_that_is_allowed(place: Path, allowed: tuple[str, ...]):
    credentials = "zookeeper-credentials = PLACE/credentials"
    with pytest.raises(
        ConfigurationError, match="expected zookeeper-ca, which enables encryption, or zookeeper-plain-text"
    ):
        access(place, credentials, *allowed)
    assert access(place, credentials, "zookeeper-ca = PLACE/ca.pem", *allowed).secret == "agents:a:secret"


def test_a_certificate_authenticates_the_creator(place: Path):
    files = (
        "zookeeper-ca = PLACE/ca.pem",
        "zookeeper-certificate = PLACE/cert.pem",
        "zookeeper-key = PLACE/key.pem",
    )
    result = access(place, *files)
    assert (result.ca, result.certificate, result.key) == (place / "ca.pem", place / "cert.pem", place / "key.pem")
    assert result.acl == (CREATOR,)
    assert access(place, files[0]).acl == ()


def test_each_line_is_an_acl_entry(place: Path):
    result = access(
        place,
        "zookeeper-ca = PLACE/ca.pem",
        "zookeeper-credentials = PLACE/credentials",
        "zookeeper-acl = creator:cdrwa",
        "  x509:CN=the syncer,O=Example:cdrw",
        "  digest:viewer:kmRkV9jTKBSGTYdmPgxvFu3yJ3E=:r",
        "  world:anyone:r",
    )
    assert result.acl == (
        CREATOR,
        AclEntry("x509", "CN=the syncer,O=Example", "cdrw"),
        AclEntry("digest", "viewer:kmRkV9jTKBSGTYdmPgxvFu3yJ3E=", "r"),
        AclEntry("world", "anyone", "r"),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("zookeeper-ca = ca.pem", "zookeeper-ca: expected an absolute path"),
        ("zookeeper-ca = PLACE/missing", "zookeeper-ca: cannot read PLACE/missing: No such file or directory"),
        ("zookeeper-key = PLACE/key.pem", "zookeeper-certificate: expected both this key and zookeeper-key"),
        (
            "zookeeper-certificate = PLACE/cert.pem\nzookeeper-key = PLACE/key.pem",
            "zookeeper-certificate: expected zookeeper-ca together with this key",
        ),
        (
            "zookeeper-credentials = PLACE/ca.pem",
            "zookeeper-credentials: expected one line USER:PASSWORD in PLACE/ca.pem",
        ),
        (
            "zookeeper-credentials = PLACE/ca.pem",
            "everyone has access to PLACE/ca.pem (mode 644); run chmod o-rwx",
        ),
        (
            "zookeeper-key = PLACE/ca.pem",
            "zookeeper-key: everyone has access to PLACE/ca.pem (mode 644); run chmod o-rwx",
        ),
        ("zookeeper-plain-text = maybe", "zookeeper-plain-text: expected yes or no, found 'maybe'"),
        ("zookeeper-acl = everyone", "zookeeper-acl: expected lines like creator:cdrwa"),
        ("zookeeper-acl = world:everyone:r", "found 'world:everyone:r'"),
        ("zookeeper-acl = creator:cdrwx", "found 'creator:cdrwx'"),
        ("zookeeper-acl = creator:r", "creator requires zookeeper-credentials or zookeeper-certificate"),
    ],
)
def test_an_invalid_value_is_an_error(place: Path, line: str, problem: str):
    (place / "ca.pem").chmod(0o644)
    with pytest.raises(ConfigurationError) as error:
        access(place, line)
    assert problem.replace("PLACE", str(place)) in str(error.value)
