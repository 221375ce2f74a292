"""The syncer refuses packages that hosts could not install: real ZooKeeper, git, repositories and dnf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog.testing

from support.builders import make_package as package
from support.hosts.repositories import PaperRepository, reader
from support.hosts.snapshots import NEW, OLD, definition
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Package
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing

TREE = "/who\n  /web : {type}\n{version}    /deploy\n      /h1\n      /h2\n"


def tree(version: str = "", *, type_: str = "shop", patches: str = "") -> str:
    lines = f"    version = '{version}'\n" if version else ""
    return TREE.format(type=type_, version=lines + (f"    patches = {patches}\n" if patches else ""))


@pytest.fixture
def checked(publishing: Publishing, paper_repository: PaperRepository, tmp_path: Path) -> Publishing:
    """A syncer that checks packages; shop 1.0 is in the repository."""
    publishing.host_repositories = reader(tmp_path, paper_repository.url)
    return publishing


def report(publishing: Publishing, host: str, *packages: Package, managed: str = "shop") -> None:
    """Publish the inventory of a host."""
    inventory = Inventory(packages={one.name: (one,) for one in packages}, managed={managed: managed})
    with Session(publishing.zookeeper) as session:
        write_inventory(session, KnownHost(Identity(host, f"{host}.example"), inventory))


def converge(publishing: Publishing, *hosts: str) -> None:
    """Register hosts at the cluster version."""
    for host in hosts:
        publishing.register(host, str(publishing.version), f"{host}.example")


def refused(publishing: Publishing) -> str:
    """Return the message with which the syncer refuses the tip."""
    with pytest.raises(RefusedError) as error:
        publishing.sync()
    return str(error.value)


def test_a_version_that_no_repository_has_is_refused_recorded_and_published_once_it_is_there(
    checked: Publishing, paper_repository: PaperRepository
):
    first = checked.push(tree("1.0", patches="['fix 7']"))
    assert refused(checked) == (
        f"{first} is not published: hosts could not install its packages; if it is to be published nevertheless,"
        " use 'zkdeployment resume --latest --allow-package-problems':\n"
        "  a.zk:2:3: /who/web: no repository has the package fix 7; publish it, or correct the version in the tree"
    )
    paper_repository.publish("fix-0:7-1.noarch")
    assert checked.sync().startswith(f"published {first}")

    converge(checked, "h1", "h2")
    mistyped = checked.push(tree("9.9", patches="['fix 7']"))
    sentence = "no repository has the package shop 9.9; it has shop 1.0-1"
    assert sentence in refused(checked)
    with Session(checked.zookeeper) as session:
        refusal = ZooKeeperFleetReader(session).snapshot().refusal
    assert refusal is not None
    assert (refusal.revision, refusal.problems) == (
        mistyped,
        (f"a.zk:2:3: /who/web: {sentence}; publish it, or correct the version in the tree",),
    )
    assert checked.published == first
    with pytest.raises(RefusedError, match=r"shop 9\.9"):
        checked.sync(force=True)
    assert checked.sync(force=True, overrides=GuardOverrides(package_problems=True)).startswith("published")


def test_a_release_that_no_repository_has_is_refused_with_its_place_and_the_published_tree_stays(
    publishing: Publishing, snapshots: Path, tmp_path: Path
):
    (tmp_path / "os.repo").write_text(definition(snapshots), encoding="utf-8")
    publishing.host_repositories = reader(tmp_path, str(tmp_path))
    text = "/os\n  /web : system\n    release = '{}'\n    /deploy\n      /h1\n"
    first = publishing.push(text.format(OLD))
    assert publishing.sync().startswith(f"published {first}")
    converge(publishing, "h1")
    mistyped = publishing.push(text.format("2026-99-99"))
    problem = (
        "a.zk:2:3: /os/web: no repository of the hosts has the release 2026-99-99 (asked: os); publish the"
        " snapshot of the repositories, or correct release"
    )
    assert problem in refused(publishing)
    with Session(publishing.zookeeper) as session:
        refusal = ZooKeeperFleetReader(session).snapshot().refusal
    assert refusal is not None
    assert (refusal.revision, refusal.problems) == (mistyped, (problem,))
    assert publishing.published == first
    assert publishing.get("/os/web")["release"] == OLD
    corrected = publishing.push(text.format(NEW))
    assert publishing.sync().startswith(f"published {corrected}")


@pytest.mark.nightly
def test_a_version_in_the_name_of_a_package_and_an_epoch_are_looked_up_as_hosts_do(
    checked: Publishing, paper_repository: PaperRepository
):
    paper_repository.publish("shop-1.4-0:1-1.noarch", "shop-1:0.9-2.noarch")
    checked.push(tree(type_="shop-1.5"))
    assert "/who/web: no repository has the package shop-1.5; publish it" in refused(checked)
    checked.push(tree(type_="shop-1.4"))
    checked.sync()
    for version, is_there in (("0:0.9", False), ("1:0.9-2", True)):
        converge(checked, "h1")
        checked.push(tree(version))
        if is_there:
            checked.sync()
        else:
            assert f"shop {version}; it has shop 1.0-1, 1:0.9-2" in refused(checked)


@pytest.mark.nightly
def test_a_conflict_on_one_host_names_the_host_and_the_reason(
    checked: Publishing, paper_repository: PaperRepository
):
    paper_repository.publish("shop-0:1.2-1.noarch", "legacy-0:1.0-1.noarch")
    checked.push(tree("1.0"))
    checked.sync()
    converge(checked, "h1", "h2")
    report(checked, "h1", package("shop", "1.0"))
    report(checked, "h2", package("shop", "1.0"), package("legacy", "1.0"))
    checked.push(tree("1.2"))
    assert (
        "/who/web: cannot install shop-1.2-1.noarch on h2.example (h2): package shop-1.2-1.noarch conflicts with"
        " legacy provided by legacy-1.0-1.noarch; correct the dependencies, or the versions in the tree"
    ) in refused(checked)
    report(checked, "h2", package("shop", "1.0"))
    assert checked.sync().startswith("published")


@pytest.mark.nightly
def test_an_interrupted_publication_is_checked_before_it_is_completed(
    checked: Publishing, paper_repository: PaperRepository
):
    first = checked.push(tree("1.0"))
    checked.sync()
    converge(checked, "h1", "h2")
    tip = checked.push(tree("9.9"))
    checked.put("/who/web", {"type": "shop", "version": "9.9"})
    checked.put("/hosts", {"version": first, "importing": tip})
    checked.invalidate()
    assert "no repository has the package shop 9.9" in refused(checked)
    paper_repository.withdraw("shop-0:1.0-1.noarch")
    back = checked.push(f"{tree('1.0')}  /texts\n    greeting = 'hello'\n")
    checked.sync()
    assert checked.published == back, "what was wanted before the interrupted publication is not new"


def test_an_unreachable_repository_is_a_warning_that_is_logged_once(
    checked: Publishing, paper_repository: PaperRepository, built_packages: Path, tmp_path: Path
):
    other = PaperRepository(tmp_path / "other", built_packages)
    checked.host_repositories = reader(tmp_path, paper_repository.url, other.url)
    checked.push(tree("1.0"))
    with checked.syncer() as syncer, structlog.testing.capture_logs() as logs:
        other.leave()
        syncer.sync()
        converge(checked, "h1")
        tip = checked.push(tree("9.9"))
        syncer.sync()
        assert checked.published == tip, "the package may be in the repository that is away"
        other.come_back()
        converge(checked, "h1")
        checked.push(tree("9.8"))
        with pytest.raises(RefusedError, match=r"shop 9\.8"):
            syncer.sync()
    warnings = [entry["reason"] for entry in logs if entry["event"] == "packages-not-checked"]
    assert len(warnings) == 2, warnings
    assert "warning: the repository zkdeployment-2 cannot be reached: " in warnings[0]
    assert "/who/web: warning: no repository has the package shop 9.9" in warnings[1]


def test_present_and_unchanged_packages_need_no_repository(checked: Publishing, paper_repository: PaperRepository):
    report(checked, "h1", package("shop", "0.1"))
    report(checked, "h2", package("shop", "0.1"))
    checked.push(tree("0.1"))
    checked.sync()
    converge(checked, "h1", "h2")
    paper_repository.leave()
    tip = checked.push(f"{tree('0.1')}  /texts\n    greeting = 'hello'\n")
    with structlog.testing.capture_logs() as logs:
        checked.sync()
    assert checked.published == tip
    assert not [entry for entry in logs if entry["event"] == "packages-not-checked"]


def test_repositories_that_cannot_be_read_at_all_are_a_warning(checked: Publishing, tmp_path: Path):
    checked.host_repositories = reader(tmp_path, str(tmp_path / "nowhere"))
    checked.push(tree("1.0"))
    with structlog.testing.capture_logs() as logs:
        checked.sync()
    (warning,) = [entry["reason"] for entry in logs if entry["event"] == "packages-not-checked"]
    assert warning == (
        f"the packages of publications are not checked: repositories: {tmp_path}/nowhere is not a directory;"
        " create it, or correct the configuration"
    )
