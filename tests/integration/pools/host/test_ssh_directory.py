"""The restoration of root's directory .ssh after all kinds of changes by a tenant: real files."""

import stat

import pytest

from zkdeployment.base.errors import HostFilesError
from zkdeployment.pools.host.ssh_access import SshDirectory


@pytest.fixture
def ssh(tmp_path):
    (tmp_path / "run").mkdir()
    place = tmp_path / "root/.ssh"
    place.mkdir(parents=True, mode=0o700)
    (place / "authorized_keys").write_text("ssh-rsa AAAA ops\n")
    (place / "authorized_keys").chmod(0o640)
    (place / "id").symlink_to("elsewhere")
    (place / "sockets").mkdir()
    return place


@pytest.fixture
def directory(tmp_path, ssh):
    assert ssh.is_dir()
    kept = SshDirectory(tmp_path, tmp_path / "run/record")
    kept.keep()
    return kept


def state(ssh):
    return {
        path.name: str(path.readlink())
        if path.is_symlink()
        else path.read_text()
        if path.is_file()
        else "directory"
        for path in ssh.iterdir()
    }


EXPECTED = {"authorized_keys": "ssh-rsa AAAA ops\n", "id": "elsewhere", "sockets": "directory"}


@pytest.mark.parametrize("attack", ["files", "directories", "link", "file", "gone"])
def test_all_of_the_directory_is_restored(tmp_path, ssh, directory, attack):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    if attack == "files":
        (ssh / "authorized_keys").write_text("ssh-rsa BBBB tenant\n")
        (ssh / "authorized_keys").chmod(0o666)
        (ssh / "authorized_keys2").write_text("ssh-rsa BBBB tenant\n")
        (ssh / "id").unlink()
        (ssh / "link").symlink_to(precious)
        ssh.chmod(0o777)
    elif attack == "directories":
        (ssh / "authorized_keys").unlink()
        (ssh / "authorized_keys").mkdir()
        (ssh / "authorized_keys/more").touch()
        (ssh / "more/deep").mkdir(parents=True)
        (ssh / "more/deep/link").symlink_to(precious)
    else:
        ssh.rename(tmp_path / "moved")
        if attack == "link":
            ssh.symlink_to(precious)
        elif attack == "file":
            ssh.touch()
    directory.restore()
    if attack in {"files", "directories"}:
        assert state(ssh) == EXPECTED
    else:
        assert state(ssh) == {name: value for name, value in EXPECTED.items() if name != "sockets"}
    assert (stat.S_IMODE(ssh.lstat().st_mode), (precious / "file").exists()) == (0o700, True)
    assert stat.S_IMODE((ssh / "authorized_keys").stat().st_mode) == 0o640
    (ssh / "authorized_keys").write_text("")
    directory.restore()  # there is no record any more
    assert (ssh / "authorized_keys").read_text() == ""


def test_a_directory_that_was_not_there_is_removed(tmp_path):
    (tmp_path / "root").mkdir()
    kept = SshDirectory(tmp_path, tmp_path / "record")
    kept.keep()
    (tmp_path / "root/.ssh").mkdir()
    kept.keep()  # the record is that of before the tenant
    kept.restore()
    assert list((tmp_path / "root").iterdir()) == []


def test_a_failed_restoration_is_an_error_and_is_tried_again(tmp_path, directory):
    (tmp_path / "root").rename(tmp_path / "away")
    (tmp_path / "root").symlink_to("away")
    with pytest.raises(HostFilesError, match=r"cannot restore .*root/.ssh: .*repair it"):
        directory.restore()
    assert directory.record.exists()


def test_a_directory_that_is_too_large_is_not_recorded(tmp_path, ssh):
    (ssh / "huge").write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(HostFilesError, match="too large to be recorded before a tenant is admitted"):
        SshDirectory(tmp_path, tmp_path / "other").keep()
