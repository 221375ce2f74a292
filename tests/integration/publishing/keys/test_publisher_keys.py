"""Which signatures the list of publishers accepts: one process for a publication, and changes without a reload."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from support.keys import make_key, make_publishers
from support.waiting import wait_until
from zkdeployment.base.errors import ConfigurationError, HostFilesError, UntrustedError
from zkdeployment.base.machine import process
from zkdeployment.publishing.keys import (
    PublisherKeysFile,
    check_keys,
    has_key,
    sign_text,
    unlimited_keys,
    useless_keys,
    verify_text,
)
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("keys") / "one")


@pytest.fixture(scope="module")
def signed(key: Path) -> SignedStatement:
    return SignedStatement("text", sign_text(key, NAMESPACE, "text"))


@pytest.fixture
def publishers(tmp_path: Path, key: Path) -> Path:
    return make_publishers(tmp_path / "publishers", key)


def test_a_statement_is_verified_once_with_one_process(publishers: Path, signed: SignedStatement):
    keys = PublisherKeysFile(publishers)
    with mock.patch.object(process, "run", wraps=process.run) as run:
        keys.verify(signed)
        keys.verify(signed)
        assert run.call_count == 1
        PublisherKeysFile(publishers).verify(signed)
        assert run.call_count == 2


def test_two_processes_are_enough_if_only_patterns_name_the_key(
    publishers: Path, key: Path, signed: SignedStatement
):
    publishers.write_text(f"*@example.com {key.with_suffix('.pub').read_text()}")
    with mock.patch.object(process, "run", wraps=process.run) as run:
        PublisherKeysFile(publishers).verify(signed)
    assert [call.args[0][2] for call in run.call_args_list] == ["find-principals", "verify"]


def test_a_change_of_the_list_takes_effect_at_once(publishers: Path, signed: SignedStatement, tmp_path: Path):
    keys = PublisherKeysFile(publishers)
    keys.verify(signed)
    make_publishers(publishers, make_key(tmp_path / "two"))
    with pytest.raises(UntrustedError, match="is not signed by one of the publishers of this host"):
        keys.verify(signed)


def test_a_key_that_expires_is_refused_after_a_minute_although_it_was_valid(
    tmp_path: Path, key: Path, signed: SignedStatement
):
    publishers = tmp_path / "publishers"
    for seconds in (5, 10, 20):  # until the key is still valid on a busy machine when the signature is verified
        end = time.strftime("%Y%m%d%H%M%S", time.localtime(time.time() + seconds))
        publishers.write_text(f'one valid-before="{end}" {key.with_suffix(".pub").read_text()}')
        keys = PublisherKeysFile(publishers)
        if not is_refused(keys, signed):
            break
    else:
        pytest.fail("the key is refused while it is valid")
    wait_until(lambda: is_refused(PublisherKeysFile(publishers), signed), "the key expires")
    keys.verify(signed)
    with mock.patch.object(time, "monotonic", return_value=time.monotonic() + 60):
        assert is_refused(keys, signed)


def is_refused(keys: PublisherKeysFile, signed: SignedStatement) -> bool:
    try:
        keys.verify(signed)
    except UntrustedError:
        return True
    return False


@pytest.mark.parametrize(
    "line",
    [
        "one {key}",
        "# comment\n\n  one,two {key}",
        '"the syncer,other" {key}',
        "*@example.com {key}",
        "!old@example.com,?@example.com {key}",
        "*@example.com,!old@example.com {key}",
        f'one namespaces="{NAMESPACE},git" {{key}}',
        "other ssh-ed25519 AAAA\none {key}",
    ],
)
def test_every_form_of_a_line_is_understood(line: str, publishers: Path, key: Path, signed: SignedStatement):
    publishers.write_text(line.format(key=key.with_suffix(".pub").read_text()))
    PublisherKeysFile(publishers).verify(signed)


@pytest.mark.parametrize("names", ["*@example.com", "alice@example.com", "nobody,bob@example.com"])
def test_certificates_are_verified_as_the_check_by_hand_does(names: str, publishers: Path, tmp_path: Path):
    authority, key = make_key(tmp_path / "authority"), make_key(tmp_path / "certified")
    principals = "alice@example.com,bob@example.com"
    process.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "id", "-n", principals, str(key)]).check()
    signature = sign_text(tmp_path / "certified-cert.pub", NAMESPACE, "text")
    publishers.write_text(f"{names} cert-authority {authority.with_suffix('.pub').read_text()}")
    PublisherKeysFile(publishers).verify(SignedStatement("text", signature))
    assert verify_text(publishers, NAMESPACE, "text", signature).name in principals


def test_no_temporary_file_is_needed(publishers: Path, signed: SignedStatement, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    PublisherKeysFile(publishers).verify(signed)


@pytest.mark.parametrize("line", ['one namespaces="git" {key}', 'one valid-before="20200101" {key}'])
def test_the_limits_of_a_key_hold(line: str, publishers: Path, key: Path, signed: SignedStatement):
    publishers.write_text(line.format(key=key.with_suffix(".pub").read_text()))
    with pytest.raises(UntrustedError, match="its signature is not valid"):
        PublisherKeysFile(publishers).verify(signed)


def test_a_list_that_cannot_be_used_is_an_error_of_the_host(publishers: Path, signed: SignedStatement):
    for change, message in (
        (lambda: publishers.write_text("# none\n"), "has no keys: expected lines NAME KEYTYPE KEY"),
        (publishers.unlink, "cannot read publishers"),
    ):
        change()
        with pytest.raises(HostFilesError, match=message):
            PublisherKeysFile(publishers).verify(signed)


def test_no_text_is_taken_for_a_signature(publishers: Path):
    for signature in ("", "x" * 100_000, "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"):
        with pytest.raises(UntrustedError):
            PublisherKeysFile(publishers).verify(SignedStatement("text", signature))


def test_keys_without_namespaces_may_sign_everything(tmp_path: Path):
    file = tmp_path / "publishers"
    file.write_text(
        "# comment\n\none@example.com ssh-ed25519 AAAA\n"
        'two namespaces="zkdeployment-publication" ssh-ed25519 AAAA\n'
        'three cert-authority,NameSpaces="zkdeployment-lease" ssh-ed25519 AAAA\n'
        'four valid-before="20300101",namespaces="zkdeployment-lease" ssh-ed25519 AAAA\n'
        '"the worker,w2" valid-after="20260101" ssh-ed25519 AAAA namespaces\n'
        'five ssh-ed25519 AAAA namespaces="zkdeployment-lease"\n'
    )
    assert unlimited_keys(file) == ["one@example.com", "the worker", "five"]
    assert unlimited_keys(tmp_path / "absent") == []


@pytest.mark.parametrize("content", ["", "# comment\n", "garbage line\n", "name ssh-ed25519\n"])
def test_a_list_without_a_key_is_an_error_of_the_configuration(tmp_path: Path, content: str):
    file = tmp_path / "publishers"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=rf"publishers: there is no key in {file}: expected lines NAME"):
        check_keys(file, NAMESPACE)
    with pytest.raises(ConfigurationError, match=r"cannot read the keys in .*: No such file"):
        check_keys(tmp_path / "absent", NAMESPACE)
    file.write_text('publisher@example.com namespaces="zkdeployment-publication" ssh-ed25519 AAAAC3Nz\n')
    check_keys(file, NAMESPACE)


@pytest.mark.parametrize(
    ("patterns", "is_usable"),
    [
        (NAMESPACE, True),
        ("git,zkdeployment-publicatio?", True),
        ("zkdeployment-*", True),
        ("*", True),
        ("zkdeployment-publications", False),
        ("Zkdeployment-publication", False),
        ("zkdeployment-[a-z]*", False),
        ("zkdeployment", False),
        ("zkdeployment-*,!*-publication", False),
        ("!zkdeployment-publication", False),
        ("!git,zkdeployment-*", True),
        ("git, zkdeployment-publication", False),
        ("", False),
    ],
)
def test_the_check_of_a_list_and_ssh_keygen_agree_about_namespaces(
    patterns: str, is_usable: bool, publishers: Path, key: Path, signed: SignedStatement
):
    publishers.write_text(f'one namespaces="{patterns}" {key.with_suffix(".pub").read_text()}')
    assert useless_keys(publishers, NAMESPACE) == ([] if is_usable else ["one"])
    assert has_key(publishers, NAMESPACE) == is_usable
    if is_usable:
        check_keys(publishers, NAMESPACE)
        PublisherKeysFile(publishers).verify(signed)
        return
    found = rf'expected namespaces="{NAMESPACE}" before a key, found namespaces="{re.escape(patterns)}"; correct'
    with pytest.raises(ConfigurationError, match=found):
        check_keys(publishers, NAMESPACE)
    with pytest.raises(UntrustedError):
        PublisherKeysFile(publishers).verify(signed)
