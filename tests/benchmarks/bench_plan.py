"""Measures the plan of an update of the operating system, on hosts with 50 different sets of packages.

The plan is made as by the verb, from what was read: the prediction for each host, and the updates grouped by kind.
The reference is the estimate of each host alone, measured with few hosts in the same run.
"""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.results import Result, Scale, best, seconds
from support.builders import make_package
from zkdeployment.agent.rules.availability import Offers, PackageFindings
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Package
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.system import HostSystem
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.fleet.views.forecast import Prediction, PredictionBasis, predict
from zkdeployment.publishing.rules.review import Review, review
from zkdeployment.system.rules import plan_addition, planned_updates
from zkdeployment.tree.values import LiveTree

_KINDS = 50

#: The packages of a host; the release has newer ones of the first of them.
_PACKAGES = 400
_NEWER = 60

#: The hosts whose updates are estimated alone.
_ALONE = 20

_TREE = "/os\n  /web : system\n    release = '{}'\n    /deploy\n      /web\n"


def measure(scale: Scale) -> Iterator[Result]:
    """Measure the plan of the largest fleet of one server."""
    count = max(scale.carried)
    reviewed, basis, findings = _review("2"), _basis(count), _findings()
    size = f"{count:,} hosts, {_KINDS} kinds of updates"
    planned = _planned(reviewed, basis, findings)
    found = plan_addition(reviewed, basis, planned).value
    assert (found["hosts"], len(found["kinds"])) == (count, min(count, _KINDS))
    rounds = range(scale.rounds)
    grouped = best([seconds(lambda: plan_addition(reviewed, basis, planned)) for _ in rounds])
    whole = best([seconds(lambda: _whole(reviewed, basis, findings)) for _ in rounds])
    alone = seconds(lambda: _each_alone(basis, planned)) / _ALONE
    yield Result(
        work="packages that an update of the system would change",
        size=size,
        value=grouped,
        against="the estimate of each host alone",
        reference=alone * count,
        at_least=5 if count > _KINDS else 0,
    )
    yield Result(
        work="plan of an update of the system",
        size=size,
        value=whole,
        against="two seconds",
        reference=2.0,
        at_most=1,
    )


def _whole(reviewed: Review, basis: PredictionBasis, findings: PackageFindings) -> None:
    plan_addition(reviewed, basis, _planned(reviewed, basis, findings))


def _planned(reviewed: Review, basis: PredictionBasis, findings: PackageFindings) -> Prediction:
    return replace(predict(reviewed, basis, revision="r2", title=""), packages=findings)


def _each_alone(basis: PredictionBasis, planned: Prediction) -> None:
    known = {host.identity.id: host for host in basis.known[:_ALONE]}
    for host in planned.forecast.hosts:
        if host.identity.id in known:
            planned_updates([host], known, planned.packages)


def _review(release: str) -> Review:
    return review([SourceFile("os.zk", _TREE.format(release).encode())])


def _basis(count: int) -> PredictionBasis:
    """Return the fleet; hosts of a kind share their packages, as those of inventories that are read together."""
    kinds = [_packages(kind) for kind in range(_KINDS)]
    system = HostSystem("1", 1, "5.14.1", updated=5.0)
    known = [
        KnownHost(
            Identity(f"h{number}", f"app{number}", "web"),
            Inventory(dict(kinds[number % _KINDS]), installonly=frozenset({"kernel-core"})),
            system=replace(system, updated=600.0 * number),
        )
        for number in range(count)
    ]
    hosts = [Host(each.identity, "r1") for each in known]
    return PredictionBasis(
        Cluster("r1"), hosts, known, LiveTree(_review("1").linted.tree), None, PublishedDocuments()
    )


def _packages(kind: int) -> dict[str, tuple[Package, ...]]:
    """Return packages of which hosts of another kind have one more or one fewer that is not up to date."""
    versions = ((f"lib{number}", "2" if number < kind else "1") for number in range(_PACKAGES))
    return {name: (make_package(name, version, arch="x86_64"),) for name, version in versions}


def _findings() -> PackageFindings:
    offered = {
        f"lib{number}": tuple(make_package(f"lib{number}", version, arch="x86_64") for version in ("1", "2"))
        for number in range(_NEWER)
    }
    security = {name: packages[1:] for name, packages in offered.items() if name.endswith("3")}
    return PackageFindings(releases={("2", "x86_64"): Offers(offered, {}, security=security)})
