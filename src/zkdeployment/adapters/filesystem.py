"""The host's files (implements ``ports.HostFiles``): software in ``/opt``, markers in ``/etc``, registries.

The format of markers belongs into ``markers``, the files of the run directory into ``run_directory``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable, markers
from zkdeployment.adapters.checkouts.places import remembered_version
from zkdeployment.errors import HostFilesError, ScriptError
from zkdeployment.log import get_logger
from zkdeployment.model.inventory import Inventory
from zkdeployment.model.names import NameKind, is_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from zkdeployment.adapters.run_directory import RunDirectory
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import Deployment
    from zkdeployment.model.host import Identity
    from zkdeployment.model.inventory import Marker, Packages
    from zkdeployment.model.publication import Published
    from zkdeployment.rollout.failure import Failure

_SCRIPTS = ("bin/zookeeper-deploy", "zookeeper-deploy")
_CONTROLLER_SCRIPT = "bin/starting-deployments"
_LARGEST = 16 * 1024 * 1024


class Filesystem:
    """The files below ``root``, which stands for ``/``, and the files of the run directory.

    Symbolic links to targets outside ``root`` are not followed, and no files are removed through a symbolic link.
    """

    def __init__(self, root: Path, run: RunDirectory) -> None:
        self._root = root
        self._opt = root / "opt"
        self._etc = root / "etc"
        self._managed = root / "var" / "lib" / "zkdeployment" / "managed.json"
        self._originals = root / "var" / "lib" / "zkdeployment" / "originals.json"
        self._run = run
        self._reported: set[str] = set()

    # Reading

    def inventory(self, packages: Packages) -> Inventory:
        directories = list(_directories(self._opt))
        managed = self._read(self._managed, NameKind.PACKAGE)
        checkouts = {
            name: version for name in directories if (version := self._remembered_version(name)) is not None
        }
        scripts = {name: str(script) for name in directories if (script := self._find_script(name)) is not None}
        software = markers.Software.of({*packages, *managed, *checkouts, *scripts}, managed.values())
        found_markers = tuple(self._markers(software))
        known = {*managed.values(), *checkouts, *(marker.application for marker in found_markers)}
        return Inventory(
            packages=packages,
            scripts=scripts,
            directories=frozenset(directories),
            markers=found_markers,
            managed=managed,
            originals=self._read(self._originals, NameKind.VERSION),
            checkouts=checkouts,
            applications=frozenset(name for name in known if (self._etc / name).is_dir()),
            controllers=frozenset(
                name for name in directories if self._find_script(name, _CONTROLLER_SCRIPT) is not None
            ),
        )

    def script(self, package: str) -> str:
        script = self._find_script(_checked(NameKind.PACKAGE, package))
        if script is None:
            raise ScriptError(
                f"{package} has no deploy script: expected {self._opt / package / _SCRIPTS[0]}; add the script to"
                " the package"
            )
        return _executable(script, "deploy script")

    def controller_script(self, package: str, name: str) -> str:
        script = self._find_script(_checked(NameKind.PACKAGE, package), f"bin/{name}")
        if script is None:
            expected = self._opt / package / "bin" / name
            raise ScriptError(
                f"the role controller {package} has no script {name}: expected {expected}; add it to the package"
            )
        return _executable(script, "role controller's script")

    def _find_script(self, package: str, *names: str) -> Path | None:
        for name in names or _SCRIPTS:
            script = self._opt / package / name
            with _reporting("read", script):
                if script.is_file() and script.resolve().is_relative_to(self._root.resolve()):
                    return script
        return None

    def _remembered_version(self, name: str) -> str | None:
        with _reporting("read", self._opt / name):
            return remembered_version(self._opt / name)

    def _markers(self, software: markers.Software) -> Iterator[Marker]:
        for application in _directories(self._etc):
            directory = self._etc / application
            with _reporting("read", directory):
                found_markers, foreign = markers.read(directory, _files(directory), software)
            for name in foreign:
                self._report_foreign(str(directory / name))
            yield from found_markers

    def _report_foreign(self, file: str) -> None:
        if file not in self._reported:
            self._reported.add(file)
            get_logger().warning(
                "marker-ignored",
                file=file,
                reason="expected JSON written by this agent, or the .deployed file of an application whose package"
                " or script is on the host, found neither; the file belongs to another program and is not changed",
            )

    @staticmethod
    def _read(file: Path, kind: NameKind) -> dict[str, str]:
        """Return the entries of a registry: names of ``kind`` by package name; none for a damaged file."""
        with _reporting("read", file):
            content = durable.read(file, _LARGEST)
        if content is None:
            return {}
        try:
            return {
                _checked(NameKind.PACKAGE, name): _checked(kind, to) for name, to in json.loads(content).items()
            }
        except (ValueError, RecursionError, AttributeError, TypeError, HostFilesError):
            # An empty registry is safe: only software with an entry, a marker or a deploy script is ever removed.
            get_logger().warning("host-file-unreadable", file=str(file), reason="damaged")
            return {}

    # Applications and software

    def make_application_directory(self, application: str) -> None:
        directory = self._etc / _checked(NameKind.PACKAGE, application)
        with _reporting("make", directory):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)

    def write_marker(self, marker: Marker) -> None:
        name = marker.deployment.marker_name
        file = self._marker_file(marker.application, name)
        with _reporting("write", file):
            durable.replace(file, markers.encode(marker))
        self._remove_files(marker.application, [stale for stale in marker.files if stale != name])

    def remove_marker(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        if (self._etc / _checked(NameKind.PACKAGE, application)).is_dir():
            self._remove_files(application, {deployment.marker_name, *files})

    def clear_software(self, packages: Collection[str], applications: Collection[str]) -> None:
        for package in packages:
            directory = self._opt / _checked(NameKind.PACKAGE, package)
            if directory.is_symlink():
                raise HostFilesError(
                    f"cannot remove {directory}: expected a directory, found a symbolic link; remove the link"
                )
            with _reporting("remove", directory), contextlib.suppress(FileNotFoundError):
                shutil.rmtree(directory)
        for application in applications:
            directory = self._etc / _checked(NameKind.PACKAGE, application)
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                get_logger().warning("application-directory-kept", directory=str(directory), reason=error.strerror)

    def add_managed(self, applications: Mapping[str, str]) -> None:
        self._add(self._managed, NameKind.PACKAGE, applications)

    def drop_managed(self, packages: Collection[str]) -> None:
        self._drop(self._managed, NameKind.PACKAGE, packages)

    def add_originals(self, versions: Mapping[str, str]) -> None:
        self._add(self._originals, NameKind.VERSION, versions)

    def drop_originals(self, packages: Collection[str]) -> None:
        self._drop(self._originals, NameKind.VERSION, packages)

    def _add(self, file: Path, kind: NameKind, entries: Mapping[str, str]) -> None:
        self._write(file, self._read(file, kind) | dict(entries))

    def _drop(self, file: Path, kind: NameKind, packages: Collection[str]) -> None:
        self._write(file, {name: to for name, to in self._read(file, kind).items() if name not in packages})

    @staticmethod
    def _write(file: Path, entries: Mapping[str, str]) -> None:
        with _reporting("write", file):
            file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(file, (json.dumps(entries, indent=2, sort_keys=True) + "\n").encode("ascii"))

    def _remove_files(self, application: str, names: Collection[str]) -> None:
        # The .script files go first: without its .deployed file, a .script file is no marker and would stay for
        # ever.
        for name in sorted(names, key=lambda name: (not name.endswith(".script"), name)):
            file = self._marker_file(application, name)
            with _reporting("remove", file):
                durable.remove(file)

    def _marker_file(self, application: str, name: str) -> Path:
        if markers.deployment_of(name) is None:
            raise HostFilesError(f"{name!a} is not the name of a marker file")
        return self._etc / _checked(NameKind.PACKAGE, application) / name

    # The run directory

    def write_status(self, revision: Revision | None, status: str) -> None:
        """Replace ``RUN/status``; ``status`` is ``done``, ``error`` or the step under way."""
        self._run.write_status(revision, status)

    def read_status(self) -> str | None:
        return self._run.read_status()

    def read_version(self, identity: Identity) -> Revision | None:
        return self._run.read_version(identity)

    def read_failure(self) -> Failure | None:
        return self._run.failure.read()

    def write_failure(self, failure: Failure) -> None:
        self._run.failure.write(failure)

    def clear_failure(self) -> None:
        self._run.failure.clear()

    def is_changing(self) -> bool:
        return self._run.is_changing()

    def write_version(self, revision: Revision) -> None:
        self._run.write_version(revision)

    def clear_version(self, former: Revision | None) -> None:
        self._run.clear_version(former)

    def read_published(self) -> Published:
        return self._run.read_published()

    def write_published(self, published: Published) -> None:
        self._run.write_published(published)


def _executable(script: Path, kind: str) -> str:
    if not os.access(script, os.X_OK):
        raise ScriptError(f"the {kind} {script} is not executable; its package has to set mode 755")
    return str(script)


def _directories(parent: Path) -> Iterator[str]:
    """Yield the names of directories in ``parent`` that are valid names of packages or applications, sorted."""
    with _reporting("read", parent), contextlib.suppress(FileNotFoundError), os.scandir(parent) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        yield from (name for name in names if is_name(NameKind.PACKAGE, name))


def _files(directory: Path) -> list[str]:
    """Return the names of the files in a directory; none if the directory does not exist."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _checked(kind: NameKind, name: str) -> str:
    """Return a name that is safe in a path; raises ``HostFilesError`` for other names."""
    if not isinstance(name, str) or not is_name(kind, name):
        raise HostFilesError(f"{name!a} is not a {kind.value}")
    return name


@contextlib.contextmanager
def _reporting(verb: str, file: Path) -> Iterator[None]:
    """Raise ``HostFilesError`` with the failed action and the file for an ``OSError``."""
    try:
        yield
    except OSError as error:
        raise HostFilesError(f"cannot {verb} {error.filename or file}: {error.strerror}") from error
