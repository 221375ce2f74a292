"""The check of packages against real repositories, also if the solver fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.builders import make_package
from support.hosts.repositories import PaperRepository, publish_modules, reader
from support.hosts.snapshots import NEW, OLD, definition
from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
from zkdeployment.agent.rules.availability import PaperResolution
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Package
from zkdeployment.base.system import HostSystem, WantedSystem
from zkdeployment.fleet.package_check import check_packages

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from zkdeployment.agent.rules.availability import Offers, PaperTransaction
    from zkdeployment.base.publication import Targets
    from zkdeployment.base.system import Extent


def known(host: str, *packages: Package) -> KnownHost:
    return KnownHost(Identity(host, host), Inventory(packages={one.name: (one,) for one in packages}))


def wanting(version: str) -> tuple[Assignment, ...]:
    return (Assignment("/web", 1, "shop", "shop", version=version),)


def test_a_solver_that_takes_too_long_does_not_hide_other_problems(
    paper_repository: PaperRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repositories = reader(tmp_path, paper_repository.url)

    def resolve(transactions: Collection[PaperTransaction], _arch: str) -> PaperResolution:
        return PaperResolution({}, tuple(transactions), "dnf took longer than 90 s")

    monkeypatch.setattr(repositories, "resolve", resolve)
    lib = make_package("lib", "1.0")
    hosts = [known("h1", lib), known("h2", lib)]
    targets = {"h1": wanting("9.9"), "h2": wanting("1.0")}
    findings = check_packages(repositories, targets, {}, lambda _names: hosts)
    assert [problem.message for problem in findings.errors] == [
        (
            "no repository has the package shop 9.9; it has shop 1.0-1; publish it, or correct the version in the"
            " tree"
        )
    ]
    assert [problem.message for problem in findings.warnings] == [
        "the package transactions of h2 (h2) are not checked: dnf took longer than 90 s"
    ]


@pytest.mark.nightly
def test_a_package_that_only_absent_hosts_could_not_install_is_a_warning(
    paper_repository: PaperRepository, tmp_path: Path
):
    paper_repository.publish("shop-0:1.1-1.noarch", "lib-0:1.0-1.noarch", "tool-0:2.0-1.noarch")
    repositories = reader(tmp_path, paper_repository.url)
    lib = make_package("lib", "1.0")
    shop = make_package("shop", "0.1")
    hosts = [known("gone", lib), known("here", shop)]

    def problems(gone: str, here: str) -> tuple[list[str], list[str]]:
        targets = {"gone": wanting(gone), "here": wanting(here)}
        findings = check_packages(repositories, targets, {}, lambda _names: hosts, {"gone"})
        return [str(one) for one in findings.errors], [str(one) for one in findings.warnings]

    for version, words in (("0.1", "no repository has the package"), ("1.1", "nothing provides lib >= 2")):
        errors, (warning,) = problems(version, "0.1")
        assert errors == []
        assert words in warning
        assert "gone (gone): absent; if a host is gone for good, use 'zkdeployment forget HOST'" in warning
    (error,), warnings = problems("9.9", "9.9")
    assert "shop 9.9" in error
    assert warnings == []


def test_a_check_that_takes_too_long_keeps_the_problems_that_it_found(
    paper_repository: PaperRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repositories = reader(tmp_path, paper_repository.url)
    offers = repositories.offers

    def slow(names: Collection[str], arch: str) -> Offers:
        return (repositories.within(-1).offers if arch == "x86_64" else offers)(names, arch)

    monkeypatch.setattr(repositories, "offers", slow)
    hosts = [
        known("h1", make_package("lib", "1.0")),
        known("h2", make_package("lib", "1.0", arch="x86_64")),
    ]
    findings = check_packages(repositories, {"h1": wanting("9.9"), "h2": wanting("9.9")}, {}, lambda _: hosts)
    assert ["no repository has the package shop 9.9" in problem.message for problem in findings.errors] == [True]
    assert [problem.message for problem in findings.warnings] == [
        (
            "the packages of hosts of the architecture x86_64 are not checked: the repositories and the solver"
            " took longer than -1 s"
        )
    ]


@pytest.mark.nightly
def test_packages_for_two_architectures_and_kernel_modules_are_judged_as_on_the_host(
    paper_repository: PaperRepository, tmp_path: Path
):
    both = [make_package("twin", "1.0", arch=arch) for arch in ("i686", "x86_64")]
    module, old_module = make_package("kmod", "1.0", arch="x86_64"), make_package("oldmod")
    packages = {"twin": tuple(both), "kmod": (module,), "oldmod": (old_module,)}
    inventory = Inventory(packages=packages, installonly=frozenset({"kmod"}))
    one = Inventory(packages={"twin": (both[1],)})
    hosts = [KnownHost(Identity("h1", "h1"), inventory), KnownHost(Identity("h2", "h2"), one)]
    paper_repository.publish(
        "twin-0:1.0-1.i686",
        "twin-0:1.0-1.x86_64",
        "twin-0:1.1-1.x86_64",
        "emulator-0:1.0-1.noarch",
        "kmod-0:1.0-1.x86_64",
        "kmod-0:1.1-1.x86_64",
        "driver-0:1.1-1.noarch",
        "oldmod-0:1-1.noarch",
    )
    repositories = reader(tmp_path, paper_repository.url)

    def problems(host: str, package: str, **patches: str) -> list[str]:
        targets = {host: (Assignment("/web", 1, package, package, version=None, patches=patches),)}
        return [str(problem) for problem in check_packages(repositories, targets, {}, lambda _: hosts).problems]

    assert problems("h2", "emulator") == []
    assert problems("h1", "emulator") == []
    assert problems("h1", "driver", kmod="1.1") == []
    assert problems("h2", "shop", twin="1.1") == []
    (problem,) = problems("h1", "shop", twin="1.1")
    assert "cannot install twin 1.1 on h1 (h1): no repository has the package twin 1.1 for i686" in problem
    paper_repository.publish("twin-0:1.1-1.i686")
    assert problems("h1", "shop", twin="1.1") == []


@pytest.mark.nightly
def test_packages_that_dnf_hides_are_named_with_the_reason(paper_repository: PaperRepository, tmp_path: Path):
    paper_repository.publish("shop-0:1.1-1.noarch", "lib-0:2.0-1.noarch", "fix-0:7-1.noarch")
    publish_modules(paper_repository.directory, "lib-0:2.0-1.noarch")
    definition = tmp_path / "hosts.repo"
    definition.write_text(f"[shops]\nname=shops\nbaseurl={paper_repository.url}\ngpgcheck=0\nexcludepkgs=fix\n")
    repositories = reader(tmp_path, str(tmp_path))
    hosts = [known("h1", make_package("shop", "1.0")), known("h2", make_package("shop", "1.0"))]
    targets = {"h1": wanting("1.1"), "h2": (Assignment("/fix", 1, "fix", "fix", version="7"),)}
    findings = check_packages(repositories, targets, {}, lambda _names: hosts)
    hidden, unsolvable = sorted(str(problem) for problem in findings.errors)
    assert hidden == (
        "/fix: a repository has fix-7-1.noarch, which is excluded by excludepkgs or includepkgs of the repository"
        " shops; allow the package there, or correct the version in the tree"
    )
    words = (
        "a repository has lib-2.0-1.noarch, which is only in a module stream that is not enabled (tools:2); enable"
    )
    assert words in unsolvable


def updating(
    release: str, update: Extent = "all", exclude: tuple[str, ...] = (), *services: Assignment
) -> Targets:
    system = Assignment.of_system(WantedSystem("/os/web", release, update, exclude))
    return {"h1": services, "/system/h1": (system,)}


@pytest.fixture
def system_repositories(snapshots: Path, tmp_path: Path) -> DnfHostRepositories:
    """The repositories of hosts with the snapshots of their operating system."""
    (tmp_path / "os.repo").write_text(definition(snapshots), encoding="utf-8")
    return reader(tmp_path, str(tmp_path))


def test_a_release_that_no_repository_has_is_an_error(system_repositories: DnfHostRepositories):
    findings = check_packages(system_repositories, updating("2026-99-99"), updating(OLD))
    assert [str(problem) for problem in findings.problems] == [
        (
            "/os/web: no repository of the hosts has the release 2026-99-99 (asked: os); publish the snapshot of"
            " the repositories, or correct release"
        )
    ]
    assert not check_packages(system_repositories, updating("2026-99-99"), updating("2026-99-99")).problems


def test_the_release_of_a_node_that_only_reboots_does_not_count(system_repositories: DnfHostRepositories):
    assert not check_packages(system_repositories, updating("2026-99-99", "none"), updating(OLD)).problems
    targets = updating(NEW, "none", (), Assignment("/web", 1, "app", "app", version="2.0"))
    host = replace(known("h1", make_package("bash", "5.1")), system=HostSystem(OLD))
    (problem,) = check_packages(system_repositories, targets, {}, lambda _names: [host]).errors
    assert "no repository has the package app 2.0; it has app 1.0-1" in str(problem)


def test_a_release_is_not_refused_while_its_server_does_not_answer(tmp_path: Path):
    text = "[os]\nname=os\nbaseurl=http://127.0.0.1:1/$release/\n"
    (tmp_path / "os.repo").write_text(text, encoding="utf-8")
    findings = check_packages(reader(tmp_path, str(tmp_path)), updating(NEW), {})
    assert [problem.message.partition(":")[0] for problem in findings.warnings] == [
        "the repository os cannot be reached"
    ]
    assert findings.errors == ()


@pytest.mark.nightly
def test_a_release_that_no_address_contains_gives_a_warning(paper_repository: PaperRepository, tmp_path: Path):
    findings = check_packages(reader(tmp_path, paper_repository.url), updating(NEW), {})
    assert ["no address of the repositories contains $release" in str(one) for one in findings.warnings] == [True]
    assert findings.errors == ()


def test_patterns_that_match_no_package_give_warnings(system_repositories: DnfHostRepositories):
    hosts = [known("h1", make_package("own-tool", "1"))]
    targets = updating(NEW, ("bash", "part?"), ("postgres*", "own-*", "mysql*", "successo[rs]"))
    findings = check_packages(system_repositories, targets, {}, lambda _names: hosts)
    assert findings.errors == ()
    assert [str(problem) for problem in findings.warnings] == [
        (
            f"/os/web: warning: {key} holds {pattern}, which matches no package of the repositories or of a known"
            " host; correct or remove it"
        )
        for key, pattern in (("update", "part?"), ("exclude", "mysql*"))
    ]


def test_the_repositories_of_a_release_are_read_once_for_all_its_hosts(
    system_repositories: DnfHostRepositories, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Collection[str]] = []
    read = DnfHostRepositories.offers

    def counted(self: DnfHostRepositories, names: Collection[str], arch: str) -> Offers:
        asked.append(names)
        return read(self, names, arch)

    monkeypatch.setattr(DnfHostRepositories, "offers", counted)
    others = {"/system/h2": (Assignment.of_system(WantedSystem("/os/db", NEW)),), "h2": ()}
    hosts = [known("h1", make_package("tool", "1.0")), known("h2", make_package("bash", "5.1"))]
    findings = check_packages(system_repositories, updating(NEW) | others, {}, lambda _names: hosts)
    assert asked == [{"tool", "bash"}]
    ((place, offers),) = findings.releases.items()
    assert (place, findings.checked) == ((NEW, ""), 2)
    assert {name: [one.version for one in found] for name, found in offers.packages.items()} == {
        "bash": ["5.2"],
        "tool": ["1.0.5", "1.1"],
    }
    assert offers.security == {"tool": (make_package("tool", "1.0.5"),)}


def test_services_are_checked_against_the_release_of_their_hosts(system_repositories: DnfHostRepositories):
    app = Assignment("/web", 1, "app", "app", version="2.0")
    hosts = [known("h1", make_package("bash", "5.1"))]
    for read_hosts in (lambda _names: (), lambda _names: hosts):
        assert not check_packages(system_repositories, updating(NEW, "all", (), app), {}, read_hosts).problems
        (problem,) = check_packages(system_repositories, updating(OLD, "all", (), app), {}, read_hosts).errors
        assert "no repository has the package app 2.0; it has app 1.0-1" in str(problem)
