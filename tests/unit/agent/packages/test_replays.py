import json

import pytest

from support.builders import make_package as package
from zkdeployment.agent.packages.installed_packages import RpmFile
from zkdeployment.agent.packages.replays import Dnf4Replays, Dnf5Replays, Replay
from zkdeployment.base.packages import Item

CHANGES = [
    Item("again", package("again", "1"), package("again", "1")),
    Item("bar", package("bar", "1.0")),
    Item("foo", package("foo", "1.4"), package("foo", "1.0", epoch=2)),
    Item("lib", None, package("lib", "3")),
    Item("new", None, package("new", "1")),
]


def rows(file):
    content = json.loads(file.read_text())
    assert all("repo_id" in row for row in content["rpms"])
    return content["version"], [(row["action"], row["nevra"], row["reason"]) for row in content["rpms"]]


def test_dnf_4_reads_each_change_as_exact_packages(tmp_path):
    replay = Dnf4Replays().of_downloads(CHANGES, (), tmp_path, wanted={"foo", "new"})
    assert replay == Replay(
        ["--nogpgcheck", "history", "replay", f"{tmp_path}/plan.json"], alone=True, generation=4
    )
    assert rows(tmp_path / "plan.json") == (
        "0.0",
        [
            ("Reinstall", "again-1-1.noarch", "user"),
            ("Reinstalled", "again-1-1.noarch", "user"),
            ("Removed", "bar-1.0-1.noarch", "user"),
            ("Upgrade", "foo-2:1.0-1.noarch", "user"),
            ("Upgraded", "foo-1.4-1.noarch", "user"),
            ("Install", "lib-3-1.noarch", "dependency"),
            ("Install", "new-1-1.noarch", "user"),
        ],
    )


def test_dnf_5_reads_each_change_as_exact_packages(tmp_path):
    Dnf5Replays().of_downloads(CHANGES, (), tmp_path, wanted={"foo", "new"})
    assert rows(tmp_path / "transaction.json") == (
        "1.0",
        [
            ("Reinstall", "again-1-1.noarch", "User"),
            ("Replaced", "again-1-1.noarch", "User"),
            ("Remove", "bar-1.0-1.noarch", "User"),
            ("Upgrade", "foo-2:1.0-1.noarch", "User"),
            ("Replaced", "foo-1.4-1.noarch", "User"),
            ("Install", "lib-3-1.noarch", "Dependency"),
            ("Install", "new-1-1.noarch", "User"),
        ],
    )


@pytest.mark.parametrize("trusted", [True, False])
def test_dnf_5_checks_the_signatures_of_trusted_files(tmp_path, trusted):
    changes = [Item("new", None, package("new", "1"))]
    files = [RpmFile(tmp_path / "new.rpm", package("new", "1"), trusted)]
    for replay in (
        Dnf5Replays().of_downloads(changes, files, tmp_path, wanted={"new"}),
        Dnf5Replays().of_cache(changes, files, tmp_path, trusted=trusted),
    ):
        assert replay.arguments == [f"--setopt=localpkg_gpgcheck={int(trusted)}", "replay", str(tmp_path)]
        assert replay.alone
    (row,) = json.loads((tmp_path / "transaction.json").read_text())["rpms"]
    assert row["package_path"] == str(tmp_path / "new.rpm")


@pytest.mark.parametrize("replays", [Dnf4Replays(), Dnf5Replays()])
def test_packages_that_are_not_cached_come_from_the_repositories(tmp_path, replays):
    changes = [Item("new", None, package("new", "1"))]
    assert not replays.of_cache(changes, [], tmp_path, trusted=True).alone
    assert replays.of_cache([Item("new", package("new", "1"))], [], tmp_path, trusted=True).alone
