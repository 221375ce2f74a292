import pytest
from rich.console import Console

from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.stop import Stop
from zkdeployment.cli.verbs.status import render_screen
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status

NOW = 10_000.0
RUNNING = Cluster("r2")


def draw(hosts, *, height, width, cluster=RUNNING, trouble="", **more):
    status = fleet_status(FleetSnapshot(cluster, published="r2", hosts=tuple(hosts), **more))
    console = Console(width=width, height=height, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(render_screen(status, height, width, NOW, trouble))
    return captured.get().splitlines()


def host(number, **fields):
    fields.setdefault("version", "r2")
    return Host(Identity(f"h{number:04}", f"app{number:04}.example.com"), since=NOW - 90, **fields)


@pytest.mark.parametrize(("height", "width"), [(24, 80), (10, 40), (60, 200)])
def test_five_thousand_hosts_fit_into_any_terminal(height, width):
    hosts = [host(number) for number in range(4990)]
    hosts += [host(5000, version="r1", deploying="r2", step="deploy /a-long/path/of/a/service 0", steps=(3, 7))]
    hosts += [host(5001, version="r1", error="exit status 1 " * 50)]
    stop = Stop.of_operator(Act("ann@adm1", "stop", "a long reason " * 30, NOW - 60))
    lines = draw(hosts, height=height, width=width, cluster=Cluster(None), stops=(stop,), trouble="x " * 300)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert (
        text.index("stopped by ann@adm1") < text.index("app5001") < text.index("app5000") < text.index("app0000")
    )
    assert "converged" in lines[-2]
    assert lines[-1].startswith("ALL STOP; 4992 hosts")


def test_a_deploying_host_shows_its_step_and_a_bar():
    (row, _, summary) = draw(
        [host(1, version="r1", deploying="r2", step="plan", steps=(1, 2))], height=24, width=100
    )
    assert "deploying" in row
    assert "━" in row
    assert row.rstrip().endswith("1 min     plan")
    assert summary == "1 host: 1 deploying at r2"
