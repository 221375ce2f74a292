"""Measures changing ten packages through the port, against bare dnf and against one package after another.

A signed repository has ten small packages in two versions, and each method has a scratch root. Each round changes
the ten packages in each root by another method: read, prepare, commit and verify through the port; one bare dnf
transaction; two bare calls of dnf, of which the first only downloads and tests; and ``list``, ``clean all`` and
``install`` for every package.

The two calls are the lower bound of a safe change that starts dnf twice: packages that nobody requested are
noticed between them, before anything on the host changes.

Updates of the operating system go to and from a release, in turns: by the agent, which tests the transaction,
fetches the files that a rollback needs, and counts advisories, and by one ``dnf distro-sync``.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import Result, Scale, middle, seconds
from support.hosts.packages import AvailablePackage
from zkdeployment.agent.packages.command import find_program
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.machine import process
from zkdeployment.base.plan import PackageChange
from zkdeployment.base.system import SystemChange
from zkdeployment.sandbox.repositories import RpmRepository, build_packages

NAMES = [f"package{number}" for number in range(10)]


def publish(directory):
    """Build and publish the packages; return the directory of the .repo file."""
    repository = RpmRepository(directory / "repository")
    repository.create()
    repository.add(
        [
            AvailablePackage(name=name, version=version).build(directory)
            for name in NAMES
            for version in ("1.0", "2.0")
        ]
    )
    return repository.definitions


class Port:
    """Changes packages through the package port of this project."""

    def __init__(self, root, definitions) -> None:
        self.manager = Dnf(root, (str(definitions),))

    def change(self, version):
        """Bring all packages to a version."""
        want = dict.fromkeys(NAMES, version)
        self.manager.commit(self.manager.prepare(PackageChange(want=want, managed=frozenset(want))))


class Bare:
    """Changes all packages with one call of dnf."""

    def __init__(self, root, definitions) -> None:
        program = find_program()
        isolated = ["--use-host-config", "--no-plugins"] if program.generation == 5 else ["--noplugins"]
        self.argv = [
            str(program.path),
            "-y",
            "-q",
            *isolated,
            f"--installroot={root}",
            f"--setopt=reposdir={definitions}",
            "--releasever=1",
        ]
        home = root.parent / "home"
        home.mkdir(exist_ok=True)
        (home / ".rpmmacros").write_text("%_dbpath /var/lib/rpm\n")
        self.env = {**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8"}

    def dnf(self, *arguments):
        """Call dnf."""
        return process.run([*self.argv, *arguments], env=self.env)

    def change(self, version):
        """Bring all packages to a version."""
        self.dnf("--refresh", "install", *(f"{name}-{version}" for name in NAMES)).check()


class Tested(Bare):
    """Downloads all packages and tests the transaction with one call of dnf, and changes them with another."""

    def change(self, version):
        """Bring all packages to a version."""
        specs = [f"{name}-{version}" for name in NAMES]
        self.dnf("--refresh", "--setopt=keepcache=1", "--setopt=tsflags=test", "install", *specs).check()
        self.dnf("--cacheonly", "install", *specs).check()


class OneByOne(Bare):
    """Changes each package with three calls of dnf."""

    def change(self, version):
        """Bring all packages to a version."""
        for name in NAMES:
            self.dnf("list", "--installed", name)
            self.dnf("clean", "all").check()
            self.dnf("install", f"{name}-{version}").check()


RELEASES = ("1.0", "2.0")

_SYSTEM = """\
Name: system
Version: {version}
Release: 1
Summary: For benchmarks
License: MIT
BuildArch: noarch
AutoReqProv: no
%define _binary_payload w0.gzdio
%description
For benchmarks.
%install
for name in {names}; do
    mkdir -p %{{buildroot}}/opt/$name
    for part in 1 2 3 4 5 6 7 8 9 10; do head -c 30000 /dev/urandom >%{{buildroot}}/opt/$name/$part; done
done
"""

_PART = """\
%package -n {name}
Summary: For benchmarks
AutoReqProv: no
%description -n {name}
For benchmarks.
%files -n {name}
/opt/{name}
"""


def publish_releases(directory, names):
    """Build the packages of each release, of 300 kB each; return the directory of the .repo file."""
    for version in RELEASES:
        spec = directory / f"{version}.spec"
        parts = "".join(_PART.format(name=name) for name in names)
        spec.write_text(_SYSTEM.format(version=version, names=" ".join(names)) + parts)
        build_packages(spec, directory / version)
        subprocess.run(["createrepo_c", "-q", directory / version], check=True)
    definitions = directory / "definitions"
    definitions.mkdir()
    text = f"[os]\nname=os\nbaseurl={directory.as_uri()}/$release/\ngpgcheck=0\n"
    (definitions / "os.repo").write_text(text)
    return definitions


class BareUpdate(Bare):
    """Updates all packages of a host with one call of dnf."""

    def __init__(self, root, definitions) -> None:
        super().__init__(root, definitions)
        self.root = root
        self.keep("1.0")
        files = sorted((definitions.parent / "1.0").glob("*.rpm"))
        install = ["rpm", "--root", str(root), "--dbpath", "/var/lib/rpm", "-i", *map(str, files)]
        process.run(install, env=self.env).check()

    def keep(self, release):
        """Give dnf's variable a value."""
        variables = self.root / "etc/dnf/vars"
        variables.mkdir(parents=True, exist_ok=True)
        (variables / "release").write_text(f"{release}\n")

    def change(self, release):
        """Bring all packages to a release."""
        self.keep(release)
        self.dnf("--refresh", f"--setopt=varsdir={self.root}/etc/dnf/vars", "distro-sync").check()


class Update(BareUpdate):
    """Updates all packages of a host as the agent does."""

    def __init__(self, root, definitions) -> None:
        super().__init__(root, definitions)
        self.manager = Dnf(root, (str(definitions),))

    def change(self, release):
        """Bring all packages to a release."""
        self.manager.commit(self.manager.prepare_system(SystemChange(release, "all")))
        self.manager.missing_advisories(release)


def measure(scale: Scale) -> Iterator[Result]:
    """Measure changes of the packages of services, and updates of the operating system."""
    yield from measure_packages(scale)
    yield from measure_updates(scale)


def measure_updates(scale: Scale) -> Iterator[Result]:
    """Update the operating system by each method in every round."""
    names = [f"part{number}" for number in range(min(100, scale.large // 50))]
    with tempfile.TemporaryDirectory() as scratch:
        definitions = publish_releases(Path(scratch), names)
        ways = {}
        for kind in (Update, BareUpdate):
            root = Path(scratch) / kind.__name__ / "root"
            root.mkdir(parents=True)
            ways[kind] = kind(root, definitions)
        times = {kind: [] for kind in ways}
        for number in range(scale.rounds):
            for kind, way in ways.items():
                release = RELEASES[(number + 1) % 2]
                times[kind].append(seconds(lambda way=way, release=release: way.change(release)))
    yield Result(
        work="operating system updated by the agent",
        size=f"{len(names)} packages",
        value=middle(times[Update]),
        against="one bare dnf distro-sync",
        reference=middle(times[BareUpdate]),
        at_most=1.3,
    )


def measure_packages(scale: Scale) -> Iterator[Result]:
    """Change ten packages by each method in every round."""
    with tempfile.TemporaryDirectory() as scratch:
        definitions = publish(Path(scratch))
        ways = {}
        for kind in (Port, Bare, Tested, OneByOne):
            root = Path(scratch) / kind.__name__
            root.mkdir()
            ways[kind] = kind(root, definitions)
            ways[kind].change("1.0")
        times = {kind: [] for kind in ways}
        for number in range(scale.rounds):
            for kind, way in ways.items():
                times[kind].append(seconds(lambda way=way, number=number: way.change(("2.0", "1.0")[number % 2])))
    work, size, ours = "packages changed through the port", f"{len(NAMES)} packages", middle(times[Port])
    for against, kind, at_most in (
        ("one bare dnf transaction", Bare, 1.4),
        ("two bare calls, test and transaction", Tested, 1.0),
    ):
        reference = middle(times[kind])
        yield Result(work=work, size=size, value=ours, against=against, reference=reference, at_most=at_most)
    yield Result(
        work=work, size=size, value=ours, against="dnf one by one", reference=middle(times[OneByOne]), at_least=0
    )
