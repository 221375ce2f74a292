from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.publication import OrderEntry
from zkdeployment.publishing.rules.precedence import ServiceOrder, service_order

HOSTS = [Identity(name, f"{name}.example") for name in ("a1", "a2", "b1", "b2")] + [Identity("w1", "w1", "web")]


def assignment(path, *after, n=1, last=False):
    return Assignment(path, n, "foo", "foo", version="1", after=after, undeploys_last=last)


def targets(**assigned):
    return {name: tuple(assignments) for name, assignments in assigned.items()}


def entries(before, after, unfinished=None):
    return service_order(before, after, HOSTS, unfinished or {}).entries


def test_no_host_waits_without_the_properties():
    after = targets(a1=[assignment("/db")], web=[assignment("/web")])
    assert service_order({}, after, HOSTS, {}) == ServiceOrder()


def test_all_known_hosts_of_an_awaited_service_are_expected():
    after = targets(
        a1=[assignment("/db")], b1=[assignment("/db", n=0)], web=[assignment("/db"), assignment("/web", "/db")]
    )
    order = service_order(after, after, HOSTS, {})
    assert order.entries == {"/db": OrderEntry(("a1", "w1"))}
    assert order.waiting == {"/db": {("w1", "/web")}}


def test_an_awaited_service_without_hosts_has_an_entry_that_new_hosts_can_join():
    after = targets(absent=[assignment("/db")], a1=[assignment("/web", "/db")])
    assert entries({}, after) == {"/db": OrderEntry()}


def test_hosts_that_lose_a_service_wait_for_those_that_gain_it():
    before = targets(a1=[assignment("/db", last=True)], a2=[assignment("/db", n=2, last=True)])
    after = targets(a2=[assignment("/db", last=True)], b1=[assignment("/db", last=True)])
    order = service_order(before, after, HOSTS, {})
    assert order.entries == {"/db": OrderEntry(("b1",), ("b1",))}
    assert order.waiting == {"/db": {("a1", "/db"), ("a2", "/db")}}


def test_there_is_no_wait_if_no_host_gains_the_service_or_if_it_leaves_the_tree():
    before = targets(a1=[assignment("/db", last=True)], a2=[assignment("/db", last=True)])
    assert entries(before, targets(a2=[assignment("/db", last=True)])) == {}
    assert entries(before, {}) == {}
    assert entries(before, targets(b1=[assignment("/db")])) == {}


def test_a_host_that_does_not_have_the_service_yet_gains_it_in_the_next_publication():
    after = targets(b1=[assignment("/db", last=True)], b2=[assignment("/db", last=True)])
    assert entries(after, after) == {}
    assert entries(after, after, {"/db": {"b1", "a1"}}) == {"/db": OrderEntry(("b1",), ("b1",))}


def test_a_moving_service_that_others_await_expects_all_hosts_and_names_the_gaining_ones():
    before = targets(a1=[assignment("/db", last=True)], a2=[assignment("/db", last=True)])
    after = targets(
        a2=[assignment("/db", last=True)], b1=[assignment("/db", last=True), assignment("/web", "/db")]
    )
    assert entries(before, after) == {"/db": OrderEntry(("a2", "b1"), ("b1",))}
