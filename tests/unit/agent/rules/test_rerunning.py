"""Services with ``rerun = 'changed'`` on a simulated host: which deployments run at a new revision, and why."""

from dataclasses import replace

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from support.hosts.simulated import SimulatedHost
from zkdeployment.agent.rules.planner import is_repetition, plan
from zkdeployment.base.deployment import Assignment, Rerun
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.host import Identity
from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    RemoveSoftware,
    StartDeployments,
    Undeploy,
)

CHECKOUT = "git:/srv/x#1"
#: The reason of an unchanged deployment whose checkout is renewed for another one.
RENEWED = "run again for this revision"

CONTROLLER = Assignment("/roles/web", 1, "ctl", "ctl", version="1")


def service(path="/a", package="foo", version="1", properties="p", n=1, **fields):
    application = package if version is not None else package.rpartition("-")[0]
    return Assignment(
        path, n, package, application, version=version, properties=properties, rerun=Rerun.CHANGED, **fields
    )


def always(*args, **fields):
    return replace(service(*args, **fields), rerun=Rerun.ALWAYS)


def finish(host, wanted, controller=None):
    for _ in host.take(plan(wanted, host.inventory(), controller)):
        pass
    return host


def host_with(*wanted, controller=None):
    return finish(SimulatedHost(), wanted, controller)


def runs(host, *wanted, controller=None):
    """Return the deployments that run, with their reasons."""
    steps = plan(wanted, host.inventory(), controller).steps
    return {str(step.deployment): step.reason for step in steps if isinstance(step, Deploy)}


def kinds(host, *wanted, controller=None):
    return [type(step) for step in plan(wanted, host.inventory(), controller).steps]


def test_an_unchanged_deployment_is_not_run_again_and_the_plan_names_it():
    host = host_with(service(n=2), always("/b"))
    planned = plan([service(n=2), always("/b")], host.inventory())
    assert [str(step.deployment) for step in planned.steps] == ["/b 0"]
    assert [str(deployment) for deployment in planned.unchanged] == ["/a 0", "/a 1"]
    assert plan([service()], host_with(service()).inventory()).steps == ()


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (service(properties="q"), "properties changed"),
        (service(subtype="x"), "subtype changed from none to x"),
        (service(version="2"), "package changed from foo 1 to 2"),
        (service(patches={"fix": "1"}), "package changed: fix 1 is new"),
        (service(package="foo-1", version=None), "package changed from foo to foo-1"),
        (service(version=CHECKOUT), f"package changed from foo 1 to {CHECKOUT}"),
        (always(), "run again for this revision"),
    ],
)
def test_a_changed_deployment_is_run_again_for_its_reason(now, reason):
    assert runs(host_with(service()), now) == {"/a 0": reason}


def test_instances_that_are_added_are_run_alone():
    assert runs(host_with(service(n=1)), service(n=3)) == {"/a 1": "new", "/a 2": "new"}
    assert kinds(host_with(service(n=3)), service(n=1)) == [Undeploy, Undeploy]


def test_a_marker_without_a_record_means_run_and_is_not_a_change():
    host = host_with(always())
    (step,) = plan([service()], host.inventory()).steps
    assert step.reason == "run again, because its marker does not record its properties"
    assert is_repetition(step)
    assert runs(finish(host, [service()]), service()) == {}


def test_a_deployment_that_was_run_with_always_has_no_record():
    host = host_with(service())
    finish(host, [always()])
    assert list(runs(host, service())) == ["/a 0"]


def test_deployments_run_again_after_a_manual_change_of_their_package_or_patch():
    host = host_with(service(package="foo-1", version=None, patches={"fix": "1"}), service("/b", "bar"))
    for name in ("foo-1", "fix"):
        changed = host.copy()
        (package,) = changed.packages[name]
        changed.packages[name] = {replace(package, release="2")}
        found = runs(changed, service(package="foo-1", version=None, patches={"fix": "1"}), service("/b", "bar"))
        former = "fix-1-1.noarch, foo-1-1-1.noarch"
        assert found == {"/a 0": f"package changed: {former} to {former.replace(f'{name}-1-1', f'{name}-1-2')}"}


def test_a_lost_script_is_reinstalled_and_its_deployments_are_run_even_after_a_crash_in_between():
    host = host_with(service(), service("/b", "bar"))
    host.lose("foo")
    wanted = service(), service("/b", "bar")
    assert kinds(host, *wanted) == [ChangePackages, Deploy]
    assert runs(host, *wanted) == {"/a 0": "package changed: foo has lost its deploy script"}
    taken = host.take(plan(wanted, host.inventory()))
    assert not host.inventory().lost_scripts or next(taken)
    while host.inventory().lost_scripts:
        next(taken)
    assert list(runs(host, *wanted)) == ["/a 0"]


def test_a_deployment_that_did_not_end_is_run_again_also_at_the_former_revision():
    host = host_with(service())
    taken = host.take(plan([service(properties="q")], host.inventory()))
    while host.ran["foo", service().deployments[0]] is not None:
        next(taken)
    assert list(runs(host, service())) == ["/a 0"]
    assert list(runs(host, service(properties="q"))) == ["/a 0"]


def test_a_deployment_whose_undeployment_did_not_end_is_run_again_when_it_is_wanted_again():
    host = host_with(service())
    taken = host.take(plan([], host.inventory()))
    while host.running:
        next(taken)
    assert list(runs(host, service())) == ["/a 0"]


def test_a_deployment_that_was_not_reached_keeps_its_record_for_a_rollback():
    host = host_with(service(), service("/b"))
    taken = host.take(plan([service(properties="q"), service("/b", properties="q")], host.inventory()))
    while host.ran["foo", service().deployments[0]] is not None:
        next(taken)
    assert list(runs(host, service(), service("/b"))) == ["/a 0"]


def test_a_deployment_is_run_again_after_another_application_of_its_service_was_undeployed():
    host = host_with(service(), service("/b", "bar"))
    both = host.copy()
    stale = next(marker for marker in host.markers.values() if marker.application == "bar")
    left = replace(stale, deployment=service().deployments[0])
    both.markers["bar", left.deployment] = left
    assert list(runs(both, service(), service("/b", "bar"))) == ["/a 0"]


class TestAHostWithoutAPackageManager:
    def host(self, **fields):
        """Return a host that ran the service; its packages are not known."""
        host = host_with(service(**fields))
        host.packages.clear()
        host.managed.clear()
        host.markers = {key: replace(marker, packages=()) for key, marker in host.markers.items()}
        return host

    def test_only_changed_deployments_run(self):
        assert kinds(self.host(), service()) == []
        assert kinds(self.host(), service(), controller=CONTROLLER) == [ChangeController]
        assert kinds(self.host(), service(properties="q")) == [ChangePackages, Deploy]
        assert kinds(self.host(), service(), always("/b", "bar")) == [ChangePackages, Deploy]

    def test_deployments_without_their_script_run(self):
        host = self.host()
        host.scripts.clear()
        assert runs(host, service()) == {"/a 0": "package changed: foo has no deploy script"}


class TestACheckout:
    def test_is_not_renewed_for_unchanged_deployments_alone(self):
        host = host_with(service(version=CHECKOUT), service("/b", version=CHECKOUT))
        assert kinds(host, service(version=CHECKOUT), service("/b", version=CHECKOUT)) == []

    def test_that_is_renewed_runs_all_its_deployments(self):
        host = host_with(service(version=CHECKOUT), service("/b", version=CHECKOUT))
        wanted = service(version=CHECKOUT), service("/b", version=CHECKOUT, properties="q")
        assert kinds(host, *wanted) == [CheckOut, Deploy, Deploy]

    def test_without_its_script_is_made_again(self):
        host = host_with(service(version=CHECKOUT))
        host.scripts.clear()
        assert kinds(host, service(version=CHECKOUT)) == [CheckOut, Deploy]
        assert runs(host, service(version=CHECKOUT)) == {"/a 0": "package changed: foo is checked out anew"}


class TestARoleController:
    def test_the_controller_brackets_no_steps_when_every_deployment_is_unchanged(self):
        host = host_with(service(), controller=CONTROLLER)
        assert kinds(host, service(), controller=CONTROLLER) == []
        assert kinds(host_with(controller=CONTROLLER), controller=CONTROLLER) == [StartDeployments, EndDeployments]

    def test_changes_without_a_bracket_when_every_deployment_is_unchanged(self):
        host = host_with(service(), controller=CONTROLLER)
        assert kinds(host, service(), controller=replace(CONTROLLER, version="2")) == [ChangeController]
        out = replace(CONTROLLER, version=CHECKOUT)
        host = host_with(service(), controller=out)
        assert kinds(host, service(), controller=out) == []
        assert kinds(host, service(), controller=replace(out, version="svn:/srv/x")) == [CheckOut]

    @pytest.mark.parametrize(
        ("had", "inner"),
        [
            ([service(), service("/b", properties="q")], [StartDeployments, Deploy, EndDeployments]),
            ([service(), service("/b"), service("/c")], [Undeploy, StartDeployments, EndDeployments]),
            (
                [service(), service("/b"), service("/c", "bar")],
                [Undeploy, StartDeployments, RemoveSoftware, EndDeployments],
            ),
        ],
    )
    def test_the_controller_brackets_the_remaining_steps(self, had, inner):
        host = host_with(*had, controller=CONTROLLER)
        assert kinds(host, service(), service("/b"), controller=CONTROLLER) == inner

    def test_whose_package_is_deployed_too_runs_that_deployment(self):
        shared = service(package="ctl")
        host = host_with(controller=CONTROLLER)
        host.scripts.add("ctl")
        finish(host, [shared], CONTROLLER)
        assert list(runs(host, shared, controller=CONTROLLER)) == ["/a 0"]


SERVICES = st.builds(
    service,
    path=st.sampled_from(["/a", "/b"]),
    package=st.sampled_from(["foo", "bar"]),
    version=st.sampled_from(["1", "1", "2", CHECKOUT]),
    properties=st.sampled_from("ppq"),
    n=st.integers(0, 2),
)


@st.composite
def revisions(draw):
    """Generate assignments of distinct paths, with one version of each package."""
    wanted = draw(st.lists(SERVICES, max_size=2, unique_by=lambda assignment: assignment.path))
    versions = {assignment.package: assignment.version for assignment in reversed(wanted)}
    patched = draw(st.sampled_from([{}, {"fix": "1"}, {"fix": "2"}]))
    return [
        replace(
            assignment,
            version=version,
            patches={} if version == CHECKOUT else patched,
            rerun=draw(st.sampled_from([Rerun.CHANGED, Rerun.CHANGED, Rerun.ALWAYS])),
        )
        for assignment in wanted
        for version in [versions[assignment.package]]
    ]


HOST = Identity("h1", "h1.example.com", "web")


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        (HOST, None),
        (Identity("h2", "h1.example.com", "web"), "the host changed its id from h2 to h1"),
        (
            Identity("h1", "old.example.com"),
            "the host changed its name from old.example.com to h1.example.com, role from none to web",
        ),
        (None, "run again, because its marker does not record its properties"),
    ],
)
def test_a_deployment_runs_again_if_it_was_run_with_another_identity_of_the_host(recorded, reason):
    inventory = host_with(service()).inventory()
    (marker,) = inventory.markers
    inventory = replace(inventory, markers=(replace(marker, identity=recorded),))
    steps = plan([service()], inventory, identity=HOST).steps
    assert [step.reason for step in steps] == ([] if reason is None else [reason])
    assert all(step.unrecorded.identity is None for step in steps)
    assert not plan([service()], inventory).steps, "without an identity none is compared"


@given(revisions(), revisions(), revisions(), st.data())
def test_stopped_anywhere_and_changed_by_hand_every_deployment_ran_with_the_wanted_properties(
    first, other, last, data
):
    host = host_with(*first)
    taken = host.take(plan(other, host.inventory()))
    for _ in range(data.draw(st.integers(0, 25), label="stop")):
        next(taken, None)
    installed = sorted(host.packages.keys() & host.managed.keys() & {"foo", "bar", "fix"})
    for name in data.draw(st.sets(st.sampled_from(installed)), label="by hand") if installed else ():
        if len(host.packages[name]) == 1 and name not in host.checkouts:
            host.replace_release(name)
    for name in data.draw(st.sets(st.sampled_from(["foo", "bar"])), label="lost"):
        if len(host.packages.get(name, ())) == 1:
            host.lose(name)
    try:
        end = finish(host, last)
    except HostFilesError:  # a lost script is needed that no package can bring back
        reject()
    fresh = host_with(*last)
    for key in fresh.markers:
        assert end.ran[key] is not None
        assignment, packages = end.ran[key]
        assert assignment == fresh.ran[key][0]
        if assignment.rerun is Rerun.CHANGED:
            names = (assignment.package, *assignment.patches)
            found = sorted(package.nevra for name in names for package in end.packages.get(name, ()))
            assert list(packages) == found
    again = plan(last, end.inventory())
    assert {assignment.path for assignment in last if assignment.rerun is Rerun.ALWAYS} >= {
        step.deployment.path for step in again.steps if isinstance(step, Deploy) and step.reason != RENEWED
    }
