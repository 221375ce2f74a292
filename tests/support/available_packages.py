"""Packages that repositories of tests provide, as values for the fake package manager and as real RPM files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.base.inventory import Package
from zkdeployment.sandbox.repositories import build_packages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SPEC = """\
Name: {name}
Version: {version}
Release: {release}
{tags}
Summary: A package for tests
License: MIT
BuildArch: noarch
# There is no shell in a test's root.
AutoReqProv: no
%description
A package for tests.
%install
mkdir -p %{{buildroot}}/opt/{directory}
{script}
echo {version} > %{{buildroot}}/opt/{directory}/version
%files
/opt/{directory}
{scriptlets}
"""

_SCRIPT = """\
mkdir -p %{{buildroot}}/opt/{name}/bin
echo deploy {version} > %{{buildroot}}/opt/{name}/bin/zookeeper-deploy
chmod 755 %{{buildroot}}/opt/{name}/bin/zookeeper-deploy
"""

#: A scriptlet that creates a file when it starts, then sleeps.
_SLOW = """\
%pre -p <lua>
io.open("/scriptlet-runs", "w"):close()
posix.sleep(1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailablePackage:
    """A package in a repository.

    ``requires`` maps names to versions (``None``: any). ``signature`` is ``good``, ``none`` or ``foreign``.
    ``directory`` is its name under ``/opt`` if this differs from the package's name. With ``script`` the package
    has a deploy script.
    """

    name: str
    version: str
    release: str = "1"
    epoch: int = 0
    requires: Mapping[str, str | None] = field(default_factory=dict)
    provides: tuple[str, ...] = ()
    obsoletes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    pre_fails: bool = False
    post_fails: bool = False
    slow: bool = False
    directory: str | None = None
    script: bool = False
    signature: str = "good"

    @property
    def package(self) -> Package:
        """The installed package."""
        return Package(self.name, self.epoch, self.version, self.release, "noarch")

    def build(self, directory: Path) -> Path:
        """Build the package and return the unsigned RPM file."""
        tags = [f"Epoch: {self.epoch}"] if self.epoch else []
        tags += [f"Requires: {name} = {version}" if version else f"Requires: {name}"
                 for name, version in self.requires.items()]  # fmt: skip
        tags += [f"Provides: {name}" for name in self.provides]
        tags += [f"Obsoletes: {name}" for name in self.obsoletes]
        tags += [f"Conflicts: {name}" for name in self.conflicts]
        scriptlets = [_SLOW] if self.slow else []
        if self.pre_fails:
            scriptlets.append('%pre -p <lua>\nerror("the disk is on fire")\n')
        if self.post_fails:
            scriptlets.append('%post -p <lua>\nerror("the disk is on fire")\n')
        spec = directory / f"{self.package.nevra}.spec"
        text = _SPEC.format(
            name=self.name,
            directory=self.directory or self.name,
            version=self.version,
            release=self.release,
            script=_SCRIPT.format(name=self.name, version=self.version) if self.script else "",
            tags="\n".join(tags) or "# no more tags",
            scriptlets="\n".join(scriptlets),
        )
        spec.write_text(text, encoding="utf-8")
        (file,) = build_packages(spec, directory)
        return file


#: The packages in the repository of the package managers' tests.
CATALOGUE = (
    AvailablePackage(name="foo", version="1.0"),
    AvailablePackage(name="foo", version="1.1"),
    AvailablePackage(name="foo", version="1.4"),
    AvailablePackage(name="foo", version="1.4", release="2"),
    AvailablePackage(name="foo-1.1", version="5.0"),
    AvailablePackage(name="foo-patch", version="3"),
    AvailablePackage(name="bar", version="1.0"),
    AvailablePackage(name="bar", version="2.0"),
    AvailablePackage(name="epochal", version="1.0", epoch=1, script=True),
    AvailablePackage(name="service", version="1.0", script=True),
    AvailablePackage(name="service", version="2.0", script=True),
    AvailablePackage(name="library", version="1.0"),
    AvailablePackage(name="library", version="2.0"),
    AvailablePackage(name="reader", version="1.0", requires={"library": "1.0"}),
    AvailablePackage(name="reader", version="2.0", requires={"library": "2.0"}),
    AvailablePackage(name="lonely", version="1.0", requires={"nobody-has-this": None}),
    AvailablePackage(name="pretender", version="1.0", provides=("foo = 7.7", "nickname")),
    AvailablePackage(name="successor", version="1.0", obsoletes=("bar",)),
    AvailablePackage(name="rival", version="1.0", conflicts=("foo",)),
    AvailablePackage(name="first-aid", version="1.0", pre_fails=True),
    AvailablePackage(name="last-aid", version="1.0"),
    AvailablePackage(name="last-aid", version="2.0", post_fails=True),
    AvailablePackage(name="slow", version="1.0", slow=True),
    AvailablePackage(name="squatter", version="2.0", directory="foo"),
    AvailablePackage(name="unsigned", version="1.0", signature="none"),
    AvailablePackage(name="foreign", version="1.0", signature="foreign"),
)
