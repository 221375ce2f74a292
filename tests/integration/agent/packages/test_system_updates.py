"""Updates of the operating system with a real dnf: two snapshots of a repository, with advisories and a kernel."""

from __future__ import annotations

import fcntl
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import structlog.testing

from support.hosts.snapshots import BROKEN, NEW, OLD, SNAPSHOTS, definition
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.errors import PackageError
from zkdeployment.base.system import SystemChange

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zkdeployment.base.system import Extent


class System:
    """A host with all packages of the old release."""

    def __init__(self, directory: Path, snapshots: Path, *, waits: bool) -> None:
        self.root = directory / "root"
        definitions = directory / "definitions"
        definitions.mkdir()
        (definitions / "os.repo").write_text(definition(snapshots), encoding="utf-8")
        variables = self.root / "etc/dnf/vars"
        variables.mkdir(parents=True)
        (variables / "release").write_text(f"{OLD}\n", encoding="utf-8")
        self.manager = Dnf(self.root, (str(definitions),), patience=0.5, gap=0)
        if not waits:
            setattr(self.manager._held, "can_prepare", lambda _directory: False)  # noqa: B010
        self.manager.installed()
        self.rpm("-i", "--nodeps", *map(str, sorted((snapshots / OLD).glob("*.rpm"))))

    def rpm(self, *arguments: str) -> str:
        argv = ["rpm", "--root", str(self.root), "--dbpath", "/var/lib/rpm", *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    @property
    def versions(self) -> dict[str, list[str]]:
        return {name: sorted(each.version for each in same) for name, same in self.manager.installed().items()}

    @property
    def release(self) -> str:
        return (self.root / "etc/dnf/vars/release").read_text(encoding="utf-8").strip()

    def update(self, release: str = NEW, extent: Extent = "all", *, exclude: Sequence[str] = ()) -> None:
        change = SystemChange(release, extent, tuple(exclude), frozenset({"app", "zkdeployment"}))
        self.manager.commit(self.manager.prepare_system(change))


@pytest.fixture(
    params=[pytest.param(True, id="held"), pytest.param(False, id="replayed", marks=pytest.mark.nightly)]
)
def system(request: pytest.FixtureRequest, tmp_path: Path, snapshots: Path) -> System:
    return System(tmp_path, snapshots, waits=request.param)


@pytest.fixture
def held_system(tmp_path: Path, snapshots: Path) -> System:
    """A host whose dnf waits between the test of a transaction and the order."""
    return System(tmp_path, snapshots, waits=True)


BEFORE = {offer.name: [offer.version] for offer in SNAPSHOTS[OLD]}

AFTER = {
    "bash": ["5.2"],
    "tool": ["1.1"],
    "part": ["1.0"],
    "kernel-core": ["5.14.1", "5.14.2"],
    "postgresql-server": ["15.0"],
    "app": ["1.0"],
    "successor": ["2.0"],
}


def test_a_release_updates_everything_but_excluded_packages_and_those_of_services(system):
    begun = time.time() - 1
    system.update(exclude=["postgresql*"])
    assert system.versions == AFTER
    assert system.release == NEW
    assert system.manager.installed_since(begun) >= {"bash", "kernel-core"}
    system.update(exclude=["postgresql*"])
    assert system.versions == AFTER


def test_an_earlier_release_brings_the_former_versions_back(system):
    system.update(NEW, ("bash", "tool"))
    assert (system.versions["bash"], system.versions["tool"]) == (["5.2"], ["1.1"])
    system.update(OLD, ("bash",))
    assert (system.versions["bash"], system.versions["tool"], system.release) == (["5.1"], ["1.1"], OLD)


def test_security_updates_only_packages_with_advisories(system):
    system.update(NEW, "security")
    assert system.versions == {**BEFORE, "tool": ["1.1"], "part": ["1.0"]}


def test_the_security_advisories_that_a_host_lacks_are_counted_for_each_release(held_system):
    missing = held_system.manager.missing_advisories
    assert (missing(OLD), missing(NEW), missing("2026-99-99")) == (0, 1, None)
    held_system.update(NEW, "security")
    assert missing(NEW) == 0


def test_patterns_select_installed_packages(system):
    system.update(NEW, ("kernel*", "nothing*"))
    assert system.versions == {**BEFORE, "kernel-core": ["5.14.1", "5.14.2"]}
    system.update(NEW, ("absent",))
    assert system.versions == {**BEFORE, "kernel-core": ["5.14.1", "5.14.2"]}


def test_no_update_only_keeps_the_release(system):
    system.update(NEW, "none")
    assert (system.versions, system.release) == (BEFORE, NEW)


def test_a_release_that_no_repository_has_changes_nothing(system):
    with pytest.raises(PackageError, match="cannot update the system to release 2026-99-99"):
        system.update("2026-99-99")
    assert (system.versions, system.release) == (BEFORE, OLD)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("dnf.conf", "[main]\nexcludepkgs=post*.noarch, nothing\n"),
        ("plugins/versionlock.list", "# locks\npostgresql-server-0:15.0-1.*\n\nbash-doc\n"),
        ("versionlock.toml", 'version = "1.0"\n[[packages]]\nname = "postgresql-server"\n'),
    ],
)
def test_packages_that_dnf_holds_stay_and_are_named(held_system, file, text):
    system, place = held_system, held_system.root / "etc/dnf" / file
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, encoding="utf-8")
    with pytest.raises(
        PackageError, match=f"postgresql-server is held by .* in /etc/dnf/{file}, but update names"
    ):
        system.update(NEW, ("bash", "postgresql-server"))
    assert (system.versions, system.release) == (BEFORE, OLD)
    with structlog.testing.capture_logs() as logs:
        system.update(NEW)
    assert system.versions == AFTER
    assert [list(entry["packages"]) for entry in logs if entry["event"] == "system-packages-held"] == [
        ["postgresql-server"]
    ]


def test_an_update_waits_for_the_lock_of_the_package_database_and_changes_nothing(held_system):
    system = held_system
    with (system.root / "var/lib/rpm/.rpm.lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with pytest.raises(PackageError, match="another program is changing packages") as error:
            system.update()
        assert error.value.retry_helps
    assert (system.versions, system.release) == (BEFORE, OLD)
    system.update(exclude=["postgresql*"])
    assert system.versions == AFTER


def test_a_failed_update_is_rolled_back_and_keeps_its_release(system):
    with pytest.raises(PackageError, match="bash"):
        system.update(BROKEN)
    assert (system.versions, system.release) == (BEFORE, OLD)
