"""The check of commit signatures, with real SSH and OpenPGP keys and with known ways to deceive such checks."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from support.keys import KeyRing, key_ring
from support.repository import Repository, make_key, public
from zkdeployment.base.errors import SourceError
from zkdeployment.publishing.sources.git.source import GitSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES: dict[str, str | bytes | None] = {"a.zk": "/a\n"}


class CheckedRepository:
    """A repository, and the source through which a syncer with a file of allowed signers reads it."""

    def __init__(self, directory: Path) -> None:
        self.repository = Repository(directory / "repository")
        self.signers = directory / "allowed_signers"
        self.mirror = directory / "var" / "tree"
        self.source = GitSource(self.repository.url, self.mirror, gap=0, allowed_signers=self.signers)

    def signed_by_ssh(self, key: Path, *options: str, date: int | None = None) -> str:
        config = ("gpg.format=ssh", f"user.signingkey={key}.pub")
        return self.repository.commit(FILES, "-S", *options, config=config, date=date)

    def signed_by_openpgp(self, ring: KeyRing, fingerprint: str, *options: str, date: int | None = None) -> str:
        program = ring.home / "sign"
        program.write_text(f'#!/bin/sh\nexec {" ".join(ring.gpg)} "$@"\n')
        program.chmod(0o755)
        config = ("gpg.format=openpgp", f"gpg.program={program}")
        return self.repository.commit(FILES, f"-S{fingerprint}", *options, config=config, date=date)

    def passed(self, revision: str) -> str | None:
        """Return the signer of the branch's tip; the files of the tip are readable."""
        assert self.source.fetch() == revision
        assert [file.content for file in self.source.files(revision)] == [b"/a\n"]
        return self.source.origin(revision).signer

    def refusal(self, revision: str) -> str:
        """Return the reason why the branch's tip is refused; its files are not readable, and it has no signer."""
        assert self.source.fetch() == revision
        with pytest.raises(SourceError) as error:
            self.source.files(revision)
        message = str(error.value)
        assert message.startswith(f"revision {revision} is not published: ")
        assert "\n" not in message
        assert self.source.origin(revision).signer is None
        return message.removeprefix(f"revision {revision} is not published: ")

    def forge(self, revision: str) -> str:
        """Make a commit with another message and the same signature the branch's tip."""
        commit = self.repository.git("cat-file", "commit", revision)
        forged = self.repository.directory / "forged"
        forged.write_text(commit.replace("a change", "another change") + "\n")
        made = self.repository.git("hash-object", "-t", "commit", "-w", "forged")
        self.repository.git("update-ref", "refs/heads/main", made)
        return made

    def configure(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        """Write the text to the git configuration of the user, of the system and of the mirror."""
        self.source.fetch()
        file = self.mirror.parent / "config"
        file.write_text(text)
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
        monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(file))
        monkeypatch.delenv("GIT_CONFIG_NOSYSTEM", raising=False)
        with (self.mirror / "config").open("a") as config:
            config.write(text)


@pytest.fixture
def checked(tmp_path: Path) -> CheckedRepository:
    return CheckedRepository(tmp_path)


@pytest.fixture
def ring() -> Iterator[KeyRing]:
    with key_ring() as made:
        yield made


class TestSsh:
    @pytest.fixture(autouse=True)
    def _key(self, checked: CheckedRepository, tmp_path: Path) -> None:
        self.key = make_key(tmp_path, "allowed")
        checked.signers.write_text(f'tester@example.com namespaces="git" {public(self.key)}\n')

    def test_a_commit_signed_with_an_allowed_key_is_accepted_and_its_signer_is_recorded(
        self, checked: CheckedRepository
    ):
        listed = subprocess.run(
            ["ssh-keygen", "-lf", f"{self.key}.pub"], capture_output=True, check=True, text=True
        )
        assert checked.passed(checked.signed_by_ssh(self.key)) == f"tester@example.com {listed.stdout.split()[1]}"

    def test_an_unsigned_commit_is_refused(self, checked: CheckedRepository):
        assert checked.refusal(checked.repository.commit(FILES)) == (
            f"it has no SSH signature (allowed-signers is {checked.signers})"
        )

    def test_an_unsigned_commit_after_a_signed_commit_is_refused(self, checked: CheckedRepository):
        checked.signed_by_ssh(self.key)
        assert "no SSH signature" in checked.refusal(checked.repository.commit(FILES))

    def test_a_signed_merge_of_unsigned_commits_approves_their_tree(self, checked: CheckedRepository):
        git = checked.repository.git
        checked.repository.commit(FILES)
        git("checkout", "-q", "-b", "side")
        checked.repository.commit({"side": ""})
        git("checkout", "-q", "main")
        config = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={self.key}.pub")
        git(*config, "merge", "-q", "--no-ff", "-S", "-m", "both", "side")
        signer = checked.passed(git("rev-parse", "HEAD"))
        assert signer is not None
        assert signer.startswith("tester@example.com SHA256:")

    def test_an_unknown_key_is_refused_although_git_reports_a_good_signature(
        self, checked: CheckedRepository, tmp_path: Path
    ):
        revision = checked.signed_by_ssh(make_key(tmp_path, "unknown"))
        output = checked.repository.git(
            "-c", f"gpg.ssh.allowedSignersFile={checked.signers}", "log", "-1", "--show-signature"
        )
        assert 'Good "git" signature' in output
        assert "not allowed" in checked.refusal(revision)

    def test_a_key_of_another_namespace_is_refused(self, checked: CheckedRepository):
        checked.signers.write_text(f'tester@example.com namespaces="file" {public(self.key)}\n')
        assert checked.refusal(checked.signed_by_ssh(self.key))

    def test_a_signature_made_for_another_purpose_is_refused(self, checked: CheckedRepository, tmp_path: Path):
        program = tmp_path / "sign"
        program.write_text('#!/bin/sh\nshift 4\nexec ssh-keygen -Y sign -n file "$@"\n')
        program.chmod(0o755)
        checked.signers.write_text(f"tester@example.com {public(self.key)}\n")
        config = ("gpg.format=ssh", f"user.signingkey={self.key}.pub", f"gpg.ssh.program={program}")
        assert "its signature" in checked.refusal(checked.repository.commit(FILES, "-S", config=config))

    def test_a_key_that_was_removed_from_the_file_is_refused(self, checked: CheckedRepository, tmp_path: Path):
        revision = checked.signed_by_ssh(self.key)
        checked.passed(revision)
        checked.signers.write_text(f"other@example.com {public(make_key(tmp_path, 'other'))}\n")
        assert "not allowed" in checked.refusal(revision)

    def test_a_key_that_is_no_longer_valid_is_refused(self, checked: CheckedRepository):
        checked.signers.write_text(f'tester@example.com valid-before="20200101" {public(self.key)}\n')
        assert checked.refusal(checked.signed_by_ssh(self.key))

    def test_a_changed_commit_is_refused(self, checked: CheckedRepository):
        assert "its signature" in checked.refusal(checked.forge(checked.signed_by_ssh(self.key)))

    def test_a_commit_from_the_future_is_refused(self, checked: CheckedRepository):
        soon, later = int(time.time()) + 300, int(time.time()) + 3600
        assert checked.passed(checked.signed_by_ssh(self.key, date=soon))
        assert "s in the future" in checked.refusal(checked.signed_by_ssh(self.key, "--amend", date=later))

    def test_programs_and_keys_from_the_git_configuration_are_ignored(
        self, checked: CheckedRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        unknown = make_key(tmp_path, "unknown")
        revision = checked.signed_by_ssh(unknown)
        yes = tmp_path / "yes"
        yes.write_text('#!/bin/sh\necho "Good \\"git\\" signature for me with ED25519 key SHA256:x"\nexit 0\n')
        yes.chmod(0o755)
        own = tmp_path / "own_signers"
        own.write_text(f"me@example.com {public(unknown)}\n")
        checked.configure(
            monkeypatch,
            f'[gpg "ssh"]\n  program = {yes}\n  allowedSignersFile = {own}\n[gpg]\n  program = {yes}\n',
        )
        assert "not allowed" in checked.refusal(revision)

    def test_an_openpgp_signature_is_refused(
        self, checked: CheckedRepository, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
    ):
        revision = checked.signed_by_openpgp(ring, ring.make_key("tester@example.com"))
        monkeypatch.setenv("GNUPGHOME", str(ring.home))
        assert "it has no SSH signature" in checked.refusal(revision)

    def test_a_missing_file_of_allowed_signers_is_an_error(self, checked: CheckedRepository):
        revision = checked.signed_by_ssh(self.key)
        checked.source.fetch()
        checked.signers.unlink()
        with pytest.raises(SourceError) as error:
            checked.source.files(revision)
        assert str(error.value) == f"cannot read allowed-signers {checked.signers}: No such file or directory"

    def test_an_empty_file_of_allowed_signers_refuses_all_commits(self, checked: CheckedRepository):
        checked.signers.write_text("")
        assert checked.refusal(checked.signed_by_ssh(self.key))


class TestOpenPgp:
    @pytest.fixture(autouse=True)
    def _key(self, checked: CheckedRepository, ring: KeyRing) -> None:
        self.key = ring.make_key("Tester <tester@example.com>")
        checked.signers.write_bytes(ring.export(self.key))

    def test_a_commit_signed_with_an_allowed_key_is_accepted_and_its_signer_is_recorded(
        self, checked: CheckedRepository, ring: KeyRing
    ):
        revision = checked.signed_by_openpgp(ring, self.key)
        assert checked.passed(revision) == f"Tester <tester@example.com> {self.key}"
        checked.signers.write_bytes(ring.export(self.key, armour=False))
        assert checked.passed(revision)

    def test_an_unsigned_commit_is_refused(self, checked: CheckedRepository):
        assert checked.refusal(checked.repository.commit(FILES)) == (
            f"it has no OpenPGP signature (allowed-signers is {checked.signers})"
        )

    def test_an_unknown_key_is_refused_although_the_user_trusts_it(
        self, checked: CheckedRepository, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
    ):
        revision = checked.signed_by_openpgp(ring, ring.make_key("unknown@example.com"))
        monkeypatch.setenv("GNUPGHOME", str(ring.home))
        assert "not allowed" in checked.refusal(revision)

    def test_a_revoked_key_is_refused(self, checked: CheckedRepository, ring: KeyRing):
        revision = checked.signed_by_openpgp(ring, self.key)
        checked.passed(revision)
        ring.revoke(self.key)
        checked.signers.write_bytes(ring.export(self.key))
        assert "revoked" in checked.refusal(revision)

    def test_an_expired_key_is_refused_even_for_a_back_dated_commit(
        self, checked: CheckedRepository, ring: KeyRing
    ):
        ring.time = "20200101T000000"
        expired = ring.make_key("old@example.com", expires="1y")
        checked.signers.write_bytes(ring.export(expired))
        revision = checked.signed_by_openpgp(ring, expired, date=1577840400)
        assert "expired" in checked.refusal(revision)

    def test_a_changed_commit_is_refused(self, checked: CheckedRepository, ring: KeyRing):
        assert "its signature is wrong" in checked.refusal(
            checked.forge(checked.signed_by_openpgp(ring, self.key))
        )

    def test_a_commit_from_the_future_is_refused(self, checked: CheckedRepository, ring: KeyRing):
        later = int(time.time()) + 3600
        assert "s in the future" in checked.refusal(checked.signed_by_openpgp(ring, self.key, date=later))

    def test_programs_from_the_git_configuration_are_ignored(
        self, checked: CheckedRepository, ring: KeyRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        revision = checked.signed_by_openpgp(ring, ring.make_key("unknown@example.com"))
        yes = tmp_path / "yes"
        yes.write_text(
            "#!/bin/sh\ncat >/dev/null\n"
            f"printf '[GNUPG:] NEWSIG\\n[GNUPG:] GOODSIG {self.key} me\\n[GNUPG:] TRUST_ULTIMATE\\n'\n"
        )
        yes.chmod(0o755)
        checked.configure(monkeypatch, f'[gpg]\n  program = {yes}\n[gpg "openpgp"]\n  program = {yes}\n')
        assert "not allowed" in checked.refusal(revision)

    def test_an_ssh_signature_is_refused(
        self, checked: CheckedRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        key = make_key(tmp_path, "ssh")
        own = tmp_path / "own_signers"
        own.write_text(f"me@example.com {public(key)}\n")
        revision = checked.signed_by_ssh(key)
        checked.configure(monkeypatch, f'[gpg "ssh"]\n  allowedSignersFile = {own}\n')
        assert "signature" in checked.refusal(revision)

    def test_an_invalid_key_ring_is_an_error(self, checked: CheckedRepository, ring: KeyRing):
        revision = checked.signed_by_openpgp(ring, self.key)
        checked.source.fetch()
        checked.signers.write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\nrubbish\n")
        with pytest.raises(SourceError, match="cannot use the OpenPGP keys of allowed-signers"):
            checked.source.files(revision)

    def test_no_gpg_agent_keeps_running(self, checked: CheckedRepository, ring: KeyRing):
        checked.passed(checked.signed_by_openpgp(ring, self.key))
        processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True, text=True).stdout
        assert not [line for line in processes.splitlines() if "gpg-agent" in line and "zkdeployment-" in line]
