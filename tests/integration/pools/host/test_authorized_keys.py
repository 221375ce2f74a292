"""The keys of tenants in ``authorized_keys``, and the connections of sshd: real files and processes."""

import os
import shutil
import stat
import subprocess

import pytest

from support.waiting import wait_until
from zkdeployment.agent.rules.lease import TENANT_MARKER
from zkdeployment.base.errors import HostFilesError
from zkdeployment.pools.host.ssh_access import AuthorizedKeys

KEY, OTHER = "ssh-ed25519 AAAA alice@laptop", "ssh-ed25519 BBBB bob@laptop"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "root/.ssh/authorized_keys"


@pytest.fixture
def access(tmp_path):
    return AuthorizedKeys(tmp_path)


def test_the_file_and_its_directory_are_made_for_root_alone(access, file):
    access.admit([])
    assert (access.admitted(), file.parent.parent.exists()) == ((), False)
    access.admit([KEY])
    assert (access.admitted(), file.read_text()) == ((KEY,), f"{TENANT_MARKER}\n{KEY}\n")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


def test_the_keys_of_others_stay_to_the_byte(access, file):
    file.parent.mkdir(parents=True)
    file.write_bytes(b"# \xff\r\nssh-rsa CCCC ops")
    access.admit([KEY])
    access.admit([OTHER])
    assert file.read_bytes() == f"{TENANT_MARKER}\n{OTHER}\n".encode().join([b"# \xff\r\nssh-rsa CCCC ops\n", b""])
    file.write_bytes(file.read_bytes() + b"ssh-rsa DDDD friend\n" + TENANT_MARKER.encode() + b"\n")
    access.admit([])
    assert file.read_bytes() == b"# \xff\r\nssh-rsa CCCC ops\n"


def test_open_rights_are_corrected_when_a_key_is_admitted(access, file):
    access.admit([KEY])
    file.chmod(0o666)
    file.parent.chmod(0o777)
    before = file.stat().st_ino
    access.admit([KEY])
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    after = file.stat().st_ino
    assert after != before
    access.admit([KEY])
    assert file.stat().st_ino == after


@pytest.mark.parametrize("attack", ["file", "directory", "home", "pipe", "huge", "full directory"])
def test_links_that_a_former_tenant_put_in_the_place_of_the_file_are_not_followed(access, file, tmp_path, attack):
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "authorized_keys").write_text("precious\n")
    if attack == "home":
        file.parent.parent.symlink_to(target)
    elif attack == "directory":
        file.parent.parent.mkdir()
        file.parent.symlink_to(target)
    else:
        file.parent.mkdir(parents=True)
    if attack == "file":
        file.symlink_to(target / "authorized_keys")
    elif attack == "pipe":
        os.mkfifo(file)
    elif attack == "huge":
        file.write_bytes(b"x" * 2_000_000)
    elif attack == "full directory":
        (file / "sub").mkdir(parents=True)
    if attack == "pipe":  # an empty pipe reads as an empty file, and is replaced
        access.admit([KEY])
        assert access.admitted() == (KEY,)
    else:
        with pytest.raises(HostFilesError, match="authorized_keys"):
            access.admit([KEY])
    assert (target / "authorized_keys").read_text() == "precious\n"
    assert [path.name for path in target.iterdir()] == ["authorized_keys"]


def test_connections_end_only_where_sshd_runs_in_the_hosts_root_directory(access, tmp_path):
    """Copies of sleep with the titles of sshd's processes; one runs outside of the host's root directory."""
    libraries = subprocess.run(["ldd", "/bin/sleep"], capture_output=True, text=True, check=True).stdout.split()
    for source in ("/bin/sleep", *(word for word in libraries if word.startswith("/"))):
        place = tmp_path / source.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)

    def started(title: str, *, inside: bool = True) -> subprocess.Popen[bytes]:
        enter = (lambda: os.chroot(tmp_path)) if inside else None
        return subprocess.Popen([title, "300"], executable="/bin/sleep", preexec_fn=enter, cwd="/")  # noqa: PLW1509

    ended = [started("sshd: root@notty"), started("sshd-session: root [priv]")]
    kept = [started("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"), started("sleep")]
    kept.append(started("sshd: root@pts/0", inside=False))
    try:
        access.end_connections()
        wait_until(lambda: all(process.poll() is not None for process in ended), "the connections end")
        assert [process.poll() for process in kept] == [None, None, None]
    finally:
        for process in (*ended, *kept):
            process.kill()
            process.wait()
