"""Measures the check of packages before a publication: an unchanged repository, and fleets of equal hosts.

The repository has as many packages as a distribution. The metadata is brought up to date for every check; the
reference is dnf that does the same and prints one package. Each host has 300 packages and wants one more.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import Result, Scale, middle, seconds
from zkdeployment.agent.packages.command import NamedRepositories
from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Package
from zkdeployment.base.machine import process
from zkdeployment.fleet.package_check import check_packages

_INSTALLED = 300

_PACKAGE = (
    '<package type="rpm"><name>package{n}</name><arch>noarch</arch><version epoch="0" ver="1.{n}" rel="1"/>'
    '<checksum type="sha256" pkgid="YES">{n:064x}</checksum><summary/><description/><packager/><url/>'
    '<time file="0" build="0"/><size package="0" installed="0" archive="0"/><location href="{n}.rpm"/>'
    '<format><rpm:provides><rpm:entry name="package{n}" flags="EQ" epoch="0" ver="1.{n}" rel="1"/>'
    "</rpm:provides></format></package>"
)


def publish(directory: Path, number: int) -> str:
    """Write the metadata of a repository; return the repository's URL."""
    packages = "".join(_PACKAGE.format(n=one) for one in range(number))
    primary = (
        '<metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm"'
        f' packages="{number}">{packages}</metadata>'
    )
    metadata = directory / "repodata"
    metadata.mkdir(parents=True)
    (metadata / "primary.xml").write_text(primary)
    (metadata / "repomd.xml").write_text(
        '<repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>1</revision><data type="primary">'
        f'<checksum type="sha256">{hashlib.sha256(primary.encode()).hexdigest()}</checksum>'
        '<location href="repodata/primary.xml"/></data></repomd>'
    )
    return directory.as_uri()


def bare(directory: Path, url: str):
    """Return a function that makes dnf bring its metadata up to date and look one package up."""
    root = directory / "bare"
    root.mkdir()
    argv = ["dnf", "-q", f"--installroot={root}", "--setopt=reposdir=/dev/null", f"--repofrompath=bench,{url}"]
    query = [*argv, "--releasever=1", "--noplugins", "--refresh", "repoquery", "--available", "package1"]
    env = {**os.environ, "HOME": str(directory), "LC_ALL": "C.UTF-8"}
    return lambda: process.run(query, env=env).check()


def host(number: int, *, own: bool = False) -> KnownHost:
    """Return a host without package0, with a package of its own if asked for."""
    packages = [Package(f"package{one}", 0, f"1.{one}", "1", "noarch") for one in range(1, _INSTALLED)]
    packages += [Package("own", 0, str(number), "1", "noarch")] if own else []
    return KnownHost(
        Identity(f"h{number}", f"app{number}", "web"),
        Inventory(packages={package.name: (package,) for package in packages}),
    )


def measure(scale: Scale) -> Iterator[Result]:
    """Check one wanted package for no host, one host, many equal hosts and many different ones."""
    number = max(scale.watchers[0], _INSTALLED)
    size = max(scale.large // 5, _INSTALLED)
    targets = {"web": (Assignment("/bench", 1, "package0", "package0", version="1.0"),)}
    fleets = {
        "none": [],
        "one": [host(0)],
        "equal": [host(one) for one in range(number)],
        "different": [host(one, own=True) for one in range(number)],
    }
    with tempfile.TemporaryDirectory() as scratch:
        url = publish(Path(scratch) / "repository", size)
        repositories = DnfHostRepositories(Path(scratch) / "cache", NamedRepositories((url,)))
        looks = {"bare": bare(Path(scratch), url)}
        for name, hosts in fleets.items():
            looks[name] = lambda hosts=hosts: check_packages(repositories, targets, {}, lambda _names: hosts)
        for name in ("bare", "none"):
            looks[name]()  # read the metadata for the first time
        times = {name: [] for name in looks}
        for _ in range(scale.rounds):
            for name, look in looks.items():
                times[name].append(seconds(look))
    work, sized = "package looked up, repository unchanged", f"{size:,} packages"
    yield Result(
        work=work, size=sized, value=middle(times["none"]), against="one second", reference=1.0, at_most=1
    )
    yield Result(
        work=work,
        size=sized,
        value=middle(times["none"]),
        against="bare dnf, repository unchanged",
        reference=middle(times["bare"]),
        at_most=1.5,
    )
    yield Result(
        work="packages of equal hosts checked",
        size=f"{number:,} hosts",
        value=middle(times["equal"]),
        against="packages of one host checked",
        reference=middle(times["one"]),
        at_most=5,
    )
    yield Result(
        work="packages of different hosts checked", size=f"{number:,} hosts", value=middle(times["different"])
    )
