from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Host, Identity
from zkdeployment.publishing.rules.convergence import PublicationSnapshot
from zkdeployment.publishing.rules.precedence import order_of_known_hosts, placement_problems
from zkdeployment.strategies.strategy import Group, Pace, ParallelLimit, Selector, Strategy

HOSTS = [Host(Identity(name, name)) for name in ("app1", "app2", "db1")]
SERVICES = {
    "app1": (Assignment("/web", 1, "foo", "foo", version="1", after=("/db",)),),
    "app2": (Assignment("/web", 1, "foo", "foo", version="1", after=("/db",)),),
    "db1": (Assignment("/db", 1, "bar", "bar", version="1"),),
}


def group(name, *hosts, pace=None):
    return Group(name, critical=True, selectors=(Selector(names=frozenset(hosts)),), pace=pace or Pace())


def problems(*groups, before=None, after=None):
    strategy = Strategy("s", groups)
    targets = SERVICES if after is None else after
    snapshot = PublicationSnapshot(None, hosts=HOSTS)
    order = order_of_known_hosts(before or {}, targets, snapshot, strategy)
    return [problem.message for problem in placement_problems(order, strategy, snapshot, targets)]


def test_groups_in_the_order_of_the_services_are_accepted():
    assert problems(group("db", "db1"), group("web", "app1", "app2")) == []
    assert problems(group("all", "db1", "app1", "app2")) == []


def test_a_host_cannot_wait_for_a_host_of_a_later_group():
    (problem,) = problems(group("web", "app1", "app2"), group("db", "db1"))
    assert problem == (
        "app1 deploys /web after /db is deployed on db1, but its group db comes after the group web;"
        " change the strategy or the order of the services"
    )


def test_a_host_cannot_wait_for_a_host_of_its_own_group_that_may_find_no_place():
    (problem,) = problems(group("all", "db1", "app1", "app2", pace=Pace(max_parallel=ParallelLimit(2))))
    assert "db1 of the same group all, which has max_parallel" in problem


def test_a_host_with_both_services_is_not_an_obstacle_for_itself():
    services = {"app1": (*SERVICES["app1"], *SERVICES["db1"]), "app2": SERVICES["app2"]}
    places = group("all", "app1", "db1", pace=Pace(max_parallel=ParallelLimit(1)))
    assert problems(places, group("later", "app2"), after=services) == []


def test_no_host_waits_for_hosts_in_no_group():
    assert problems(group("web", "app1", "app2")) == []


def test_a_host_cannot_keep_a_service_until_a_later_group_has_it():
    moving = Assignment("/db", 1, "bar", "bar", version="1", undeploys_last=True)
    groups = group("first", "app1"), group("second", "db1")
    assert problems(*groups, before={"db1": (moving,)}, after={"app1": (moving,)}) == []
    (problem,) = problems(*groups, before={"app1": (moving,)}, after={"db1": (moving,)})
    assert problem.startswith("app1 keeps /db until /db is deployed on db1, but its group second comes after")
