"""Random schedules of hosts on the pure model: the order is respected, and a tree that is accepted always ends."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.agent.rules.waiting import OrderProgress, order_wait
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.publishing.rules.precedence import service_order
from zkdeployment.publishing.targets.compilation import order_problems

PATHS = "/a", "/b", "/c", "/d"
HOSTS = "h1", "h2", "h3"
SERVICES = st.fixed_dictionaries(
    {path: st.tuples(st.sets(st.sampled_from(PATHS), max_size=2), st.booleans()) for path in PATHS}
)
PLACES = st.fixed_dictionaries({path: st.sets(st.sampled_from(HOSTS)) for path in PATHS})


def targets_of(services, places):
    return {
        host: tuple(
            Assignment(path, 1, "foo", "foo", version="1", after=tuple(sorted(after)), undeploys_last=last)
            for path, (after, last) in services.items()
            if host in places[path]
        )
        for host in HOSTS
    }


class Model:
    """Hosts that deploy what they should and undeploy what they should not, one step at a time."""

    def __init__(self, before, after, registered) -> None:
        self.order = service_order(before, after, [Identity(host, host) for host in HOSTS], {})
        self.registered = frozenset(registered)
        self.finished = {path: set() for path in PATHS}
        self.running = {path: {host for host in HOSTS if runs(before, host, path)} for path in PATHS}
        self.deploys = [
            (host, assignment) for host in registered for assignment in after.get(host, ()) if assignment.n
        ]
        self.undeploys = [
            (host, path)
            for host in registered
            for path in PATHS
            if runs(before, host, path) and not runs(after, host, path)
        ]

    def waits(self, path, *, gaining):
        if path not in self.order.entries:
            return False
        absent = tuple(host for host in HOSTS if host not in self.registered)
        entry = replace(self.order.entries[path], absent=absent)
        progress = OrderProgress(entry, frozenset(self.finished[path]), self.registered)
        return bool(order_wait(path, progress, gaining=gaining))

    def steps(self):
        """Return the steps that may run now; a host undeploys a service that moves after its deployments."""
        busy = {host for host, _ in self.deploys}
        deploys = [
            (host, assignment)
            for host, assignment in self.deploys
            if not any(self.waits(path, gaining=False) for path in assignment.after)
        ]
        undeploys = [
            (host, path)
            for host, path in self.undeploys
            if host not in busy and not self.waits(path, gaining=True)
        ]
        return deploys, undeploys

    def deploy(self, host, assignment):
        self.deploys.remove((host, assignment))
        self.running[assignment.path].add(host)
        self.finished[assignment.path].add(host)

    def undeploy(self, host, path):
        self.undeploys.remove((host, path))
        self.running[path].discard(host)


def runs(targets, host, path):
    return any(assignment.path == path for assignment in targets.get(host, ()))


@given(SERVICES, PLACES, PLACES, st.randoms(use_true_random=False))
def test_every_schedule_respects_the_order_and_ends(services, old, new, chance):
    before, after = targets_of(services, old), targets_of(services, new)
    if order_problems(after, PATHS):
        return
    model = Model(before, after, HOSTS)
    expected = {path: {host for host in HOSTS if runs(after, host, path)} for path in PATHS}
    lasting = {path for path, (_, last) in services.items() if last}
    fewest = {path: min(len(old[path]), len(new[path])) for path in lasting}
    while model.deploys or model.undeploys:
        deploys, undeploys = model.steps()
        assert deploys or undeploys, "all hosts wait for each other"
        number = chance.randrange(len(deploys) + len(undeploys))
        if number < len(deploys):
            host, assignment = deploys[number]
            assert all(model.finished[path] >= expected[path] for path in assignment.after)
            model.deploy(host, assignment)
        else:
            model.undeploy(*undeploys[number - len(deploys)])
        for path, number in fewest.items():
            assert len(model.running[path]) >= number, "instances are missing while the service moves"
    assert model.running == expected


@given(SERVICES, PLACES, PLACES, st.sets(st.sampled_from(HOSTS), min_size=1), st.randoms(use_true_random=False))
def test_only_hosts_that_would_end_a_service_everywhere_wait_for_absent_hosts(
    services, old, new, registered, chance
):
    before, after = targets_of(services, old), targets_of(services, new)
    if order_problems(after, PATHS):
        return
    model = Model(before, after, sorted(registered))
    while any(model.steps()):
        deploys, undeploys = model.steps()
        if deploys:
            model.deploy(*chance.choice(deploys))
        else:
            model.undeploy(*chance.choice(undeploys))
    assert not model.deploys
    for _, path in model.undeploys:
        assert model.order.entries[path].gaining
        assert registered.isdisjoint(model.order.entries[path].gaining)
