import pytest

from zkdeployment.model.publication import OrderEntry
from zkdeployment.planning.precedence.progress import OrderProgress, is_finished, order_wait, reading_interval


def progress(finished=(), registered=("a", "b", "c"), gaining=(), **more):
    return OrderProgress(
        OrderEntry(("a", "b", "c"), tuple(gaining)), frozenset(finished), frozenset(registered), **more
    )


def test_a_deployment_waits_for_all_registered_hosts_that_are_expected():
    wait = order_wait("/db", progress(["a"], names={"b": "app2"}), gaining=False)
    assert wait.missing == ("b", "c")
    assert wait.step == "waits for /db on app2 and 1 other host"
    assert not order_wait("/db", progress(["a", "b", "c"]), gaining=False)
    assert not order_wait("/db", progress(["a"], registered=["a"]), gaining=False)


def test_an_undeployment_waits_only_for_the_hosts_that_gain_the_service():
    assert order_wait("/db", progress(gaining=["b"]), gaining=True).missing == ("b",)
    assert not order_wait("/db", progress(["b"], gaining=["b"]), gaining=True)


def test_a_service_is_kept_until_at_least_one_host_that_gains_it_has_it():
    absent = progress(registered=["c"], gaining=["a", "b"])
    assert order_wait("/db", absent, gaining=True).missing == ("a", "b")
    assert not is_finished(absent)
    one = progress(["a"], registered=["c"], gaining=["a", "b"])
    assert not order_wait("/db", one, gaining=True)


def test_when_an_awaited_host_fails_so_does_the_wait():
    failed = progress(["a"], failed={"c": "boom"}, names={"c": "app3"})
    assert order_wait("/db", failed, gaining=False).failure == (
        "/db is not deployed on app3, which this host waits for: boom"
    )
    wait = order_wait("/db", failed, gaining=False, ignores_failures=True)
    assert (wait.missing, wait.failure) == (("b",), "")


@pytest.mark.parametrize(("hosts", "seconds"), [(0, 5), (83, 5), (1000, 60), (5000, 300), (100_000, 300)])
def test_hosts_of_a_large_service_read_its_progress_less_often(hosts, seconds):
    assert reading_interval(hosts) == pytest.approx(seconds, abs=0.1)
