"""The check of packages against real repositories, also if the solver fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.builders import make_package
from support.hosts.repositories import PaperRepository, publish_modules, reader
from zkdeployment.agent.rules.availability import PaperResolution
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Package
from zkdeployment.fleet.package_check import check_packages

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    import pytest

    from zkdeployment.agent.rules.availability import Offers, PaperTransaction


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
