"""Snapshots of the repositories of an operating system: a directory for each release, as ``reposync`` leaves it.

The hosts of a sandbox find the packages of a release with dnf's variable ``release``.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.machine import process
from zkdeployment.base.values import dataclass
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.repositories import RpmRepository, build_packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_REPO_FILE = """\
[os]
name=The operating system, release $release
baseurl={url}/$release/
enabled=1
gpgcheck=1
gpgkey={key}
metadata_expire=1
"""

_ADVISORIES = """\
<?xml version="1.0" encoding="UTF-8"?>
<updates>{advisories}</updates>
"""

_ADVISORY = """
<update from="security@example.com" status="final" type="security" version="1">
<id>{id}</id><title>{name}</title><severity>Important</severity><issued date="{date}"/>
<pkglist><collection short="os"><name>os</name>
<package name="{name}" version="{version}" release="1" epoch="0" arch="noarch" src="{name}.src.rpm">
<filename>{name}-{version}-1.noarch.rpm</filename></package>
</collection></pkglist></update>"""

#: The timeout in seconds of createrepo_c, modifyrepo_c and rpm.
_TIMEOUT = 120.0


class SystemPackage(NamedTuple):
    """A package of an operating system; ``advisory`` is the id of the security advisory that it fixes."""

    name: str
    version: str
    advisory: str = ""

    @property
    def file(self) -> str:
        """The name of the RPM file."""
        return f"{self.name}-{self.version}-1.noarch.rpm"


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshots below ``directory``, one for each release."""

    directory: Path

    def create(self, releases: dict[str, Sequence[SystemPackage]], definitions: Path) -> None:
        """Build and sign the packages of all releases, and define their repository in ``definitions``."""
        vendor = RpmRepository(self.directory / "vendor")
        vendor.create("os-vendor")
        packages = {package for each in releases.values() for package in each}
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            vendor.add([file for package in sorted(packages) for file in _build(package, Path(scratch))])
        for release, content in releases.items():
            place = self.directory / release
            place.mkdir()
            for package in content:
                shutil.copy2(vendor.directory / package.file, place)
            process.run(["createrepo_c", "-q", str(place)], timeout=_TIMEOUT).check()
            self._add_advisories(place, content)
        text = _REPO_FILE.format(url=self.directory.as_uri(), key=vendor.key.as_uri())
        (definitions / "os.repo").write_text(text, encoding="utf-8")

    def install(self, release: str, root: Path) -> None:
        """Install all packages of a release below ``root``, as the installer of a machine does."""
        files = sorted(map(str, (self.directory / release).glob("*.rpm")))
        rpm = ["rpm", "--root", str(root), "--dbpath", "/var/lib/rpm"]
        process.run(
            [*rpm, "--import", str(RpmRepository(self.directory / "vendor").key)], timeout=_TIMEOUT
        ).check()
        process.run([*rpm, "-i", *files], timeout=_TIMEOUT).check()
        variables = root / "etc" / "dnf" / "vars"
        variables.mkdir(parents=True, exist_ok=True)
        (variables / "release").write_text(f"{release}\n", encoding="utf-8")

    def _add_advisories(self, place: Path, packages: Iterable[SystemPackage]) -> None:
        texts = [
            _ADVISORY.format(
                id=package.advisory, name=package.name, version=package.version, date=time.strftime("%Y-%m-%d")
            )
            for package in packages
            if package.advisory
        ]
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            file = Path(scratch) / "updateinfo.xml"
            file.write_text(_ADVISORIES.format(advisories="".join(texts)), encoding="utf-8")
            process.run(["modifyrepo_c", str(file), str(place / "repodata")], timeout=_TIMEOUT).check()


def _build(package: SystemPackage, directory: Path) -> tuple[Path, ...]:
    is_kernel = package.name == "kernel-core"
    definitions = {
        "package_name": package.name,
        "package_version": package.version,
        "package_provides": "installonlypkg(kernel)" if is_kernel else f"{package.name}-sample",
        "package_directory": f"/usr/share/{package.name}" + (f"-{package.version}" if is_kernel else ""),
    }
    return build_packages(samples.SYSTEM_SPEC, directory, definitions)
