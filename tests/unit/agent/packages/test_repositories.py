from pathlib import Path

import pytest

from zkdeployment.agent.packages.command import Repositories
from zkdeployment.base.errors import PackageError

DIRECTORIES = "--setopt=reposdir=/etc/yum.repos.d,/etc/yum/repos.d,/etc/distro.repos.d,/usr/share/dnf5/repos.d"


def test_the_roots_own_repositories_are_always_used():
    assert Repositories(Path("/r"), ()).arguments() == [
        "--setopt=reposdir=/r/etc/yum.repos.d,/r/etc/yum/repos.d,/r/etc/distro.repos.d,/r/usr/share/dnf5/repos.d"
    ]


def test_the_kind_of_each_configured_value_is_recognized(tmp_path):
    (tmp_path / "our.repo").touch()
    values = ("https://example.com/rpms", str(tmp_path), "extra", "file:///srv/rpms")
    assert Repositories(Path("/"), values).arguments() == [
        f"{DIRECTORIES},{tmp_path}",
        "--repofrompath=zkdeployment-1,https://example.com/rpms",
        "--setopt=zkdeployment-1.gpgcheck=1",
        "--enablerepo=extra",
        "--repofrompath=zkdeployment-4,file:///srv/rpms",
        "--setopt=zkdeployment-4.gpgcheck=1",
    ]


def test_the_error_names_a_directory_without_repositories(tmp_path):
    with pytest.raises(PackageError, match="nowhere is not a directory"):
        Repositories(Path("/"), (f"{tmp_path}/nowhere",)).arguments()
    with pytest.raises(PackageError, match=r"expected \*\.repo files in .*, found none; correct"):
        Repositories(Path("/"), (str(tmp_path),)).arguments()
    (tmp_path / "repodata").mkdir()
    with pytest.raises(PackageError, match=f"write file://{tmp_path} for the repository itself"):
        Repositories(Path("/"), (str(tmp_path),)).arguments()


def test_a_value_that_could_be_an_option_is_refused():
    for value in ("-x", "extra,other=1", "a b"):
        with pytest.raises(PackageError, match="expected a directory, a URL or the id of a repository"):
            Repositories(Path("/"), (value,)).arguments()
