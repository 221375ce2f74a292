"""What changing ten packages costs through the port, against bare dnf and against one package after another.

Run it as ``python tests/benchmarks/bench_packages.py [ROUNDS]``, as root. It builds a signed repository of ten
small packages in two versions and keeps three scratch roots. Each round changes the ten packages in all of them,
one way after the other: read, prepare, commit and verify through the port; one bare dnf transaction; and ``list``,
``clean all`` and ``install`` for every package. The table shows medians, and medians of the rounds' ratios.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.offers import Offer
from zkdeployment import log
from zkdeployment.adapters import process
from zkdeployment.adapters.packages.dnf import Dnf
from zkdeployment.model.plan import PackageChange
from zkdeployment.sandbox.rpms import Repository

NAMES = [f"package{number}" for number in range(10)]


def publish(directory):
    """Build and publish the packages; return the directory of the .repo file."""
    repository = Repository(directory / "repository")
    repository.create()
    repository.add(
        [Offer(name=name, version=version).build(directory) for name in NAMES for version in ("1.0", "2.0")]
    )
    return repository.definitions


class Port:
    """The package manager of this project."""

    def __init__(self, root, definitions) -> None:
        self.manager = Dnf(root, (str(definitions),))

    def change(self, version):
        """Bring all packages to a version."""
        want = dict.fromkeys(NAMES, version)
        self.manager.commit(self.manager.prepare(PackageChange(want=want, managed=frozenset(want))))


class Bare:
    """One call of dnf for all packages."""

    def __init__(self, root, definitions) -> None:
        self.argv = [
            "dnf",
            "-y",
            "-q",
            f"--installroot={root}",
            f"--setopt=reposdir={definitions}",
            "--releasever=1",
        ]
        home = root.parent / "home"
        home.mkdir(exist_ok=True)
        (home / ".rpmmacros").write_text("%_dbpath /var/lib/rpm\n")
        self.env = {**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8"}

    def dnf(self, *words):
        """Call dnf."""
        return process.run([*self.argv, "--noplugins", *words], env=self.env)

    def change(self, version):
        """Bring all packages to a version."""
        self.dnf("--refresh", "install", *(f"{name}-{version}" for name in NAMES)).check()


class OneByOne(Bare):
    """Three calls of dnf for each package."""

    def change(self, version):
        """Bring all packages to a version."""
        for name in NAMES:
            self.dnf("list", "installed", name)
            self.dnf("clean", "all").check()
            self.dnf("install", f"{name}-{version}").check()


def write(line):
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def measure(way, version):
    """Return the seconds for one change."""
    start = time.perf_counter()
    way.change(version)
    return time.perf_counter() - start


def main():
    """Measure and print the table."""
    log.configure()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as scratch:
        definitions = publish(Path(scratch))
        ways = {}
        for kind in (Port, Bare, OneByOne):
            root = Path(scratch) / kind.__name__
            root.mkdir()
            ways[kind.__name__] = kind(root, definitions)
            ways[kind.__name__].change("1.0")
        times = {name: [] for name in ways}
        for number in range(rounds):
            for name, way in ways.items():
                times[name].append(measure(way, ("2.0", "1.0")[number % 2]))
    write(f"{'ten packages changed':<28}{'seconds':>10}{'x bare dnf':>12}")
    for name, label in (
        ("Bare", "one bare dnf transaction"),
        ("Port", "through the port"),
        ("OneByOne", "one by one"),
    ):
        ratio = statistics.median(one / bare for one, bare in zip(times[name], times["Bare"], strict=True))
        write(f"{label:<28}{statistics.median(times[name]):>10.3f}{ratio:>12.2f}")
    ratio = statistics.median(slow / port for slow, port in zip(times["OneByOne"], times["Port"], strict=True))
    write(f"through the port is {ratio:.1f} times faster than one by one")


if __name__ == "__main__":
    main()
