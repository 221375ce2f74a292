import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from support.hosts.packages import AvailablePackage
from support.waiting import wait_until
from zkdeployment.agent.packages.installed_packages import RpmDatabase
from zkdeployment.base.errors import ConfigurationError, ProgramError
from zkdeployment.base.machine import process
from zkdeployment.sandbox.repositories import RpmRepository, build_packages


@pytest.fixture
def repository(tmp_path):
    made = RpmRepository(tmp_path / "repository")
    made.create()
    return made


def listed(repository):
    """Return the packages that dnf lists for the repository."""
    argv = ["dnf", "-q", f"--installroot={repository.directory.parent}/root", "--noplugins", "--releasever=1"]
    argv += [f"--setopt=reposdir={repository.definitions}", "--refresh", "repoquery", "--qf", "%{name}-%{version}"]
    return process.run(argv).check().stdout.split()


def test_added_packages_are_signed_with_the_repositorys_key_and_listed(tmp_path, repository):
    assert listed(repository) == []
    file = AvailablePackage(name="foo", version="1.0").build(tmp_path)
    before = file.read_bytes()
    (published,) = repository.add([file])
    assert published == repository.directory / "foo-1.0-1.noarch.rpm"
    assert listed(repository) == ["foo-1.0"]
    assert file.read_bytes() == before
    root = tmp_path / "reader"
    process.run(["rpm", "--root", str(root), "--dbpath", "/rpm", "--import", str(repository.key)]).check()
    env = {**os.environ, "HOME": str(tmp_path)}
    (tmp_path / ".rpmmacros").write_text("%_dbpath /rpm\n")
    (signed,) = RpmDatabase(root, env).read([published])
    assert signed.trusted


def test_removed_packages_are_no_longer_listed(tmp_path, repository):
    repository.add([AvailablePackage(name="foo", version=version).build(tmp_path) for version in ("1.0", "1.1")])
    repository.remove("foo-1.0-*")
    assert listed(repository) == ["foo-1.1"]


def test_a_second_create_keeps_the_key_and_the_packages(tmp_path, repository):
    repository.add([AvailablePackage(name="foo", version="1.0").build(tmp_path)])
    key = repository.key.read_bytes()
    RpmRepository(repository.directory).create()
    assert repository.key.read_bytes() == key
    assert listed(repository) == ["foo-1.0"]


def test_other_files_are_refused_and_nothing_is_published(tmp_path, repository):
    good = AvailablePackage(name="foo", version="1.0").build(tmp_path)
    bad = tmp_path / "bad.rpm"
    with pytest.raises(ConfigurationError, match="found no file"):
        repository.add([good, bad])
    bad.write_text("not an rpm")
    with pytest.raises(ConfigurationError, match="is not an RPM package"):
        repository.add([good, bad])
    assert listed(repository) == []


def test_a_list_of_packages_is_refused(tmp_path, repository):
    good = AvailablePackage(name="foo", version="1.0").build(tmp_path)
    text = tmp_path / "list.rpm"
    text.write_text(f"{good}\n")
    with pytest.raises(ConfigurationError, match=r"list\.rpm is not an RPM package$"):
        repository.add([text])
    assert listed(repository) == []


def test_processes_may_add_and_read_concurrently(tmp_path, repository):
    files = [AvailablePackage(name=f"foo{number}", version="1.0").build(tmp_path) for number in range(4)]
    index = repository.directory / "repodata/repomd.xml"
    with ThreadPoolExecutor(4) as pool:
        adding = [pool.submit(repository.add, [file]) for file in files]
        while not all(future.done() for future in adding):
            assert index.read_text(encoding="utf-8").endswith("</repomd>\n")
    assert all(future.exception() is None for future in adding)
    assert sorted(listed(repository)) == [f"foo{number}-1.0" for number in range(4)]


def test_outdated_metadata_is_removed_after_a_while(tmp_path, repository):
    old = [file for file in (repository.directory / "repodata").iterdir() if file.name != "repomd.xml"]
    for file in old:
        os.utime(file, (0, 0))
    repository.add([AvailablePackage(name="foo", version="1.0").build(tmp_path)])
    assert not any(file.exists() for file in old)


def test_the_secret_key_is_secret_and_no_agent_stays(repository):
    (secret,) = [file for file in repository.directory.iterdir() if b"PRIVATE KEY" in start(file)]
    assert secret.stat().st_mode & 0o077 == 0

    def agents() -> list[str]:
        lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
        return [line for line in lines if "gpg-agent" in line and "zkd-" in line]

    wait_until(lambda: not agents(), "the agents of this test, and of others at the same time, have ended")


def start(file):
    return file.read_bytes()[:200] if file.is_file() else b""


def test_the_error_for_a_failed_build_has_the_reason(tmp_path):
    spec = tmp_path / "bad.spec"
    spec.write_text("Name: bad\n")
    with pytest.raises(ProgramError, match="Version field must be present"):
        build_packages(spec, tmp_path / "out")
    assert subprocess.run(["ls", tmp_path / "out"], capture_output=True, text=True, check=True).stdout == ""
