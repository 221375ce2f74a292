"""Real repositories for checks of packages before a publication: metadata of packages without files."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from support.hosts.rpms import made_once
from zkdeployment.agent.packages.command import NamedRepositories
from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
from zkdeployment.base.machine import process
from zkdeployment.sandbox.repositories import build_packages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The packages: full names, and what each requires, conflicts with, obsoletes or provides.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "shop-0:1.0-1.noarch": (),
    "shop-0:1.1-1.noarch": ("Requires: lib >= 2",),
    "shop-0:1.2-1.noarch": ("Conflicts: legacy",),
    "shop-0:1.3-1.noarch": ("Requires: /usr/bin/tool",),
    "shop-1:0.9-2.noarch": (),
    "shop-0:1.5-1.noarch": ("Requires: libshop.so.1",),
    "shop-0:1.6-1.noarch": ("Requires: vendor-api >= 3", "Requires: (other-api or more-api)"),
    "shop-0:1.7-1.noarch": ("Requires: vendor-api >= 3", "Conflicts: legacy"),
    "lib-0:1.0-1.noarch": ("Provides: libshop.so.1",),
    "lib-0:2.0-1.noarch": ("Provides: libshop.so.2",),
    "legacy-0:1.0-1.noarch": (),
    "addon-0:1.0-1.noarch": ("Requires: shop < 1.1",),
    "fix-0:7-1.noarch": (),
    "tool-0:2.0-1.noarch": ("Provides: /usr/bin/tool",),
    "shop-1.4-0:1-1.noarch": (),
    "chip-0:1.0-1.aarch64": (),
    "twin-0:1.0-1.x86_64": (),
    "twin-0:1.0-1.i686": (),
    "twin-0:1.1-1.x86_64": (),
    "twin-0:1.1-1.i686": (),
    "emulator-0:1.0-1.noarch": ("Requires: twin(x86-32)",),
    "kmod-0:1.0-1.x86_64": ("Provides: installonlypkg(kernel-module)",),
    "kmod-0:1.1-1.x86_64": ("Provides: installonlypkg(kernel-module)",),
    "driver-0:1.1-1.noarch": ("Requires: kmod = 1.1", "Requires: oldmod"),
    "oldmod-0:1-1.noarch": ("Requires: kmod = 1.0",),
}

_SPEC = """\
Name: {name}
Epoch: {epoch}
Version: {version}
Release: {release}
Summary: A package for tests
License: MIT
AutoReqProv: no
{relations}
%description
A package for tests.
%files
"""


class PaperRepository:
    """A repository in ``directory`` with packages that ``built`` has; ``publish`` and ``withdraw`` change it."""

    def __init__(self, directory: Path, built: Path) -> None:
        self.directory = directory
        self._built = built
        directory.mkdir()
        self._index()

    @property
    def url(self) -> str:
        """The address of the repository."""
        return self.directory.as_uri()

    def publish(self, *names: str) -> None:
        """Add packages by their full names."""
        for name in names:
            shutil.copy(self._built / f"{name}.rpm", self.directory)
        self._index()

    def withdraw(self, *names: str) -> None:
        """Remove packages by their full names."""
        for name in names:
            (self.directory / f"{name}.rpm").unlink()
        self._index()

    def leave(self) -> None:
        """Make the repository unreachable."""
        self.directory.rename(self.directory.with_name(f"{self.directory.name}-away"))

    def come_back(self) -> None:
        """Make the repository reachable again."""
        self.directory.with_name(f"{self.directory.name}-away").rename(self.directory)

    def _index(self) -> None:
        process.run(["createrepo_c", "-q", "--no-database", str(self.directory)]).check()


#: The metadata of the module stream tools:2 with one package.
_MODULES = """\
document: modulemd
version: 2
data:
  name: tools
  stream: "2"
  version: 1
  context: c0ffee
  arch: noarch
  summary: Tools
  description: Tools
  license: {{module: [MIT]}}
  artifacts: {{rpms: ["{artifact}"]}}
"""


def publish_modules(directory: Path, artifact: str) -> None:
    """Put a package of a repository into the module stream tools:2."""
    modules = directory / "modules.yaml"
    modules.write_text(_MODULES.format(artifact=artifact), encoding="utf-8")
    process.run(["modifyrepo_c", "--mdtype=modules", str(modules), str(directory / "repodata")]).check()


@pytest.fixture(scope="session")
def built_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all ``PACKAGES``, built."""
    return made_once(tmp_path_factory, "paper", _build)


def _build(directory: Path) -> None:
    directory.mkdir()
    for nevra, relations in PACKAGES.items():
        name, _, rest = nevra.rpartition(":")[0].rpartition("-")[0], "", nevra.rpartition(":")[2]
        epoch = nevra.rpartition(":")[0].rpartition("-")[2]
        version, _, release = rest.rpartition(".")[0].partition("-")
        arch = rest.rpartition(".")[2]
        lines = [*relations, "BuildArch: noarch"] if arch == "noarch" else relations
        spec = directory / "package.spec"
        spec.write_text(
            _SPEC.format(name=name, epoch=epoch, version=version, release=release, relations="\n".join(lines)),
            encoding="utf-8",
        )
        target = {} if arch == "noarch" else {"_target_cpu": arch, "_arch": arch}
        if arch == "i686":
            target["_isa"] = "(x86-32)"
        (built,) = build_packages(spec, directory / "new", target)
        built.rename(directory / f"{nevra}.rpm")


@pytest.fixture
def paper_repository(tmp_path: Path, built_packages: Path) -> PaperRepository:
    """A repository with shop 1.0."""
    repository = PaperRepository(tmp_path / "rpms", built_packages)
    repository.publish("shop-0:1.0-1.noarch")
    return repository


def reader(directory: Path, *configured: str) -> DnfHostRepositories:
    """Return a reader of repositories with a cache in ``directory``."""
    return DnfHostRepositories(directory / "cache", NamedRepositories(configured), patience=5)
