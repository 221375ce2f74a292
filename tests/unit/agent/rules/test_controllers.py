from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_package
from support.hosts.simulated import CONTROLLERS, SimulatedHost
from zkdeployment.agent.rules.plan_text import sentence
from zkdeployment.agent.rules.planner import is_repetition, plan
from zkdeployment.base.deployment import Assignment, Rerun
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    PackageChange,
    Plan,
    RemoveCheckout,
    RemoveSoftware,
    StartDeployments,
    Undeploy,
)


def controller(package="ctl", version="1"):
    return Assignment("/roles/web", 1, package, package, version=version)


def foo(path="/foo", package="foo", version="1", **fields):
    return Assignment(path, fields.pop("n", 1), package, package, version=version, **fields)


def finish(host, wanted, asked):
    for _ in host.take(plan(wanted, host.inventory(), asked)):
        pass
    return host


def have(wanted=(), asked=None):
    return finish(SimulatedHost(), wanted, asked)


def kinds(planned: Plan):
    return [type(step) for step in planned.steps]


def test_the_agents_own_package_is_never_removed():
    ours = make_package("zkdeployment", "1")
    inventory = Inventory(
        packages={ours.name: (ours,)}, managed={ours.name: ours.name}, controllers=frozenset([ours.name])
    )
    assert kinds(plan([], inventory)) == []


def test_the_controller_comes_first_and_its_scripts_bracket_all_but_old_deployments():
    host = have([foo("/old", "bar")])
    planned = plan([foo()], host.inventory(), controller())
    assert kinds(planned) == [
        ChangeController,
        Undeploy,
        StartDeployments,
        ChangePackages,
        Deploy,
        RemoveSoftware,
        EndDeployments,
    ]
    assert planned.controller == controller()
    assert planned.steps[0] == ChangeController(
        PackageChange({"ctl": "1"}, frozenset(), frozenset({"ctl"})),
        (),
        {"ctl": "ctl"},
        "/roles/web asks for ctl 1, found none",
    )


def test_without_a_controller_no_steps_are_bracketed():
    assert plan([foo()], Inventory()).controller is None


def test_a_controller_that_is_there_in_its_version_is_untouched():
    host = have([foo()], controller())
    assert kinds(plan([foo()], host.inventory(), controller())) == [StartDeployments, Deploy, EndDeployments]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            controller(),
            controller(version="2"),
            "change role controller (ctl 2): /roles/web asks for ctl 2, found ctl-1-1.noarch",
        ),
        (
            controller(version="2"),
            controller(),
            "change role controller (ctl 1): /roles/web asks for ctl 1, found ctl-2-1.noarch",
        ),
        (
            controller(),
            controller("ctl2"),
            "change role controller (ctl2 1, -ctl): /roles/web asks for ctl2 1, found ctl",
        ),
        (controller(), None, "change role controller (-ctl): the role controller ctl is not wanted any more"),
    ],
)
def test_a_controller_is_upgraded_downgraded_switched_and_removed(before, after, line):
    host = have([foo()], before)
    assert sentence(plan([foo()], host.inventory(), after).steps[0]) == line
    finish(host, [foo()], after)
    assert host.packages.keys() & CONTROLLERS == (set() if after is None else {after.package})
    assert host.managed.keys() == host.packages.keys()
    assert host.directories == host.packages.keys()


def test_a_controller_that_others_installed_as_a_package_is_replaced_too():
    host = SimulatedHost()
    host.install(make_package("ctl", "1"))
    assert finish(host, [], controller("ctl2")).packages.keys() == {"ctl2"}


def test_a_controller_that_is_not_a_package_is_not_removed():
    here = Inventory(controllers=frozenset({"ctl"}), directories=frozenset({"ctl"}))
    assert plan([], here).steps == ()


def test_two_installed_controllers_are_an_error_that_names_both():
    host = SimulatedHost()
    host.install(make_package("ctl", "1"))
    host.install(make_package("ctl2", "1"))
    for asked in (None, controller(), controller("ctl2")):
        with pytest.raises(HostFilesError, match="two role controllers are installed, ctl and ctl2, expected one"):
            plan([], host.inventory(), asked)


def test_a_package_that_deployments_need_stays_with_any_scripts():
    need = foo(patches={"ctl": "1"})
    host = have([need])
    assert kinds(plan([need], host.inventory())) == [Deploy]
    finish(host, [need], controller("ctl2"))
    assert host.packages.keys() == {"foo", "ctl", "ctl2"}


def test_a_package_that_is_controller_and_needed_is_changed_once():
    planned = plan([foo(patches={"ctl": "2"})], have([], controller()).inventory(), controller(version="2"))
    first, _, packages, *_ = planned.steps
    assert isinstance(first, ChangeController)
    assert first.change.want == {"ctl": "2"}
    assert isinstance(packages, ChangePackages)
    assert packages.change.want == {"foo": "1"}


CHECKOUT = "git:/srv/x#1"


def test_the_controllers_scripts_also_bracket_checkouts():
    host = have([foo("/old", "bar", version=CHECKOUT)])
    planned = plan([foo(version=CHECKOUT)], host.inventory(), controller())
    assert kinds(planned) == [
        ChangeController,
        Undeploy,
        StartDeployments,
        CheckOut,
        Deploy,
        RemoveSoftware,
        RemoveCheckout,
        EndDeployments,
    ]


def test_a_controllers_package_is_replaced_by_a_checkout_that_deployments_need():
    wanted = [foo(package="ctl", version=CHECKOUT)]
    planned = plan(wanted, have([], controller()).inventory())
    assert kinds(planned) == [ChangePackages, CheckOut, Deploy]
    assert finish(have([], controller()), wanted, None).managed == {}


def test_a_controller_that_is_a_checkout_is_built_again_for_every_revision_before_anything_else():
    asked = controller(version=CHECKOUT)
    host = have([foo("/old", "bar")], asked)
    planned = plan([foo()], host.inventory(), asked)
    assert kinds(planned) == [
        CheckOut,
        Undeploy,
        StartDeployments,
        ChangePackages,
        Deploy,
        RemoveSoftware,
        EndDeployments,
    ]
    assert planned.steps[0] == CheckOut(
        "ctl", CHECKOUT, replaces=True, reason="update and build again for this revision"
    )


@pytest.mark.parametrize(
    ("before", "after", "first", "last"),
    [
        (None, controller(version=CHECKOUT), [CheckOut], []),
        (controller(), controller(version=CHECKOUT), [ChangeController, CheckOut], []),
        (controller(version=CHECKOUT), controller(), [RemoveCheckout, ChangeController], []),
        (controller(version=CHECKOUT), controller(version="svn:/srv/x"), [CheckOut], []),
        (controller("ctl2"), controller(version=CHECKOUT), [ChangeController, CheckOut], []),
        (controller(version=CHECKOUT), controller("ctl2"), [ChangeController], [RemoveSoftware, RemoveCheckout]),
        (controller(version=CHECKOUT), controller("ctl2", CHECKOUT), [CheckOut], [RemoveSoftware, RemoveCheckout]),
        (controller(version=CHECKOUT), None, [], [RemoveSoftware, RemoveCheckout]),
    ],
)
def test_a_controller_changes_between_package_and_checkout_and_goes(before, after, first, last):
    host = have([foo()], before)
    bracket = ([], []) if after is None else ([StartDeployments], [EndDeployments])
    assert kinds(plan([foo()], host.inventory(), after)) == [*first, *bracket[0], Deploy, *last, *bracket[1]]
    finish(host, [foo()], after)
    fresh = have([foo()], after)
    assert (host.packages, host.checkouts, host.managed) == (fresh.packages, fresh.checkouts, fresh.managed)
    assert host.directories == fresh.directories


def test_a_controller_that_deployments_need_as_the_same_checkout_is_checked_out_once():
    wanted = [foo(package="ctl", version=CHECKOUT)]
    planned = plan(wanted, Inventory(), controller(version=CHECKOUT))
    assert kinds(planned) == [CheckOut, StartDeployments, Deploy, EndDeployments]


def test_a_checkout_removes_the_foreign_package_of_a_controller_that_it_replaces_first():
    host = SimulatedHost()
    host.install(make_package("ctl", "1"))
    change, check_out, *_ = plan([], host.inventory(), controller(version=CHECKOUT)).steps
    assert (change.removed, check_out.replaces) == (("ctl",), True)


@pytest.mark.parametrize(
    "here",
    [Inventory(packages={"ctl": (make_package("ctl", "1"),)}), Inventory(managed={"ctl": "ctl"})],
)
def test_a_checkout_does_not_remove_a_package_without_scripts_that_others_installed_or_removed(here):
    assert ChangeController not in kinds(plan([], here, controller(version=CHECKOUT)))


def test_a_checkout_does_not_replace_a_foreign_directory():
    here = Inventory(controllers=frozenset({"ctl"}), directories=frozenset({"ctl"}))
    (check_out, *_) = plan([], here, controller(version=CHECKOUT)).steps
    assert not check_out.replaces


@pytest.mark.parametrize("wanted", [[], [foo(version=CHECKOUT)]])
def test_a_checkout_with_any_scripts_is_not_a_package_of_a_controller(wanted):
    here = Inventory(checkouts={"foo": CHECKOUT}, directories=frozenset({"foo"}), controllers=frozenset({"foo"}))
    assert ChangeController not in kinds(plan(wanted, here))
    change = plan(wanted, here, controller()).steps[0]
    assert isinstance(change, ChangeController)
    assert (change.change.want, change.removed) == ({"ctl": "1"}, ())


@pytest.mark.parametrize(("version", "other"), [(CHECKOUT, "1"), ("1", CHECKOUT)])
def test_deployments_in_the_place_of_the_controller_are_an_error_with_advice(version, other):
    host = have([foo(package="ctl", version=CHECKOUT)])
    if version == "1":
        host = have([foo()])
        host.install(make_package("ctl", "1"))
        host.markers = {key: replace(recorded, package="ctl") for key, recorded in host.markers.items()}
    with pytest.raises(
        HostFilesError, match=r"/opt/ctl is (a|no) checkout with deployments, .* publish a revision"
    ):
        plan([], host.inventory(), controller(version=other))


ASKED = st.sampled_from(
    [
        None,
        controller(),
        controller(version="2"),
        controller("ctl2"),
        controller(version=CHECKOUT),
        controller(version="svn:/srv/x"),
        controller("ctl2", CHECKOUT),
    ]
)
WANTED = st.sampled_from(
    [
        [],
        [foo()],
        [foo(version="2"), foo("/b", "bar")],
        [foo("/b", "bar", n=2)],
        [foo(version=CHECKOUT), foo("/b", "bar")],
    ]
)


@given(WANTED, ASKED, WANTED, ASKED)
def test_stopped_anywhere_a_host_arrives_at_the_same_end(first, had, second, asked):
    start = have(first, had)
    end = finish(start.copy(), second, asked)
    fresh = have(second, asked)
    assert (end.packages, end.checkouts, end.scripts, end.directories, end.etc) == (
        fresh.packages,
        fresh.checkouts,
        fresh.scripts,
        fresh.directories,
        fresh.etc,
    )
    assert end.managed.keys() == fresh.managed.keys()
    effects = sum(1 for _ in start.copy().take(plan(second, start.inventory(), asked)))
    for stop in range(effects + 1):
        host = start.copy()
        taken = host.take(plan(second, host.inventory(), asked))
        for _ in range(stop):
            next(taken)
        assert finish(host, second, asked) == end, f"another end after stop {stop}"


UNCHANGED = [foo(properties="p", rerun=Rerun.CHANGED)]


@pytest.mark.parametrize("second", [controller(), controller(version="2"), controller("ctl2")])
def test_stopped_anywhere_a_host_with_unchanged_deployments_returns_into_service(second):
    effects = sum(1 for _ in SimulatedHost().take(plan(UNCHANGED, Inventory(), controller())))
    for stop in range(effects + 1):
        host = SimulatedHost()
        taken = host.take(plan(UNCHANGED, host.inventory(), controller()))
        for _ in range(stop):
            next(taken)
        finish(host, UNCHANGED, second)
        assert not host.out_of_service, f"after stop {stop}"
        assert kinds(plan(UNCHANGED, host.inventory(), second)) == []


def test_the_next_controller_ends_the_work_that_a_removed_one_started():
    host = replace(have(UNCHANGED, controller()), deployments_started=True)
    assert kinds(plan(UNCHANGED, finish(host, UNCHANGED, None).inventory())) == []
    ended = plan(UNCHANGED, host.inventory(), controller("ctl2"))
    assert kinds(ended) == [ChangeController, StartDeployments, EndDeployments]
    assert not any(map(is_repetition, ended.steps))


@pytest.mark.parametrize("known", [True, False])
def test_a_controller_that_lost_its_scripts_is_installed_again_first(known):
    inventory = have(asked=controller()).inventory()
    again = frozenset({"ctl"})
    inventory = replace(inventory, lost_scripts=again) if known else replace(inventory, controllers=frozenset())
    first = plan([], inventory, controller()).steps[0]
    assert first == ChangeController(
        PackageChange(managed=again, reinstall=again), (), {"ctl": "ctl"}, "ctl has lost its scripts"
    )
    assert plan([], inventory, controller(version="2")).steps[0].change.reinstall == frozenset()
