import pytest

from zkdeployment.agent.rules.waiting import (
    OrderProgress,
    is_finished,
    order_wait,
    reading_interval,
    with_restarting,
)
from zkdeployment.base.publication import OrderEntry


def progress(finished=(), registered=("a", "b", "c"), gaining=(), absent=(), **more):
    return OrderProgress(
        OrderEntry(("a", "b", "c"), tuple(gaining), tuple(absent)),
        frozenset(finished),
        frozenset(registered),
        **more,
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


def test_a_deployment_waits_for_at_least_one_host_if_one_was_registered_at_the_publication():
    assert order_wait("/db", progress(registered=["w"], absent=["a"]), gaining=False).missing == ("b", "c")
    assert not order_wait("/db", progress(["b"], registered=["w"], absent=["a"]), gaining=False)
    assert not order_wait("/db", progress(registered=["w"], absent=["a", "b", "c"]), gaining=False)


def test_an_entry_is_finished_only_by_its_hosts_not_by_their_absence():
    assert not is_finished(progress(["a"], registered=["a"]))
    assert is_finished(progress(["a", "b", "c"], registered=[]))


def test_a_host_that_was_registered_is_awaited_for_the_time_of_a_restart():
    restarting, absent = with_restarting(progress(["b"], registered=["b"], absent=["a"]), None, {}, 100.0)
    assert absent == {"c": 100.0}, "a host that was absent at the publication is not awaited"
    assert order_wait("/db", restarting, gaining=False).missing == ("c",)
    still, absent = with_restarting(progress(["b"], registered=["b"]), restarting, absent, 159.0)
    assert order_wait("/db", still, gaining=False).missing == ("c",)
    gone, absent = with_restarting(progress(["b"], registered=["b"]), still, absent, 160.0)
    assert (absent, order_wait("/db", gone, gaining=False).missing) == ({}, ())
    again, absent = with_restarting(progress(["b"], registered=["b"]), gone, absent, 161.0)
    assert not order_wait("/db", again, gaining=False)
    back, absent = with_restarting(progress(["b"], registered=["b", "c"]), again, absent, 170.0)
    assert (absent, order_wait("/db", back, gaining=False).missing) == ({}, ("c",))
    failed = progress(["b"], registered=["b"], failed={"c": "gone"})
    assert with_restarting(failed, back, absent, 171.0)[1] == {}


def test_a_host_that_joined_the_service_and_left_again_is_awaited_for_the_time_of_a_restart():
    before = OrderProgress(OrderEntry(("a",)), registered=frozenset({"a"}))
    joined, absent = with_restarting(progress(["a"], registered=["c"]), before, {}, 100.0)
    assert absent == {"b": 100.0}
    assert order_wait("/db", joined, gaining=False).missing == ("b", "c")


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
