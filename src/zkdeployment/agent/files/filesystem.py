"""The files of a host behind one value: markers, scripts, checkouts and the registry of packages.

The modules of this package read and write the files; this class composes them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import TYPE_CHECKING

from zkdeployment.agent.checkouts.places import remembered_version
from zkdeployment.agent.files.markers import MarkerFiles, Software
from zkdeployment.agent.files.paths import checked_name, converting_errors, package_directories
from zkdeployment.agent.files.software_scripts import SoftwareScripts
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files as durable
from zkdeployment.base.names import NameKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from zkdeployment.base.deployment import Deployment
    from zkdeployment.base.inventory import Marker, Packages


_LARGEST = 16 * 1024 * 1024


class PackageRegistry:
    """The registry in ``file``, whose values are names of ``kind``. Raises ``HostFilesError``."""

    def __init__(self, file: Path, kind: NameKind) -> None:
        self._file = file
        self._kind = kind

    def read(self) -> dict[str, str]:
        """Return the entries by package name; none for a missing or damaged file."""
        with converting_errors("read", self._file):
            content = durable.read(self._file, _LARGEST)
        if content is None:
            return {}
        try:
            return {
                checked_name(NameKind.PACKAGE, name): checked_name(self._kind, value)
                for name, value in json.loads(content).items()
            }
        except (ValueError, RecursionError, AttributeError, TypeError, HostFilesError):
            # An empty registry is safe: only software with an entry, a marker or a deploy script is ever removed.
            get_logger().warning("host-file-unreadable", file=str(self._file), reason="damaged")
            return {}

    def add(self, entries: Mapping[str, str]) -> None:
        """Add or replace entries."""
        self._write(self.read() | dict(entries))

    def remove(self, packages: Collection[str]) -> None:
        """Remove the entries of these packages, as far as they exist."""
        self._write({name: value for name, value in self.read().items() if name not in packages})

    def _write(self, entries: Mapping[str, str]) -> None:
        with converting_errors("write", self._file):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._file, (json.dumps(entries, indent=2, sort_keys=True) + "\n").encode("ascii"))


class Filesystem:
    """The files below ``root``, which stands for ``/``, without the run directory.

    Symbolic links to targets outside ``root`` are not followed, and no files are removed through a symbolic link.
    Writes replace files atomically and durably. The methods raise ``HostFilesError``.
    """

    def __init__(self, root: Path) -> None:
        self._opt = root / "opt"
        self._etc = root / "etc"
        registries = root / "var" / "lib" / "zkdeployment"
        self._managed = PackageRegistry(registries / "managed.json", NameKind.PACKAGE)
        self._originals = PackageRegistry(registries / "originals.json", NameKind.VERSION)
        self._started = registries / "starting-deployments"
        self._scripts = SoftwareScripts(root)
        self._markers = MarkerFiles(self._etc, registries / "deployed")

    # Software and deployments

    def inventory(self, packages: Packages) -> Inventory:
        """Read what is deployed and installed on the host; ``packages`` are the installed packages."""
        directories = list(package_directories(self._opt))
        managed = self._managed.read()
        checkouts = {
            name: version for name in directories if (version := self._remembered_version(name)) is not None
        }
        scripts = {
            name: script for name in directories if (script := self._scripts.deploy_script(name)) is not None
        }
        software = Software.of({*packages, *managed, *checkouts, *scripts}, managed.values())
        markers = tuple(self._markers.read(software))
        known = {*managed.values(), *checkouts, *(marker.application for marker in markers)}
        with converting_errors("read", self._started):
            deployments_started = durable.read(self._started, 1) is not None
        return Inventory(
            packages=packages,
            scripts=scripts,
            directories=frozenset(directories),
            markers=markers,
            managed=managed,
            originals=self._originals.read(),
            checkouts=checkouts,
            applications=frozenset(name for name in known if (self._etc / name).is_dir()),
            controllers=frozenset(name for name in directories if self._scripts.is_controller(name)),
            deployments_started=deployments_started,
        )

    def script(self, package: str) -> str:
        """Return the path of a package's deploy script; raises ``ScriptError`` if missing or not executable."""
        return self._scripts.executable_deploy_script(package)

    def controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; raises ``ScriptError`` as ``script`` does."""
        return self._scripts.executable_controller_script(package, name)

    def make_application_directory(self, application: str) -> None:
        """Create ``/etc/APPLICATION`` if it does not exist."""
        directory = self._etc / checked_name(NameKind.PACKAGE, application)
        with converting_errors("make", directory):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)

    def write_marker(self, marker: Marker) -> None:
        """Write the ``.deployed`` file of a deployment, then remove the other ``files`` of the marker."""
        self._markers.write(marker)

    def remove_marker(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        """Remove the ``.deployed`` file of a deployment and its ``files``, as far as the script left them."""
        self._markers.remove(application, deployment, files)

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

    # Registries

    def add_managed(self, applications: Mapping[str, str]) -> None:
        """Add packages (name → application) to the registry of managed packages, before they are installed."""
        self._managed.add(applications)

    def drop_managed(self, packages: Collection[str]) -> None:
        """Remove packages from the registry, after they were removed from the host."""
        self._managed.remove(packages)

    def add_originals(self, versions: Mapping[str, str]) -> None:
        """Record the versions of the system's own packages before they are changed."""
        self._originals.add(versions)

    def drop_originals(self, packages: Collection[str]) -> None:
        """Remove the recorded versions of packages that were restored."""
        self._originals.remove(packages)

    # The role controller's scripts

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
