"""Snapshots of the repository of an operating system: one directory for each release, with advisories."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from support.hosts.packages import AvailablePackage
from support.hosts.repositories import publish_modules
from support.hosts.rpms import made_once

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW, BROKEN = "2026-10-16", "2026-11-20", "2026-12-18"

#: A release whose kernel needs much space in /boot, whose tool requires a module, and which replaces bash.
IMPOSSIBLE = "2027-01-15"

KERNEL = "installonlypkg(kernel)"

SNAPSHOTS = {
    OLD: (
        AvailablePackage(name="bash", version="5.1"),
        AvailablePackage(name="tool", version="1.0"),
        AvailablePackage(name="kernel-core", version="5.14.1", provides=(KERNEL,), directory="kernel-1"),
        AvailablePackage(name="postgresql-server", version="15.0"),
        AvailablePackage(name="app", version="1.0", script=True),
        AvailablePackage(name="former", version="1.0"),
    ),
    NEW: (
        AvailablePackage(name="bash", version="5.2"),
        AvailablePackage(name="tool", version="1.0.5"),
        AvailablePackage(name="tool", version="1.1", requires={"part": "1.0"}),
        AvailablePackage(name="part", version="1.0"),
        AvailablePackage(name="kernel-core", version="5.14.2", provides=(KERNEL,), directory="kernel-2"),
        AvailablePackage(name="postgresql-server", version="15.1"),
        AvailablePackage(name="app", version="2.0", script=True),
        AvailablePackage(name="successor", version="2.0", obsoletes=("former < 2",)),
    ),
    BROKEN: (AvailablePackage(name="bash", version="5.3", fails="pre"),),
    IMPOSSIBLE: (
        AvailablePackage(
            name="kernel-core", version="5.14.3", provides=(KERNEL,), directory="kernel-3", image=4 << 20
        ),
        AvailablePackage(name="tool", version="1.2", requires={"part": "2.0"}),
        AvailablePackage(name="part", version="2.0"),
        AvailablePackage(name="shell", version="1.0", obsoletes=("bash",)),
    ),
}

#: The advisory of the release ``NEW``, which also has a later build than the one that fixes the problem.
_ADVISORY = """\
<?xml version="1.0" encoding="UTF-8"?>
<updates><update from="security@example.com" status="final" type="security" version="1">
<id>EX-2026:1</id><title>tool</title><severity>Important</severity><issued date="2026-11-19"/>
<pkglist><collection short="x"><name>x</name>
<package name="tool" version="1.0.5" release="1" epoch="0" arch="noarch" src="tool.src.rpm">
<filename>tool-1.0.5-1.noarch.rpm</filename></package>
</collection></pkglist></update></updates>
"""


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with one repository for each release."""

    def make(directory: Path) -> None:
        for release, offers in SNAPSHOTS.items():
            place = directory / release
            place.mkdir(parents=True)
            for offer in offers:
                offer.build(place)
            subprocess.run(["createrepo_c", "-q", place], check=True)
        publish_modules(directory / IMPOSSIBLE, "part-0:2.0-1.noarch")
        advisory = directory / "updateinfo.xml"
        advisory.write_text(_ADVISORY, encoding="utf-8")
        subprocess.run(
            ["modifyrepo_c", advisory, directory / NEW / "repodata"], check=True, stdout=subprocess.DEVNULL
        )

    return made_once(tmp_path_factory, "snapshots", make)


def definition(snapshots: Path) -> str:
    """Return the definition of the repository of the release of a host."""
    return f"[os]\nname=os\nbaseurl={snapshots.as_uri()}/$release/\ngpgcheck=0\nenabled=1\n"
