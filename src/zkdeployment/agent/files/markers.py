"""Markers: the files in ``/etc/APPLICATION`` that record the deployments of a host.

The agent writes JSON to ``A:B.N.deployed`` for instance N of ``/A/B``. Older tools wrote ``A,B.N.deployed``,
often empty, and ``A,B.N.script`` with the path of the deploy script. Other programs may use such names, too: a
file is a marker only if its content or the host's software proves it.

A service's user may own the directory of the application, so the agent reads only files that no other user can
change.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Marker
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine.files import converting_errors, foreign_part, is_ours, read_ours
from zkdeployment.base.names import NameKind, application_of, is_name
from zkdeployment.base.publication import is_sequence
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from zkdeployment.base.json_values import Value


def checked_name(kind: NameKind, name: str) -> str:
    """Return a name that is safe in a path; raises ``HostFilesError`` for other names."""
    if not isinstance(name, str) or not is_name(kind, name):
        raise HostFilesError(f"{name!a} is not a {kind.value}")
    return name


def package_directories(parent: Path) -> Iterator[str]:
    """Yield the names of directories in ``parent`` that are valid names of packages or applications, sorted."""
    with converting_errors("read", parent), contextlib.suppress(FileNotFoundError), os.scandir(parent) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        yield from (name for name in names if is_name(NameKind.PACKAGE, name))


_NAME = re.compile(r"(?P<path>.+)\.(?P<number>0|[1-9][0-9]{0,8})\.(?P<kind>deployed|script)")
_SCRIPT = re.compile(r"(?:^|/)opt/(?P<package>[^/]+)/(?:bin/)?zookeeper-deploy\Z")
_LARGEST = 64 * 1024


def encode(marker: Marker) -> bytes:
    """Return the content of a marker's file."""
    content: dict[str, Value] = {
        "path": marker.deployment.path,
        "number": marker.deployment.number,
        "package": marker.package,
        "subtype": marker.subtype,
        "script": marker.script,
        "version": marker.version,
        "sequence": marker.sequence,
    }
    if marker.group is not None:
        content["group"] = marker.group
    if marker.properties is not None:
        content |= {"properties": marker.properties, "packages": list(marker.packages)}
        if marker.identity is not None:
            content["host"] = [marker.identity.id, marker.identity.name, marker.identity.role]
    return (json.dumps(content, indent=2) + "\n").encode("ascii")


@dataclass(frozen=True)
class Software:
    """The software that a host has or had: the proof that files of older tools are markers.

    ``packages`` are the names of packages and of directories under ``/opt`` with a deploy script, ``applications``
    the applications of those packages.
    """

    packages: frozenset[str]
    applications: frozenset[str]

    @classmethod
    def of(cls, packages: Collection[str], applications: Collection[str]) -> Software:
        """Return the software for packages and applications; ``foo-1.4`` may be of application foo or foo-1.4."""
        names = frozenset(packages)
        return cls(names, names.union(map(application_of, names), applications))

    def proves(self, marker: Marker) -> bool:
        """Whether a marker of an older tool records a deployment of this software."""
        has_marker = any(file.endswith(".deployed") for file in marker.files)
        return has_marker and (marker.application in self.applications or marker.package in self.packages)


def read(directory: Path, names: Iterable[str], software: Software | None) -> tuple[list[Marker], list[str]]:
    """Return the markers among the files ``names`` of an application's directory, and the files of other programs.

    Without ``software``, as in a directory that other users may change, only markers that this agent wrote count.

    Files without the name of a marker are in neither result. Raises ``OSError`` for a file that exists but cannot
    be read.
    """
    files_of: dict[Deployment, list[str]] = {}
    for name in sorted(names):
        deployment = deployment_of(name)
        if deployment is not None:
            files_of.setdefault(deployment, []).append(name)
    ours: list[Marker] = []
    foreign: list[str] = []
    for deployment, files in sorted(files_of.items()):
        marker, written_by_agent = _read_marker(directory, deployment, files)
        if written_by_agent or (software is not None and software.proves(marker)):
            ours.append(marker)
        else:
            foreign += files
    return ours, foreign


def deployment_of(name: str) -> Deployment | None:
    """Return the deployment that a file of this name records; ``None`` if the name is not that of a marker."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    separator = "," if "," in match["path"] else ":"
    parts = match["path"].split(separator)
    if not all(is_name(NameKind.MARKED, part) for part in parts):
        return None
    return Deployment("/" + "/".join(parts), int(match["number"]))


def _read_marker(directory: Path, deployment: Deployment, files: list[str]) -> tuple[Marker, bool]:
    """Return the marker that consists of the files, and whether this agent wrote one of them."""
    known: dict[str, Any] = {}
    script_path: str | None = None
    for name in files:
        content = read_ours(directory / name, _LARGEST) or b""
        if name.endswith(".script"):
            script_path = content.decode("utf-8", errors="replace").strip() or None
        else:
            known |= _fields(content, deployment)
    texts = {name: value for name, value in known.items() if isinstance(value, str)}
    script = texts.get("script") or script_path
    package = texts.get("package")
    if package is None and script is not None and (match := _SCRIPT.search(script)):
        package = match["package"]
    marker = Marker(
        deployment=deployment,
        application=directory.name,
        package=package if package is not None and is_name(NameKind.PACKAGE, package) else None,
        subtype=texts.get("subtype"),
        script=script,
        version=texts.get("version"),
        files=tuple(files),
        sequence=sequence if is_sequence(sequence := known.get("sequence")) else None,
        properties=texts.get("properties"),
        packages=_texts(known.get("packages")),
        identity=_identity(known.get("host")),
        group=texts.get("group"),
    )
    return marker, bool(known)


def _identity(value: object) -> Identity | None:
    match value:
        case [str(host_id), str(name), (str() | None) as role]:
            return Identity(host_id, name, role)
    return None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _fields(content: bytes, deployment: Deployment) -> dict[str, Any]:
    """Return the fields of a marker that this agent wrote for a deployment; none for other content."""
    try:
        fields: Any = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(fields, dict):
        return {}
    recorded = (fields.get("path"), fields.get("number"))
    return fields if recorded == (deployment.path, deployment.number) else {}


_FOREIGN = (
    "expected JSON written by this agent, or the .deployed file of an application whose package or script is on"
    " the host, found neither; the file belongs to another program and is not changed"
)

_UNSAFE = (
    "expected a file that only root can change, in directories that only root can change or written by this agent;"
    " other users may have made it: if the deployment is real, make root the owner of the file and its directory"
)


class MarkerFiles:
    """The markers in the directory ``etc``. Raises ``HostFilesError``.

    ``records`` has an empty file ``APPLICATION/NAME`` for each marker. In a directory that other users may change,
    only recorded markers count, because these users may have renamed files. zc.zkdeployment had no records:
    without the directory ``records``, all present markers count, and the first write records them.
    """

    def __init__(self, etc: Path, records: Path) -> None:
        self._etc = etc
        self._records = records
        self._reported: set[str] = set()

    def read(self, software: Software) -> Iterator[Marker]:
        """Yield the markers of all applications; log each ignored file with a marker's name once."""
        for application in package_directories(self._etc):
            yield from self._read(application, software)

    def _read(self, application: str, software: Software) -> Iterator[Marker]:
        directory = self._etc / application
        with converting_errors("read", directory):
            names, unsafe = _files(directory)
            if not names and not unsafe:
                return
            is_safe = foreign_part(directory, self._etc.parent) is None
            if not is_safe and self._records.is_dir():
                unsafe += [name for name in names if not (self._records / application / name).exists()]
                names = [name for name in names if name not in unsafe]
            ours, foreign = read(directory, names, software if is_safe else None)
        self._report(directory, foreign if is_safe else (), _FOREIGN)
        self._report(directory, unsafe if is_safe else [*unsafe, *foreign], _UNSAFE)
        yield from ours

    def write(self, marker: Marker) -> None:
        """Write the ``.deployed`` file of a deployment, then remove the other ``files`` of the marker."""
        name = marker.deployment.marker_name
        file = self._file(marker.application, name)
        with converting_errors("write", file):
            self._record(marker.application, name)
            durable.replace(file, encode(marker))
        self._remove_files(marker.application, [stale for stale in marker.files if stale != name])

    def _record(self, application: str, name: str) -> None:
        if not self._records.is_dir():
            self._record_present_markers()
        record = self._records / application / name
        record.parent.mkdir(parents=True, exist_ok=True)
        if not record.exists():
            durable.replace(record, b"")

    def _record_present_markers(self) -> None:
        new = self._records.with_name(f".{self._records.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for marker in self.read(Software.of((), ())):
            (new / marker.application).mkdir(exist_ok=True)
            for name in marker.files:
                (new / marker.application / name).touch()
        new.rename(self._records)

    def remove(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        """Remove the ``.deployed`` file of a deployment and its ``files``, as far as the script left them."""
        if (self._etc / checked_name(NameKind.PACKAGE, application)).is_dir():
            self._remove_files(application, {deployment.marker_name, *files})

    def _remove_files(self, application: str, names: Collection[str]) -> None:
        # The .script files are removed first: without its .deployed file, a .script file is not a marker and would
        # stay for ever.
        for name in sorted(names, key=lambda name: (not name.endswith(".script"), name)):
            file = self._file(application, name)
            with converting_errors("remove", file):
                durable.remove(file)
                (self._records / application / name).unlink(missing_ok=True)

    def _file(self, application: str, name: str) -> Path:
        if deployment_of(name) is None:
            raise HostFilesError(f"{name!a} is not the name of a marker file")
        return self._etc / checked_name(NameKind.PACKAGE, application) / name

    def _report(self, directory: Path, names: Iterable[str], reason: str) -> None:
        for file in (str(directory / name) for name in names if deployment_of(name) is not None):
            if file not in self._reported:
                self._reported.add(file)
                get_logger().warning("marker-ignored", file=file, reason=reason)


def _files(directory: Path) -> tuple[list[str], list[str]]:
    """Return the names of files in a directory, and of those that other users may change."""
    names: tuple[list[str], list[str]] = ([], [])
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                names[not is_ours(entry.stat(follow_symlinks=False))].append(entry.name)
    return names
