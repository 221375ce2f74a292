"""The host's files (a ``HostFiles``): software in ``/opt``, markers in ``/etc``, the registry of packages."""

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
    """The files below ``root``, the directory that stands for ``/``, and those of the run directory.

    Symbolic links that lead out of ``root`` are not followed, and nothing is removed through any.
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
        """Read what is on the host."""
        directories = list(_directories(self._opt))
        managed = self._read(self._managed, NameKind.PACKAGE)
        checkouts = {
            name: version for name in directories if (version := self._remembered_version(name)) is not None
        }
        scripts = {name: str(script) for name in directories if (script := self._find_script(name)) is not None}
        software = markers.Software.of({*packages, *managed, *checkouts, *scripts}, managed.values())
        found = tuple(self._markers(software))
        known = {*managed.values(), *checkouts, *(marker.application for marker in found)}
        return Inventory(
            packages=packages,
            scripts=scripts,
            directories=frozenset(directories),
            markers=found,
            managed=managed,
            originals=self._read(self._originals, NameKind.VERSION),
            checkouts=checkouts,
            applications=frozenset(name for name in known if (self._etc / name).is_dir()),
            controllers=frozenset(
                name for name in directories if self._find_script(name, _CONTROLLER_SCRIPT) is not None
            ),
        )

    def script(self, package: str) -> str:
        """Return the path of a package's deploy script; ``ScriptError`` if missing or not executable."""
        script = self._find_script(_checked(NameKind.PACKAGE, package))
        if script is None:
            raise ScriptError(f"{package} has no deploy script: expected {self._opt / package / _SCRIPTS[0]}")
        return _executable(script, "deploy script")

    def controller_script(self, package: str, name: str) -> str:
        """Return the path of a role controller's script; ``ScriptError`` if missing or not executable."""
        script = self._find_script(_checked(NameKind.PACKAGE, package), f"bin/{name}")
        if script is None:
            expected = self._opt / package / "bin" / name
            raise ScriptError(f"the role controller {package} has no script {name}: expected {expected}")
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
                found, foreign = markers.read(directory, _files(directory), software)
            for name in foreign:
                self._report_foreign(str(directory / name))
            yield from found

    def _report_foreign(self, file: str) -> None:
        if file not in self._reported:
            self._reported.add(file)
            get_logger().warning(
                "marker-not-ours",
                file=file,
                reason="expected JSON that this agent wrote, or a .deployed file of an application of which"
                " the host has a package or a script, found neither: it is no marker and is left alone",
            )

    @staticmethod
    def _read(file: Path, kind: NameKind) -> dict[str, str]:
        """Return what a registry says of packages: names of ``kind`` by the packages' names."""
        with _reporting("read", file):
            content = durable.read(file, _LARGEST)
        if content is None:
            return {}
        try:
            return {
                _checked(NameKind.PACKAGE, name): _checked(kind, to) for name, to in json.loads(content).items()
            }
        except (ValueError, RecursionError, AttributeError, TypeError, HostFilesError):
            # Only what the registry, a marker or a deploy script knows is ever removed: forgetting is safe.
            get_logger().warning("managed-packages-unknown", file=str(file), reason="damaged")
            return {}

    # Applications and software

    def make_application_directory(self, application: str) -> None:
        """Make ``/etc/APPLICATION`` unless it is there."""
        directory = self._etc / _checked(NameKind.PACKAGE, application)
        with _reporting("make", directory):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)

    def write_marker(self, marker: Marker) -> None:
        """Record a deployment, then remove the marker's other ``files``."""
        name = marker.deployment.marker_name
        file = self._marker_file(marker.application, name)
        with _reporting("write", file):
            durable.replace(file, markers.encode(marker))
        self._remove_files(marker.application, [stale for stale in marker.files if stale != name])

    def remove_marker(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        """Forget a deployment: its ``.deployed`` file and ``files``, whatever the script left of them."""
        if (self._etc / _checked(NameKind.PACKAGE, application)).is_dir():
            self._remove_files(application, {deployment.marker_name, *files})

    def clear_software(self, packages: Collection[str], applications: Collection[str]) -> None:
        """Remove what is left of ``/opt/PACKAGE`` and each ``/etc/APPLICATION`` that is empty."""
        for package in packages:
            directory = self._opt / _checked(NameKind.PACKAGE, package)
            if directory.is_symlink():
                raise HostFilesError(
                    f"{directory} is a symbolic link, which is never followed to remove things: remove it"
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
        """Add packages to the registry of managed ones, before they are installed."""
        self._add(self._managed, NameKind.PACKAGE, applications)

    def drop_managed(self, packages: Collection[str]) -> None:
        """Take packages from the registry, after the last of them is gone."""
        self._drop(self._managed, NameKind.PACKAGE, packages)

    def add_originals(self, versions: Mapping[str, str]) -> None:
        """Record the versions of the system's own packages, before they are changed."""
        self._add(self._originals, NameKind.VERSION, versions)

    def drop_originals(self, packages: Collection[str]) -> None:
        """Forget the recorded versions of packages that are put back."""
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
        # Notes go first: without its .deployed file a note proves nothing and would stay for ever.
        for name in sorted(names, key=lambda name: (not name.endswith(".script"), name)):
            file = self._marker_file(application, name)
            with _reporting("remove", file):
                durable.remove(file)

    def _marker_file(self, application: str, name: str) -> Path:
        if markers.deployment_of(name) is None:
            raise HostFilesError(f"{name!a} is not the name of a marker")
        return self._etc / _checked(NameKind.PACKAGE, application) / name

    # The run directory

    def write_status(self, revision: Revision | None, status: str) -> None:
        """Replace ``RUN/status``; ``status`` is ``done``, ``error`` or the step under way."""
        self._run.write_status(revision, status)

    def read_status(self) -> str | None:
        """Return what ``RUN/status`` shows; unknown (missing, corrupt) is ``None``."""
        return self._run.read_status()

    def read_version(self, identity: Identity) -> Revision | None:
        """Return the revision that the host runs whole as ``identity``; ``None`` if it runs none, or unknown."""
        return self._run.read_version(identity)

    def read_failure(self) -> Failure | None:
        """Return the failure that is not reported to ZooKeeper yet; unknown (missing, corrupt) is ``None``."""
        return self._run.failure.read()

    def write_failure(self, failure: Failure) -> None:
        """Keep a failure until it is reported."""
        self._run.failure.write(failure)

    def clear_failure(self) -> None:
        """Forget the failure, which is reported."""
        self._run.failure.clear()

    def is_changing(self) -> bool:
        """Whether a deployment has changed the host and was not completed."""
        return self._run.is_changing()

    def write_version(self, revision: Revision) -> None:
        """Record that the host runs ``revision`` whole."""
        self._run.write_version(revision)

    def clear_version(self, former: Revision | None) -> None:
        """Record that the host runs no revision whole any more; ``former`` is the one before, if it is known."""
        self._run.clear_version(former)

    def read_published(self) -> Published:
        """Return the last publication known; unknown (missing, corrupt) has sequence 0."""
        return self._run.read_published()

    def write_published(self, published: Published) -> None:
        """Record the last publication known."""
        self._run.write_published(published)


def _executable(script: Path, what: str) -> str:
    if not os.access(script, os.X_OK):
        raise ScriptError(f"the {what} {script} is not executable; the package has to set its mode to 755")
    return str(script)


def _directories(parent: Path) -> Iterator[str]:
    """Yield the names of the directories in ``parent`` that may be packages or applications, sorted."""
    with _reporting("read", parent), contextlib.suppress(FileNotFoundError), os.scandir(parent) as entries:
        found = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        yield from (name for name in found if is_name(NameKind.PACKAGE, name))


def _files(directory: Path) -> list[str]:
    """Return the names of the files in a directory; none if somebody has just removed it."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _checked(kind: NameKind, name: str) -> str:
    """Return a name that is safe in a path; raises ``HostFilesError`` for any other."""
    if not isinstance(name, str) or not is_name(kind, name):
        raise HostFilesError(f"{name!a} is not a {kind.value}")
    return name


@contextlib.contextmanager
def _reporting(verb: str, file: Path) -> Iterator[None]:
    """Say in one sentence what could not be done to which file."""
    try:
        yield
    except OSError as error:
        raise HostFilesError(f"cannot {verb} {error.filename or file}: {error.strerror}") from error
