"""Markers: the files in ``/etc/APPLICATION`` that record which deployments a host has.

Ours are JSON in ``A:B.N.deployed`` for instance N of ``/A/B``. Older tools wrote ``A,B.N.deployed``, often empty,
beside ``A,B.N.script`` with the path of the script that they had used.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from zkdeployment.adapters import durable
from zkdeployment.log import get_logger
from zkdeployment.model.deployment import Deployment
from zkdeployment.model.inventory import Marker
from zkdeployment.model.names import Kind, is_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NAME = re.compile(r"(?P<path>.+)\.(?P<number>0|[1-9][0-9]{0,8})\.(?P<kind>deployed|script)")
_SCRIPT = re.compile(r"(?:^|/)opt/(?P<package>[^/]+)/(?:bin/)?zookeeper-deploy$")
_LARGEST = 64 * 1024


def encode(marker: Marker) -> bytes:
    """Return what is written into a marker's file."""
    content = {
        "path": marker.deployment.path,
        "number": marker.deployment.number,
        "package": marker.package,
        "subtype": marker.subtype,
        "script": marker.script,
        "version": marker.version,
    }
    return (json.dumps(content, indent=2) + "\n").encode("ascii")


def read(directory: Path, names: Iterable[str]) -> list[Marker]:
    """Return what the files ``names`` of an application's directory record; other files say nothing.

    Raises ``OSError`` for a file that is there but cannot be read.
    """
    found: dict[Deployment, list[str]] = {}
    for name in sorted(names):
        deployment = deployment_of(name)
        if deployment is not None:
            found.setdefault(deployment, []).append(name)
    return [_read_one(directory, deployment, files) for deployment, files in sorted(found.items())]


def deployment_of(name: str) -> Deployment | None:
    """Return which deployment a file of this name records, or ``None`` if it is no marker."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    separator = "," if "," in match["path"] else ":"
    parts = match["path"].split(separator)
    if not all(is_name(Kind.NODE, part) for part in parts):
        return None
    return Deployment("/" + "/".join(parts), int(match["number"]))


def _read_one(directory: Path, deployment: Deployment, files: list[str]) -> Marker:
    known: dict[str, str] = {}
    script: str | None = None
    for name in files:
        content = durable.read(directory / name, _LARGEST) or b""
        if name.endswith(".script"):
            script = content.decode("utf-8", errors="replace").strip() or None
        else:
            known |= _texts(directory / name, content)
    script = known.get("script") or script
    package = known.get("package")
    if package is None and script is not None and (match := _SCRIPT.search(script)):
        package = match["package"]
    return Marker(
        deployment=deployment,
        application=directory.name,
        package=package if package is not None and is_name(Kind.PACKAGE, package) else None,
        subtype=known.get("subtype"),
        script=script,
        version=known.get("version"),
        files=tuple(files),
    )


def _texts(file: Path, content: bytes) -> dict[str, str]:
    """Return the texts in a marker's JSON; nothing for what older tools wrote, or for a damaged file."""
    if not content.strip():
        return {}
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        get_logger().warning("marker-unknown", file=str(file), reason="not what this agent writes")
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}
