from pathlib import Path

import pytest

from zkdeployment.adapters.packages.repositories import Repositories
from zkdeployment.errors import PackageError


def test_the_roots_own_repositories_always_count():
    assert Repositories(Path("/r"), ()).arguments() == [
        "--setopt=reposdir=/r/etc/yum.repos.d,/r/etc/yum/repos.d,/r/etc/distro.repos.d"
    ]


def test_each_word_says_what_it_is(tmp_path):
    (tmp_path / "our.repo").touch()
    words = ("https://example.com/rpms", str(tmp_path), "extra", "file:///srv/rpms")
    assert Repositories(Path("/"), words).arguments() == [
        f"--setopt=reposdir=/etc/yum.repos.d,/etc/yum/repos.d,/etc/distro.repos.d,{tmp_path}",
        "--repofrompath=zkdeployment-1,https://example.com/rpms",
        "--setopt=zkdeployment-1.gpgcheck=1",
        "--enablerepo=extra",
        "--repofrompath=zkdeployment-4,file:///srv/rpms",
        "--setopt=zkdeployment-4.gpgcheck=1",
    ]


def test_a_directory_that_is_of_no_use_is_named(tmp_path):
    with pytest.raises(PackageError, match="nowhere is not a directory"):
        Repositories(Path("/"), (f"{tmp_path}/nowhere",)).arguments()
    with pytest.raises(PackageError, match=r"holds no \*\.repo file$"):
        Repositories(Path("/"), (str(tmp_path),)).arguments()
    (tmp_path / "repodata").mkdir()
    with pytest.raises(PackageError, match=f"for the repository itself write file://{tmp_path}"):
        Repositories(Path("/"), (str(tmp_path),)).arguments()


def test_what_could_be_another_option_is_refused():
    for word in ("-x", "extra,other=1", "a b"):
        with pytest.raises(PackageError, match="expected a directory, a URL or the id of a repository"):
            Repositories(Path("/"), (word,)).arguments()
