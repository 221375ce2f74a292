"""The files of a host as one object: scripts in ``/opt``, checkouts, the registries of packages, and markers.

Markers have their own module, ``markers``; the state of the agent itself is in ``run_directory``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from typing import TYPE_CHECKING

from zkdeployment.agent.checkouts.places import remembered_version
from zkdeployment.agent.checkouts.working_copies import working_copy
from zkdeployment.agent.files.markers import MarkerFiles, Software, checked_name, package_directories
from zkdeployment.base.errors import HostFilesError, ScriptError
from zkdeployment.base.inventory import Inventory, Packages
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine.files import converting_errors, foreign_part
from zkdeployment.base.names import NameKind
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


_DEPLOY_SCRIPTS = ("bin/zookeeper-deploy", "zookeeper-deploy")
_CONTROLLER_SCRIPT = "bin/starting-deployments"


class SoftwareScripts:
    """The scripts below ``root/opt``. Symbolic links to targets outside ``root`` are not followed.

    The scripts run as root. Therefore a script that other users may change counts as missing, so that its package
    is reinstalled; the script of a checkout is restored from the agent's own working copy before it runs.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._opt = root / "opt"
        self._reported: set[str] = set()

    def deploy_script(self, package: str) -> str | None:
        """Return the path of a package's deploy script; ``None`` if it does not exist."""
        script = self._find(package, *_DEPLOY_SCRIPTS)
        return str(script) if script is not None and self._is_usable(package, script) else None

    def is_controller(self, package: str) -> bool:
        """Whether a package has the scripts of a role controller."""
        script = self._find(package, _CONTROLLER_SCRIPT)
        return script is not None and self._is_usable(package, script)

    def executable_deploy_script(self, package: str) -> str:
        """Return the path of a package's deploy script; raises ``ScriptError`` if missing or not executable."""
        script = self._find(checked_name(NameKind.PACKAGE, package), *_DEPLOY_SCRIPTS)
        if script is None:
            raise ScriptError(
                f"{package} has no deploy script: expected {self._opt / package / _DEPLOY_SCRIPTS[0]}; add the"
                " script to the package"
            )
        return self._executable(package, script, "deploy script")

    def executable_controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; raises ``ScriptError`` as for deploy scripts."""
        script = self._find(checked_name(NameKind.PACKAGE, package), f"bin/{name}")
        if script is None:
            expected = self._opt / package / "bin" / name
            raise ScriptError(
                f"the role controller {package} has no script {name}: expected {expected}; add it to the package"
            )
        return self._executable(package, script, "role controller's script")

    def _find(self, package: str, *names: str) -> Path | None:
        for name in names:
            script = self._opt / package / name
            with converting_errors("read", script):
                if script.is_file() and script.resolve().is_relative_to(self._root.resolve()):
                    return script
        return None

    def _is_usable(self, package: str, script: Path) -> bool:
        """Whether no other user may change a script, or it can be restored; log once that it is ignored."""
        with converting_errors("read", script):
            part = foreign_part(script, self._root)
        if part is None or self._original(package, script).is_file():
            return True
        if str(script) not in self._reported:
            self._reported.add(str(script))
            get_logger().warning("script-ignored", file=str(script), reason=_objection(part))
        return False

    def _executable(self, package: str, script: Path, kind: str) -> str:
        """Return the path of a script that only root may change; raises ``ScriptError`` if it does not exist."""
        with converting_errors("restore", script):
            if foreign_part(script, self._root) is not None:
                self._take_back(package, script)
            if (part := foreign_part(script, self._root)) is not None:
                raise ScriptError(f"the {kind} {script} is not run: {_objection(part)}")
        if not os.access(script, os.X_OK):
            raise ScriptError(f"the {kind} {script} is not executable; its package has to set mode 755")
        return str(script)

    def _take_back(self, package: str, script: Path) -> None:
        """Restore the committed content of a checkout's script; root then owns the script and its directories."""
        original = self._original(package, script)
        if not original.is_file():
            return
        place = self._opt / package
        for part in reversed(script.relative_to(place).parents):
            descriptor = os.open(place / part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchown(descriptor, os.geteuid(), os.getegid())
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o022)
            finally:
                os.close(descriptor)
        durable.replace(script, original.read_bytes(), mode=stat.S_IMODE(original.stat().st_mode) & ~0o022)
        get_logger().warning("script-taken-back", file=str(script), reason="other users could change it")

    def _original(self, package: str, script: Path) -> Path:
        return working_copy(self._root, package) / script.relative_to(self._opt / package)


def _objection(part: Path) -> str:
    return (
        f"other users may change {part}, and root runs the script: expected a file and directories that only root"
        " may change; make root their owner, and take the right to write away from others"
    )


_LARGEST = 16 * 1024 * 1024


@dataclass(eq=False, repr=False)
class PackageRegistry:
    """The registry in ``file``, whose values are names of ``kind``. Raises ``HostFilesError``."""

    file: Path
    kind: NameKind

    def read(self) -> dict[str, str]:
        """Return the entries by package name; none for a missing or damaged file."""
        with converting_errors("read", self.file):
            content = durable.read(self.file, _LARGEST)
        if content is None:
            return {}
        try:
            return {
                checked_name(NameKind.PACKAGE, name): checked_name(self.kind, value)
                for name, value in json.loads(content).items()
            }
        except (ValueError, RecursionError, AttributeError, TypeError, HostFilesError):
            # An empty registry is safe: only software with an entry, a marker or a deploy script is ever removed.
            get_logger().warning("host-file-unreadable", file=str(self.file), reason="damaged")
            return {}

    def add(self, entries: Mapping[str, str]) -> None:
        """Add or replace entries."""
        self._write(self.read() | dict(entries))

    def remove(self, packages: Collection[str]) -> None:
        """Remove the entries of these packages, as far as they exist."""
        self._write({name: value for name, value in self.read().items() if name not in packages})

    def _write(self, entries: Mapping[str, str]) -> None:
        with converting_errors("write", self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self.file, (json.dumps(entries, indent=2, sort_keys=True) + "\n").encode("ascii"))


class Filesystem:
    """The files below ``root``, which stands for ``/``, except those of the run directory.

    ``managed`` has the application of each managed package; a package is added before it is installed, and removed
    after it was removed from the host. ``originals`` has the versions of the system's own packages, recorded
    before these are changed.

    Symbolic links to targets outside ``root`` are not followed, and no files are removed through a symbolic link.
    Writes replace files atomically and durably. The methods raise ``HostFilesError``.
    """

    def __init__(self, root: Path) -> None:
        self._opt = root / "opt"
        self._etc = root / "etc"
        registries = root / "var" / "lib" / "zkdeployment"
        self.managed = PackageRegistry(registries / "managed.json", NameKind.PACKAGE)
        self.originals = PackageRegistry(registries / "originals.json", NameKind.VERSION)
        self._started = registries / "starting-deployments"
        self.scripts = SoftwareScripts(root)
        self.markers = MarkerFiles(self._etc, registries / "deployed")

    def inventory(self, packages: Packages) -> Inventory:
        """Read the deployments and the software of the host; ``packages`` are the installed packages."""
        directories = list(package_directories(self._opt))
        managed = self.managed.read()
        checkouts = {
            name: version for name in directories if (version := self._remembered_version(name)) is not None
        }
        scripts = {
            name: script for name in directories if (script := self.scripts.deploy_script(name)) is not None
        }
        software = Software.of({*packages, *managed, *checkouts, *scripts}, managed.values())
        markers = tuple(self.markers.read(software))
        known = {*managed.values(), *checkouts, *(marker.application for marker in markers)}
        with converting_errors("read", self._started):
            deployments_started = durable.read(self._started, 1) is not None
        return Inventory(
            packages=packages,
            scripts=scripts,
            directories=frozenset(directories),
            markers=markers,
            managed=managed,
            originals=self.originals.read(),
            checkouts=checkouts,
            applications=frozenset(name for name in known if (self._etc / name).is_dir()),
            controllers=frozenset(name for name in directories if self.scripts.is_controller(name)),
            deployments_started=deployments_started,
        )

    def make_application_directory(self, application: str) -> None:
        """Create ``/etc/APPLICATION`` if it does not exist."""
        directory = self._etc / checked_name(NameKind.PACKAGE, application)
        with converting_errors("make", directory):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)

    def clear_software(self, packages: Collection[str], applications: Collection[str]) -> None:
        """Remove the remains of each ``/opt/PACKAGE``, and each ``/etc/APPLICATION`` that is empty."""
        for package in packages:
            _remove_directory(self._opt / checked_name(NameKind.PACKAGE, package))
        for application in applications:
            directory = self._etc / checked_name(NameKind.PACKAGE, application)
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                get_logger().warning("application-directory-kept", directory=str(directory), reason=error.strerror)

    def _remembered_version(self, name: str) -> str | None:
        with converting_errors("read", self._opt / name):
            return remembered_version(self._opt / name)

    def record_start(self, controller: str) -> None:
        """Record that ``starting-deployments`` of the role controller with this path is called now."""
        with converting_errors("write", self._started):
            self._started.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._started, f"{controller}\n".encode())

    def record_end(self) -> None:
        """Remove the record of ``starting-deployments``, after ``ending-deployments`` has succeeded."""
        with converting_errors("remove", self._started):
            durable.remove(self._started)


def _remove_directory(directory: Path) -> None:
    if directory.is_symlink():
        raise HostFilesError(
            f"cannot remove {directory}: expected a directory, found a symbolic link; remove the link"
        )
    with converting_errors("remove", directory), contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory)
