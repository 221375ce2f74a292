from zkdeployment.base.act import Act
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.views.snapshot import describe_stops


def failure(number, reason="no foo 1.4"):
    return Stop(f"h{number}", f"app{number}", "r2", "deploy /web 0", reason, 40.0 + number)


def test_hosts_that_fail_in_the_same_way_share_a_sentence():
    operator = Stop.of_operator(Act("ann@adm1", "stop", "it smells", 70.0))
    stops = [failure(1), failure(2, "disk full"), *(failure(number) for number in range(3, 7)), operator]
    assert describe_stops(stops, now=100.0) == [
        "app1 (h1), app3 (h3), app4 (h4) and 2 more failed at deploy /web 0 of r2: no foo 1.4 (59 s ago)",
        "app2 (h2) failed at deploy /web 0 of r2: disk full (58 s ago)",
        "stopped by ann@adm1: it smells (30 s ago)",
    ]
