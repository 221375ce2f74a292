"""The key that signs publications: made and checked by the real ssh-keygen."""

from unittest import mock

import psutil
import pytest

from support.keys import make_key, make_publishers
from support.waiting import wait_until
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.machine import process
from zkdeployment.publishing.keys import PublishKey, sign_text, verify_text
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement


def test_a_key_signs_texts_and_knows_its_signatures(tmp_path):
    file, other = make_key(tmp_path / "key"), make_key(tmp_path / "other")
    key = PublishKey(file)
    signature = key.start("a statement")()
    publishers = make_publishers(tmp_path / "publishers", file)
    assert verify_text(publishers, NAMESPACE, "a statement", signature).name == "key@example.com"
    assert key.made(SignedStatement("a statement", signature))
    assert not key.made(SignedStatement("another statement", signature))
    assert not key.made(SignedStatement("a statement", PublishKey(other).start("a statement")()))
    assert not key.made(SignedStatement("a statement", sign_text(file, "git", "a statement")))
    assert not key.made(SignedStatement("a statement", "no signature"))
    file.unlink()
    with pytest.raises(ConfigurationError, match="cannot sign with"):
        key.start("a statement")()


def test_a_signature_is_prepared_before_its_text_is_known_and_can_be_abandoned(tmp_path):
    key = PublishKey(make_key(tmp_path / "key"))
    others = set(psutil.Process().children())
    with mock.patch.object(process, "run", wraps=process.run) as run:
        key.expect()
        key.expect()
        assert key.made(SignedStatement("a statement", key.start("a statement")()))
        assert ["sign" in call.args[0] for call in run.call_args_list] == [True, False]
        key.expect()
        key.abandon()
        key.abandon()
        assert key.made(SignedStatement("another", key.start("another")()))
    wait_until(lambda: not set(psutil.Process().children()) - others, "no ssh-keygen is left")


def test_a_file_that_cannot_sign_is_refused_with_advice(tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("no key\n")
    wrong.chmod(0o600)
    readable = make_key(tmp_path / "readable")
    readable.chmod(0o644)
    public = readable.with_name("readable.pub")
    public.chmod(0o600)
    for file, problem in (
        (tmp_path / "missing", "cannot read .*: No such file"),
        (wrong, "expected an SSH private key without a passphrase"),
        (make_key(tmp_path / "locked", passphrase="secret"), r"incorrect passphrase.*make one with 'ssh-keygen"),
        (public, "expected an SSH private key"),
        (readable, "everyone has access .*; run chmod o-rwx"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            PublishKey(file)
