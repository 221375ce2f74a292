"""A host in memory that executes a plan one effect at a time, so that tests can interrupt it after any effect.

The host raises AssertionError when a step would do harm.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.undeploying import installed_packages
from zkdeployment.base.deployment import Rerun
from zkdeployment.base.inventory import Inventory, Marker, Package
from zkdeployment.base.packages import has_version, select
from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    RemoveCheckout,
    RemoveSoftware,
    StartDeployments,
    Undeploy,
)
from zkdeployment.tree.checkout import is_checkout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.base.deployment import Assignment, Deployment
    from zkdeployment.base.plan import PackageChange, Plan, Step

#: The packages of the repository. A number in a name is part of the name; patches have no script.
REPOSITORY = tuple(
    Package(name, 0, version, "1", "noarch")
    for name, versions in {
        "foo": "12",
        "bar": "12",
        "foo-1": "1",
        "foo-2": "2",
        "fix": "12",
        "ctl": "12",
        "ctl2": "1",
        "bash": "5",
    }.items()
    for version in versions
)
CONTROLLERS = frozenset({"ctl", "ctl2"})
WITHOUT_SCRIPT = frozenset({"fix", "bash"}) | CONTROLLERS


def script_of(package: str) -> str:
    """Return the path of a package's deploy script."""
    return f"/opt/{package}/bin/zookeeper-deploy"


@dataclass
class SimulatedHost:
    """The state of a host.

    ``ran`` maps each running deployment to what its script was last run with, packages included; ``None`` if the
    script did not end, or if its software was changed since. The host is ``out_of_service`` between the scripts of
    a role controller.
    """

    packages: dict[str, set[Package]] = field(default_factory=dict)
    scripts: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    markers: dict[tuple[str, Deployment], Marker] = field(default_factory=dict)
    etc: set[str] = field(default_factory=set)
    managed: dict[str, str] = field(default_factory=dict)
    checkouts: dict[str, str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    deployments_started: bool = False
    out_of_service: bool = False
    running: set[tuple[str, Deployment]] = field(default_factory=set)
    ran: dict[tuple[str, Deployment], tuple[Assignment, tuple[str, ...]] | None] = field(default_factory=dict)

    def copy(self) -> SimulatedHost:
        """Return an independent copy."""
        return copy.deepcopy(self)

    def inventory(self) -> Inventory:
        """Return the inventory that an agent would read."""
        known = {*self.managed.values(), *self.checkouts, *(application for application, _ in self.markers)}
        return Inventory(
            packages={name: tuple(sorted(package)) for name, package in self.packages.items()},
            scripts={name: script_of(name) for name in self.scripts},
            directories=frozenset(self.directories),
            markers=tuple(self.markers.values()),
            managed=dict(self.managed),
            originals=dict(self.originals),
            checkouts=dict(self.checkouts),
            applications=frozenset(self.etc & known),
            lost_scripts=frozenset((self.packages.keys() & self.managed.keys()) - WITHOUT_SCRIPT - self.scripts),
            controllers=frozenset((self.packages.keys() | self.checkouts.keys()) & CONTROLLERS),
            deployments_started=self.deployments_started,
        )

    def install(self, package: Package) -> None:
        """Install a package beside other versions of its name."""
        installed = self.packages.setdefault(package.name, set())
        assert package not in installed, f"{package} installed twice"
        installed.add(package)
        if package.name not in WITHOUT_SCRIPT:
            self.scripts.add(package.name)
        if package.name not in WITHOUT_SCRIPT - CONTROLLERS:
            self.directories.add(package.name)

    def check_out(self, name: str, version: str) -> None:
        """Replace a directory by a checkout, in one effect, as a rename would."""
        self.checkouts[name] = version
        self.scripts.add(name)
        self.directories.add(name)

    def remove_checkout(self, name: str) -> None:
        """Remove a checkout's directory if there is one."""
        self.checkouts.pop(name, None)
        self.scripts.discard(name)
        self.directories.discard(name)

    def erase(self, package: Package) -> None:
        """Remove a package; the script goes with the last version of its name, the directory stays."""
        self.packages[package.name].remove(package)
        if not self.packages[package.name]:
            del self.packages[package.name]
            self.scripts.discard(package.name)

    def lose(self, name: str) -> None:
        """Delete a package's directory behind the package database's back."""
        self.scripts.discard(name)
        self.directories.discard(name)

    def replace_release(self, name: str) -> None:
        """Install another release of a package, as a person may do beside the agent."""
        (package,) = self.packages[name]
        self.packages[name] = {replace(package, release=f"{package.release}1")}
        self._renew(name)
        self.ran |= {
            key: None
            for key, ran in self.ran.items()
            if ran is not None and name in ran[0].patches and ran[0].rerun is Rerun.CHANGED
        }

    def take(self, plan: Plan) -> Iterator[Step]:
        """Execute all steps; yield the step after each single effect."""
        records = list(plan.unrecorded)
        for step in plan.steps:
            if isinstance(step, ChangePackages | CheckOut):
                yield from (step for _ in self._end_records(records))
                records.clear()
            elif isinstance(step, Deploy | Undeploy):
                ended = [marker for marker in records if marker.deployment == step.deployment]
                yield from (step for _ in self._end_records(ended))
                records = [marker for marker in records if marker not in ended]
            for _ in self._effects(step):
                yield step

    def _effects(self, step: Step) -> Iterator[None]:
        match step:
            case ChangeController():
                yield from self._change_controller(step)
            case StartDeployments() | EndDeployments():
                yield from self._run_controller(step)
            case Undeploy():
                yield from self._undeploy(step)
            case ChangePackages():
                self.managed |= step.applications
                yield
                self.originals |= step.originals
                yield
                yield from self._change(step.change)
                for name in step.put_back:
                    del self.originals[name]
                    yield
            case CheckOut():
                yield from self._check_out(step)
            case RemoveCheckout():
                self.remove_checkout(step.package)
                yield
            case Deploy():
                yield from self._deploy(step)
            case RemoveSoftware():
                self.managed |= step.unregistered
                yield
                yield from self._change(step.change)
                yield from self._remove(step)

    def _run_controller(self, step: StartDeployments | EndDeployments) -> Iterator[None]:
        self._check_software(step.controller.package, step.controller.version)
        if isinstance(step, StartDeployments):
            self.deployments_started = True
            yield
        self.out_of_service = isinstance(step, StartDeployments)
        yield
        if isinstance(step, EndDeployments):
            self.deployments_started = False
            yield

    def _end_records(self, markers: list[Marker]) -> Iterator[None]:
        for marker in markers:
            self.markers[marker.application, marker.deployment] = marker
            yield

    def _renew(self, name: str) -> None:
        """Forget the properties with which the deployments of a package ran, because the package changes."""
        self.ran |= {
            key: None for key, marker in self.markers.items() if marker.package == name and key in self.ran
        }

    def _change_controller(self, step: ChangeController) -> Iterator[None]:
        self.managed |= step.registered
        yield
        yield from self._change(step.change)
        for name in step.removed:
            self.directories.discard(name)
            yield
        for name in step.removed:
            del self.managed[name]
            yield

    def _undeploy(self, step: Undeploy) -> Iterator[None]:
        key = (step.application, step.deployment)
        assert key in self.markers, f"{step} is not marked"
        script = script_of(step.package) if step.script is None else step.script
        assert script in {script_of(name) for name in self.scripts}, f"{script} is gone"
        self.running.discard(key)
        self.ran.pop(key, None)
        self.ran |= {other: None for other in self.ran if other[1] == step.deployment}
        yield
        del self.markers[key]
        yield

    def _change(self, change: PackageChange) -> Iterator[None]:
        chosen, missing = select(REPOSITORY, change.want)
        assert not missing
        for name, (package,) in chosen.items():
            assert name in change.managed
            if package not in self.packages.get(name, set()):
                self._renew(name)
                self.install(package)
                yield
            for other in sorted(self.packages[name] - {package}):
                self.erase(other)
                yield
        for name in sorted(change.reinstall):
            assert name in change.managed & self.packages.keys()
            self._renew(name)
            self.scripts.add(name)
            self.directories.add(name)
            yield
        for name in sorted(change.remove):
            assert name in change.managed
            for package in sorted(self.packages[name]):
                self.erase(package)
                yield

    def _check_out(self, step: CheckOut) -> Iterator[None]:
        name = step.package
        assert name not in self.packages or name not in self.scripts, f"the package {name} is in its place"
        assert step.replaces or name not in self.directories, f"{name} is somebody else's"
        self._renew(name)
        self.check_out(name, step.version)
        yield
        self.managed.pop(name, None)
        yield

    def _deploy(self, step: Deploy) -> Iterator[None]:
        wanted = step.assignment
        for name, version in {wanted.package: wanted.version, **wanted.patches}.items():
            self._check_software(name, version)
        assert wanted.package in self.scripts
        self.etc.add(wanted.application)
        yield
        key = (wanted.application, step.deployment)
        self.running.add(key)
        self.ran[key] = None
        yield
        installed = {name: tuple(package) for name, package in self.packages.items()}
        packages = installed_packages(wanted, installed) if wanted.rerun is Rerun.CHANGED else ()
        self.ran[key] = replace(wanted, n=1), packages
        yield
        marker = Marker(
            deployment=step.deployment,
            application=wanted.application,
            package=wanted.package,
            subtype=wanted.subtype,
            script=script_of(wanted.package),
            version=wanted.version,
            properties=wanted.properties if wanted.rerun is Rerun.CHANGED else None,
            packages=packages,
            files=(step.deployment.marker_name, *step.stale_files),
            group=wanted.group,
        )
        self.markers[key] = marker
        yield
        self.markers[key] = replace(marker, files=(step.deployment.marker_name,))
        yield

    def _check_software(self, name: str, version: str | None) -> None:
        if version is not None and is_checkout(version):
            assert self.checkouts[name] == version
            assert name not in self.packages
        else:
            (package,) = self.packages[name]
            assert version is None or has_version(package, version)
            assert name not in self.checkouts

    def _remove(self, step: RemoveSoftware) -> Iterator[None]:
        for name in step.packages:
            assert name not in self.packages
            self.checkouts.pop(name, None)
            self.scripts.discard(name)
            self.directories.discard(name)
            yield
        for application in step.applications:
            if not any(application == marked for marked, _ in self.markers):
                self.etc.discard(application)
                yield
        for name in step.packages:
            del self.managed[name]
            yield
