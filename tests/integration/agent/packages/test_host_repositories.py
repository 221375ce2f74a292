"""The repositories of hosts, as the syncer reads them: real metadata of createrepo_c, real dnf, real solver."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from support.builders import make_package
from support.hosts.repositories import PaperRepository, reader
from support.waiting import wait_until
from zkdeployment.agent.packages import host_repositories
from zkdeployment.agent.packages.command import NamedRepositories
from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
from zkdeployment.agent.rules.availability import PaperTransaction
from zkdeployment.base.errors import PackageError

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.base.inventory import Package

SHOP, SHOP11, SHOP12, SHOP13, SHOP15, SHOP16, SHOP17 = (
    make_package("shop", version) for version in ("1.0", "1.1", "1.2", "1.3", "1.5", "1.6", "1.7")
)
LIB1, LIB2 = (make_package("lib", version) for version in ("1.0", "2.0"))
LEGACY = make_package("legacy", "1.0")
ADDON = make_package("addon", "1.0")
OLD_TOOL = make_package("tool", "1.0")
STRANGE = make_package("strange", "1~rc1", epoch=3)


def transaction(
    *stay: Package, install: Package, before: Package | None = None, remove: str = ""
) -> PaperTransaction:
    present = frozenset(stay) | ({before} if before else set())
    return PaperTransaction(
        present, frozenset(stay), frozenset(), frozenset({install}), frozenset({remove} if remove else ())
    )


def test_the_newest_metadata_of_all_repositories_is_read(
    paper_repository: PaperRepository, built_packages: Path, tmp_path: Path
):
    other = PaperRepository(tmp_path / "other", built_packages)
    other.publish("shop-0:1.1-1.noarch", "shop-1.4-0:1-1.noarch")
    repositories = reader(tmp_path, paper_repository.url, other.url)
    offers = repositories.offers(["shop", "shop-1.4", "nothing"], "")
    assert {name: [one.evr for one in found] for name, found in offers.packages.items()} == {
        "shop": ["0:1.0-1", "0:1.1-1"],
        "shop-1.4": ["0:1-1"],
    }
    other.publish("shop-1:0.9-2.noarch")
    other.withdraw("shop-0:1.1-1.noarch")
    assert [one.evr for one in repositories.offers(["shop"], "").packages["shop"]] == ["0:1.0-1", "1:0.9-2"]


def test_an_unreachable_repository_is_reported_until_it_comes_back(
    paper_repository: PaperRepository, built_packages: Path, tmp_path: Path
):
    other = PaperRepository(tmp_path / "other", built_packages)
    other.publish("shop-0:1.1-1.noarch")
    repositories = reader(tmp_path, paper_repository.url, other.url)
    for _ in range(2):
        other.leave()
        offers = repositories.offers(["shop"], "")
        assert list(offers.unreachable) == ["zkdeployment-2"]
        assert re.search(r"repomd\.xml|Failed to download", offers.unreachable["zkdeployment-2"])
        assert offers.packages["shop"] == (SHOP,)
        other.come_back()
        offers = repositories.offers(["shop"], "")
        assert (offers.unreachable, offers.packages["shop"]) == ({}, (SHOP, SHOP11))


@pytest.mark.nightly
def test_definitions_and_a_configuration_are_read_as_dnf_reads_them(
    paper_repository: PaperRepository, tmp_path: Path
):
    paper_repository.publish("shop-0:1.1-1.noarch", "lib-0:1.0-1.noarch")
    definitions = tmp_path / "definitions"
    definitions.mkdir()
    (definitions / "a.repo").write_text(f"[a]\nname=a\nbaseurl={paper_repository.url}\nexcludepkgs=lib\n")
    names = ["lib", "shop"]
    assert reader(tmp_path, str(definitions)).offers(names, "").packages == {"shop": (SHOP, SHOP11)}
    configuration = tmp_path / "dnf.conf"
    configuration.write_text(f"[main]\nexcludepkgs=shop-1.1*\nreposdir={definitions}\n")
    assert reader(tmp_path, str(configuration)).offers(names, "").packages == {"shop": (SHOP,)}
    for wrong, message in (
        (str(tmp_path), "expected .*repo files"),
        ("a b", "expected a directory, a URL"),
        ("b", "b.*; correct the name in --repositories or in the configuration"),
    ):
        with pytest.raises(PackageError, match=message):
            reader(tmp_path, wrong).offers(names, "")


@pytest.mark.nightly
def test_packages_of_another_architecture_are_read_for_hosts_that_have_it(
    paper_repository: PaperRepository, tmp_path: Path
):
    paper_repository.publish("chip-0:1.0-1.aarch64")
    repositories = reader(tmp_path, paper_repository.url)
    assert repositories.offers(["chip", "shop"], "x86_64").packages == {"shop": (SHOP,)}
    assert set(repositories.offers(["chip", "shop"], "aarch64").packages) == {"chip", "shop"}
    assert set(repositories.offers(["chip", "shop"], "").packages) == {"chip", "shop"}, "hosts are not known"


def test_transactions_are_resolved_against_the_packages_that_stay_on_each_host(
    paper_repository: PaperRepository, tmp_path: Path
):
    paper_repository.publish(
        *(f"shop-0:1.{minor}-1.noarch" for minor in (1, 2, 3)),
        "lib-0:1.0-1.noarch",
        "lib-0:2.0-1.noarch",
        "legacy-0:1.0-1.noarch",
        "addon-0:1.0-1.noarch",
        "tool-0:2.0-1.noarch",
    )
    repositories = reader(tmp_path, paper_repository.url)
    repositories.offers(["shop"], "")
    good = [
        transaction(install=SHOP11),
        transaction(LIB2, install=SHOP11),
        transaction(STRANGE, install=SHOP),
        # The repository has no tool 1.0: what it provides is taken from tool 2.0.
        transaction(OLD_TOOL, install=SHOP13),
        transaction(LEGACY, install=SHOP11),
        # Two versions of one package: an interrupted transaction. Nothing can be said about it.
        transaction(LIB1, LIB2, LEGACY, install=SHOP12),
    ]
    bad = {
        transaction(LIB1, install=SHOP11): "shop-1.1-1.noarch requires lib >= 2",
        transaction(STRANGE, LIB1, install=SHOP11): "shop-1.1-1.noarch requires lib >= 2",
        transaction(LEGACY, install=SHOP12): "shop-1.2-1.noarch conflicts with legacy",
        transaction(ADDON, install=SHOP11, before=SHOP): "addon-1.0-1.noarch requires shop < 1.1",
        transaction(ADDON, install=LIB1, before=SHOP, remove="shop"): "addon-1.0-1.noarch requires shop < 1.1",
    }
    resolution = repositories.resolve([*good, *bad], "")
    reasons = resolution.problems
    assert (reasons.keys(), resolution.unresolved) == (bad.keys(), ())
    for one, words in bad.items():
        assert words in reasons[one]
        assert "exclude filtering" not in reasons[one], "packages of other hosts are nobody's concern"
        assert "strange" not in reasons[one]


def test_a_package_of_one_host_does_not_satisfy_a_dependency_of_another(
    paper_repository: PaperRepository, tmp_path: Path
):
    """Lib 2.0 is on a host, but in no repository."""
    paper_repository.publish("shop-0:1.1-1.noarch")
    repositories = reader(tmp_path, paper_repository.url)
    repositories.offers(["shop"], "")
    lacking = transaction(install=SHOP11)
    resolution = repositories.resolve([transaction(LIB2, install=SHOP11), lacking], "")
    assert resolution.problems == {
        lacking: "package shop-1.1-1.noarch requires lib >= 2, but none of the providers can be installed"
    }


@pytest.mark.nightly
def test_a_package_that_no_repository_has_may_provide_all_other_requirements(
    paper_repository: PaperRepository, tmp_path: Path
):
    """The repository dropped lib 1.0, which provides libshop.so.1; it never had the vendor's package."""
    paper_repository.publish(
        *(f"shop-0:1.{minor}-1.noarch" for minor in (1, 5, 6, 7)), "lib-0:2.0-1.noarch", "legacy-0:1.0-1.noarch"
    )
    repositories = reader(tmp_path, paper_repository.url)
    repositories.offers(["shop"], "")
    good = [
        transaction(LIB1, install=SHOP15),
        transaction(STRANGE, install=SHOP16),
        transaction(STRANGE, install=SHOP17),
        transaction(STRANGE, LEGACY, install=SHOP15),
    ]
    bad = {
        # No such package stays on the host: the capability is missing.
        transaction(install=SHOP17): "vendor-api >= 3",
        transaction(LIB2, install=SHOP15): "libshop.so.1",
        transaction(install=SHOP15, before=make_package("shop", "0.1")): "libshop.so.1",
        # Nothing is assumed about conflicts and about the versions of packages.
        transaction(STRANGE, LEGACY, install=SHOP17): "shop-1.7-1.noarch conflicts with legacy",
        transaction(LIB1, install=SHOP11): "shop-1.1-1.noarch requires lib >= 2",
    }
    reasons = repositories.resolve([*good, *bad, *good[:1]], "").problems
    assert reasons.keys() == bad.keys()
    for one, words in bad.items():
        assert words in reasons[one]
        assert "zkdeployment-assumed" not in reasons[one]


@pytest.mark.nightly
def test_transactions_that_were_resolved_before_the_time_limit_count(
    paper_repository: PaperRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The solver does not come to an end if two packages stay on a host."""
    paper_repository.publish("shop-0:1.1-1.noarch", "lib-0:1.0-1.noarch", "lib-0:2.0-1.noarch")
    slow = tmp_path / "slow"
    shutil.copytree(host_repositories._PAPER, slow)
    file = slow / "paper.py"
    call = "paper.problem(transaction)"
    wait = '__import__("time").sleep(300)'
    file.write_text(file.read_text().replace(call, f'{wait} if len(transaction["stay"]) == 2 else {call}'))
    monkeypatch.setattr(host_repositories, "_PAPER", slow)

    def tick() -> None:
        if any(answers.read_text().count("\n") == 2 for answers in tmp_path.glob("cache/request-*/*.jsonl")):
            raise PackageError("the solver took too long")

    repositories = DnfHostRepositories(tmp_path / "cache", NamedRepositories((paper_repository.url,)), tick=tick)
    repositories.offers(["shop"], "")
    good, bad = transaction(LIB2, install=SHOP11), transaction(LIB1, install=SHOP11)
    slow, other = transaction(LIB2, LEGACY, install=SHOP11), transaction(install=SHOP)
    resolution = repositories.resolve([good, bad, slow, other], "")
    assert (list(resolution.problems), resolution.unresolved) == ([bad], (slow, other))
    assert resolution.reason == "the solver took too long"


def test_a_repository_that_does_not_answer_in_time_ends_the_check(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        repositories = reader(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(PackageError, match=r"the repositories and the solver took longer than 0\.5 s"):
            repositories.within(0.5).offers({"shop"}, "")
    assert not running_dnf(tmp_path)


#: A command that asks a repository and is killed: DIRECTORY URL.
ASKING = """
import sys
from pathlib import Path
from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
from zkdeployment.agent.packages.command import NamedRepositories
DnfHostRepositories(Path(sys.argv[1]), NamedRepositories((sys.argv[2],))).offers({"shop"}, "")
"""


@pytest.mark.nightly
def test_dnf_does_not_outlive_a_command_that_is_killed(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        argv = [sys.executable, "-c", ASKING, str(tmp_path), f"http://127.0.0.1:{silent.getsockname()[1]}/"]
        with subprocess.Popen(argv) as asking:
            connection, _ = silent.accept()
            (dnf,) = running_dnf(tmp_path, besides=asking.pid)
            dnf.suspend()  # it does not give up by itself
            try:
                asking.kill()
                asking.wait()
                wait_until(lambda: not dnf.is_running() or dnf.status() == psutil.STATUS_ZOMBIE, "dnf is killed")
            finally:
                with contextlib.suppress(psutil.NoSuchProcess):
                    dnf.kill()
        connection.close()


@pytest.mark.nightly
def test_dnf_does_nothing_for_a_command_that_was_killed_before_dnf_could_notice(
    paper_repository: PaperRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    monkeypatch.setattr(host_repositories.os, "getpid", lambda: ended.pid)
    with pytest.raises(PackageError, match="the process that asked about the repositories has ended"):
        reader(tmp_path, paper_repository.url).offers({"shop"}, "")


def running_dnf(directory: Path, *, besides: int | None = None) -> list[psutil.Process]:
    """Return the processes whose arguments name files below a directory."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if process.pid != besides and any(str(directory) in argument for argument in line):
            found.append(process)
    return found
