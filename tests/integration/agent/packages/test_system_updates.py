"""Updates of the operating system with a real dnf: two snapshots of a repository, with advisories and a kernel."""

from __future__ import annotations

import fcntl
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import structlog.testing

from support.hosts.packages import AvailablePackage
from support.hosts.repositories import reader
from support.hosts.snapshots import BROKEN, IMPOSSIBLE, NEW, OLD, SNAPSHOTS, definition
from zkdeployment.agent.packages import installed_packages
from zkdeployment.agent.packages.command import DnfCommand, find_program
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.agent.rules.estimated_update import estimated_update
from zkdeployment.base.errors import PackageError
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.system import SystemChange, WantedSystem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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
        self.definitions = definitions
        self.manager = self.new_manager()
        if not waits:
            setattr(self.manager._held, "can_prepare", lambda _directory: False)  # noqa: B010
        self.manager.installed()
        self.rpm("-i", "--nodeps", *map(str, sorted((snapshots / OLD).glob("*.rpm"))))

    def new_manager(self) -> Dnf:
        """Return the package manager of another agent of the host."""
        return Dnf(self.root, (str(self.definitions),), patience=0.5, gap=0)

    def rpm(self, *arguments: str) -> str:
        argv = ["rpm", "--root", str(self.root), "--dbpath", "/var/lib/rpm", *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    @property
    def versions(self) -> dict[str, list[str]]:
        return {name: sorted(each.version for each in same) for name, same in self.manager.installed().items()}

    @property
    def installed_by_users(self) -> set[str]:
        return {*self.manager._dnf.run("repoquery", "--userinstalled", "--qf=%{name}\n").split()}

    @property
    def release(self) -> str:
        return (self.root / "etc/dnf/vars/release").read_text(encoding="utf-8").strip()

    def configure(self, text: str) -> None:
        """Write the main configuration of dnf, which the package manager keeps."""
        home = self.root / "var/lib/zkdeployment/packages/home"
        (home / "dnf.conf").write_text(f"[main]\n{text}\n", encoding="utf-8")

    def update(self, release: str = NEW, extent: Extent = "all", *, exclude: Sequence[str] = ()) -> None:
        change = SystemChange(release, extent, tuple(exclude), frozenset({"app", "zkdeployment"}))
        self.manager.commit(self.manager.prepare_system(change))


GENERATION = find_program().generation

#: Whether dnf waits for the order. As a fallback, and with dnf 5, another one replays the transaction.
WAITS = [pytest.param(True, id="held"), pytest.param(False, id="replayed", marks=pytest.mark.nightly)]


@pytest.fixture(params=WAITS if GENERATION == 4 else [False])
def system(request: pytest.FixtureRequest, tmp_path: Path, snapshots: Path) -> System:
    return System(tmp_path, snapshots, waits=request.param)


@pytest.fixture
def held_system(tmp_path: Path, snapshots: Path) -> System:
    """A host whose dnf waits between the test of a transaction and the order if it can."""
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
    assert {"part", "successor"} & system.installed_by_users == {"successor"}
    system.update(exclude=["postgresql*"])
    assert system.versions == AFTER


def test_a_preview_tests_the_update_and_leaves_nothing(held_system: System):
    change = SystemChange(NEW, "all", ("postgresql*",), frozenset({"app"}))
    after = held_system.manager.preview_system(change)
    assert {name: sorted(each.version for each in same) for name, same in after.items()} == AFTER
    assert held_system.versions == BEFORE
    assert held_system.release == OLD
    assert [*(held_system.root / "var/lib/zkdeployment/packages").glob("prepared-*")] == []
    with pytest.raises(PackageError, match="cannot update the system to release 2026-99-99"):
        held_system.manager.preview_system(replace(change, release="2026-99-99"))


def test_an_agent_that_starts_leaves_previews_alone_until_their_process_is_gone(held_system: System):
    agent, state = held_system.new_manager(), held_system.root / "var/lib/zkdeployment/packages"
    (state / "preview-0-killed").mkdir()
    preview = Dnf(held_system.root, (str(held_system.definitions),), tick=agent.recover)
    after = preview.preview_system(SystemChange(NEW, ("bash",)))
    assert [each.version for each in after["bash"]] == ["5.2"]
    assert [*state.glob("pre*-*")] == []


def test_an_update_whose_release_cannot_be_recorded_has_changed_the_packages(held_system: System):
    transaction = held_system.manager.prepare_system(SystemChange(NEW, ("bash",)))
    record = held_system.root / "etc/dnf/vars/release"
    record.unlink()
    (record / "content").mkdir(parents=True)
    with pytest.raises(PackageError, match=f"cannot write {record}: ") as error:
        held_system.manager.commit(transaction)
    assert error.value.changed
    assert held_system.versions["bash"] == ["5.2"]


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
    held_system.update(NEW, "all", exclude=["tool"])
    assert missing(NEW) == held_system.new_manager().missing_advisories(NEW) == 1
    held_system.update(NEW, "security")
    assert missing(NEW) == held_system.new_manager().missing_advisories(NEW) == 0


@pytest.mark.parametrize(
    ("extent", "only_dnf_knows"),
    [("all", {"part", "former", "successor"}), ("security", {"part"}), (("bash", "kernel*"), set())],
)
def test_the_estimate_of_a_plan_lacks_only_what_the_solver_adds(
    held_system: System, tmp_path: Path, extent: Extent, only_dnf_knows: set[str]
):
    manager = held_system.manager
    inventory = Inventory(manager.installed(), installonly=manager.installonly())
    repositories = reader(tmp_path, str(tmp_path / "definitions")).at_release(NEW)
    offers = repositories.offers(inventory.packages.keys(), "")
    wanted = WantedSystem("/os", NEW, extent, ("postgresql*",))
    estimate = estimated_update(wanted, inventory, {"app", "zkdeployment"}, offers, "")
    change = SystemChange(NEW, extent, wanted.exclude, frozenset({"app", "zkdeployment"}))
    real = manager.prepare_system(change).items
    assert {*estimate.changes} <= {*real}
    assert {item.name for item in {*real} - {*estimate.changes}} == only_dnf_knows
    assert estimate.security == ({"tool"} if "bash" not in extent else frozenset())


@pytest.mark.nightly
def test_packages_that_an_update_treats_differently_are_named_by_kind(held_system, tmp_path):
    system = held_system
    (system.root / "etc/dnf/dnf.conf").write_text("[main]\nexcludepkgs=tool,app,bash\n", encoding="utf-8")
    modular = tmp_path / "modular"
    modular.mkdir()
    offers = [AvailablePackage(name=name, version="1.0", module="nodejs:18:800:ab") for name in ("nodejs", "npm")]
    system.rpm("-i", *(str(offer.build(modular)) for offer in offers))
    kept = frozenset({"app"})
    assert system.manager.update_exceptions(SystemChange(NEW, "all", ("postgresql*", "bash"), kept)) == {
        "excluded": "bash, postgresql-server",
        "held": "tool",
        "modular": "nodejs:18",
    }
    (system.root / "etc/dnf/dnf.conf").unlink()
    system.rpm("-e", "nodejs", "npm")
    assert system.manager.update_exceptions(SystemChange(NEW, "all", (), kept)) == {}


def test_patterns_select_installed_packages(system):
    system.update(NEW, ("kernel*", "nothing*"))
    assert system.versions == {**BEFORE, "kernel-core": ["5.14.1", "5.14.2"]}
    system.update(NEW, ("absent",))
    assert system.versions == {**BEFORE, "kernel-core": ["5.14.1", "5.14.2"]}


def test_dnf_is_asked_for_no_package_that_stays_because_dnf_5_refuses_that(held_system, monkeypatch):
    system, asked, argv = held_system, [], DnfCommand._argv

    def spy(command, *arguments, **options):
        asked.extend(arguments)
        return argv(command, *arguments, **options)

    monkeypatch.setattr(DnfCommand, "_argv", spy)
    system.update(NEW, ("a*", "b*", "post*"), exclude=["post*"])
    assert system.versions == {**BEFORE, "bash": ["5.2"]}
    assert "bash" in asked
    assert {"app", "postgresql-server"}.isdisjoint(asked)
    asked.clear()
    system.update(OLD, ("a*", "post*"), exclude=["post*"])
    assert (asked, system.versions["bash"], system.release) == ([], ["5.2"], OLD)


def test_without_createrepo_c_another_dnf_makes_an_update_from_the_same_release(tmp_path, snapshots, monkeypatch):
    system = System(tmp_path, snapshots, waits=False)
    monkeypatch.setattr(installed_packages, "can_make_repository", lambda: False)
    system.update(exclude=["postgresql*"])
    assert (system.versions, system.release) == (AFTER, NEW)


def test_an_update_that_changes_nothing_leaves_nothing(held_system: System):
    transaction = held_system.manager.prepare_system(SystemChange(OLD, "all"))
    assert (transaction.items, held_system.manager._held._waiting) == ((), None)
    assert [*(held_system.root / "var/lib/zkdeployment/packages").glob("prepared-*")] == []
    held_system.manager.commit(transaction)
    assert (held_system.versions, held_system.manager.missing_advisories(OLD)) == (BEFORE, 0)


@pytest.mark.nightly
def test_no_update_only_keeps_the_release(system):
    system.update(NEW, "none")
    assert (system.versions, system.release) == (BEFORE, NEW)


def test_a_release_that_no_repository_has_changes_nothing(system):
    with pytest.raises(PackageError, match="cannot update the system to release 2026-99-99"):
        system.update("2026-99-99")
    assert (system.versions, system.release) == (BEFORE, OLD)


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_a_build_that_versionlock_excludes_is_not_installed_and_holds_no_other_build(held_system):
    locks = held_system.root / "etc/dnf/plugins/versionlock.list"
    locks.parent.mkdir(exist_ok=True)
    locks.write_text("!bash-0:5.2-1.*\n!tool-0:1.9-1.*\n", encoding="utf-8")
    held_system.update(NEW, ("bash", "tool"))
    assert (held_system.versions["bash"], held_system.versions["tool"]) == (["5.1"], ["1.1"])


@pytest.mark.nightly
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


@pytest.fixture
def boot(held_system: System) -> Iterator[Path]:
    """The directory /boot of the host, a file system with less space than the kernel of a release needs."""
    place = held_system.root / "boot"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


#: Updates to the impossible release: the extent, what is excluded, and the words of the refusal.
IMPOSSIBLE_UPDATES: Mapping[str, tuple[Extent, Sequence[str], str]] = {
    "a full /boot": (("kernel*",), (), "the disk is too full: .*kernel-core-5.14.3.* on the /boot filesystem"),
    "a package of a module": (
        ("tool",),
        (),
        r"part-2.0-1.noarch, which is only in a module stream that is not enabled \(tools:2\)",
    ),
    "an excluded package": (("tool",), ("part*",), "part-2.0-1.noarch, which the update must not change: exclude"),
}


@pytest.mark.usefixtures("boot")
@pytest.mark.parametrize("case", IMPOSSIBLE_UPDATES)
def test_an_impossible_update_is_refused_with_the_reason_before_the_first_step(held_system, case):
    extent, exclude, words = IMPOSSIBLE_UPDATES[case]
    change = SystemChange(IMPOSSIBLE, extent, tuple(exclude))
    with pytest.raises(PackageError, match=f"cannot update the system to release {IMPOSSIBLE}: .*{words}"):
        held_system.manager.prepare_system(change)
    assert (held_system.versions, held_system.release) == (BEFORE, OLD)


def test_dnf_decides_whether_a_successor_may_replace_a_protected_package(system):
    """dnf 4 refuses that; dnf 5 protects packages only from removals without a successor."""
    system.configure("protected_packages=bash")
    others = ["kernel*", "tool", "part"]
    if GENERATION == 4:
        with pytest.raises(PackageError, match=r"the change would remove a package that dnf protects: .*bash"):
            system.update(IMPOSSIBLE, exclude=others)
        assert (system.versions, system.release) == (BEFORE, OLD)
    else:
        system.update(IMPOSSIBLE, exclude=others)
        assert system.versions.keys() == BEFORE.keys() - {"bash"} | {"shell"}
