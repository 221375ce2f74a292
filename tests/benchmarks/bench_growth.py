"""Measures how the time of work grows with the nodes of a tree and with the hosts of a fleet.

The exponent is the slope of the times over the sizes, both on logarithmic scales: 1 means linear growth, 0 no
growth. Each size has a server of its own.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from benchmarks.bench_publish import Side, running_server
from benchmarks.fleets import FleetRepository
from benchmarks.results import Result, Scale, best, seconds
from screenshots.scenes import Plot, Scene
from support.fleets.written import WrittenFleet
from support.service import running_service
from support.waiting import wait_until
from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from support.service import RunningService

#: The nodes of the generated trees for each host.
_NODES = 5

#: The highest exponents: growth that is linear apart from what the measurement varies, and nearly none.
_LINEAR, _FLAT = 1.1, 0.6

_IMPORT, _CHANGE, _PLAN = "full import", "one property changed, syncer running", "plan of one changed property"
_STATUS, _PAGE = "status: read and computed", "page of the fleet"
_AIMS = {_IMPORT: _LINEAR, _CHANGE: _FLAT, _PLAN: _FLAT, _STATUS: _LINEAR, _PAGE: _LINEAR}


def measure(scale: Scale) -> Iterator[Result]:
    """Measure trees and fleets of all sizes, and the exponents."""
    yield from _grown(scale.grown_nodes, "nodes", partial(_publishing, rounds=scale.rounds))
    yield from _grown(scale.grown_hosts, "hosts", partial(_showing, rounds=scale.rounds))


def _grown(sizes: tuple[int, ...], unit: str, measured: Callable[[int], Mapping[str, float]]) -> Iterator[Result]:
    times: dict[str, list[float]] = {}
    for size in sizes:
        for work, value in measured(size).items():
            times.setdefault(work, []).append(value)
            yield Result(work=work, size=f"{size:,} {unit}", value=value)
    for work, values in times.items():
        yield Result(
            work=f"{work}: exponent",
            size=f"{sizes[0]:,} to {sizes[-1]:,} {unit}",
            value=_exponent(sizes, values),
            unit="",
            against="linear growth",
            reference=1.0,
            at_most=_AIMS[work],
        )


def _exponent(sizes: tuple[int, ...], values: list[float]) -> float:
    return statistics.linear_regression([*map(log, sizes)], [*map(log, values)]).slope


def _publishing(nodes: int, *, rounds: int) -> dict[str, float]:
    """Return the seconds of an import into an empty tree, of a change, and of the plan of a change."""
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        repository = FleetRepository(Path(scratch) / "repository", max(1, nodes // _NODES))
        repository.push()
        side = Side(server, "grown", repository, Path(scratch))
        whole = seconds(side.syncer.sync)
        changes, plans = [], []
        for _ in range(rounds * 2):
            repository.push()
            side.source.update()
            plans.append(seconds(side.syncer.preview))
            changes.append(side.change(side.syncer))
        side.session.close()
    return {_IMPORT: whole, _CHANGE: best(changes), _PLAN: best(plans)}


def _showing(hosts: int, *, rounds: int) -> dict[str, float]:
    """Return the seconds of ``status`` and of the front page of the service during a rollout."""
    plot = Plot(hosts, Scene.ROLLING, time.time())
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_server(Path(scratch)) as server,
        WrittenFleet(server.address) as fleet,
    ):
        plot.write(fleet)
        known = len(plot.hosts())
        with Session(server.address) as session:
            statuses = [seconds(partial(_status, session)) for _ in range(rounds)]
        with running_service(server.address) as service:
            wait_until(lambda: _known_hosts(service) == known, "the service has read the fleet")
            login = service.add_user(Role.VIEWER)
            pages = [seconds(partial(_page, service.url, login)) for _ in range(rounds * 2)]
    return {_STATUS: best(statuses), _PAGE: best(pages)}


def _status(session: Session) -> object:
    fleet = ZooKeeperFleetReader(session)
    snapshot = fleet.snapshot()
    return fleet_status(snapshot, syncer=fleet.syncer_report(), services=fleet.services(snapshot))


def _page(url: str, login: tuple[str, str]) -> None:
    httpx.get(f"{url}/", auth=login, timeout=None).raise_for_status()


def _known_hosts(service: RunningService) -> int:
    """Return the number of hosts that the service has read."""
    try:
        return len(service.adapters.feed.snapshot().fleet.hosts)
    except UnreachableError:
        return 0
