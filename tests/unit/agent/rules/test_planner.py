from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.builders import make_package as package
from support.hosts.simulated import CONTROLLERS, REPOSITORY, WITHOUT_SCRIPT, SimulatedHost, script_of
from zkdeployment.agent.rules.planner import plan, unwanted_services
from zkdeployment.agent.rules.system import SystemNeed
from zkdeployment.base.deployment import Assignment, Deployment, Rerun
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.inventory import Inventory, Marker, Package
from zkdeployment.base.plan import (
    ChangePackages,
    CheckOut,
    Deploy,
    PackageChange,
    RemoveCheckout,
    RemoveSoftware,
    Undeploy,
    UpdateSystem,
)
from zkdeployment.base.system import WantedSystem


def assignment(path="/who/myfoo", package="foo", version="1", **fields):
    application = package if version is not None else package.rpartition("-")[0]
    return Assignment(
        **{"path": path, "n": 1, "package": package, "application": application} | fields, version=version
    )


def marker(path="/who/myfoo", number=0, application="foo", **fields):
    deployment = Deployment(path, number)
    return Marker(deployment, application, **{"files": (deployment.marker_name,)} | fields)


def inventory(*packages: Package, scripts=(), markers=(), managed=None, checkouts=None):
    packages_by_name: dict[str, tuple[Package, ...]] = {}
    for one in packages:
        packages_by_name[one.name] = (*packages_by_name.get(one.name, ()), one)
    return Inventory(
        packages=packages_by_name,
        scripts={name: script_of(name) for name in scripts},
        directories=frozenset(scripts),
        markers=tuple(markers),
        managed=managed or {},
        checkouts=checkouts or {},
        applications=frozenset(recorded.application for recorded in markers),
    )


def foo_host(*markers: Marker, version="1", **fields):
    return inventory(package("foo", version), scripts=["foo"], markers=markers, managed={"foo": "foo"}, **fields)


def steps(wanted, have, kind):
    return [step for step in plan(wanted, have).steps if isinstance(step, kind)]


def test_a_host_without_software_and_targets_has_an_empty_plan():
    assert plan([], Inventory()).steps == ()


def test_a_new_deployment_is_installed_and_run():
    wanted = assignment(n=2)
    assert plan([wanted], Inventory()).steps == (
        ChangePackages(
            PackageChange(want={"foo": "1"}, managed=frozenset({"foo"})), {"foo": "foo"}, "foo 1 is new"
        ),
        Deploy(wanted, Deployment("/who/myfoo", 0), "new"),
        Deploy(wanted, Deployment("/who/myfoo", 1), "new"),
    )


def test_every_wanted_deployment_is_run_again_sorted_by_path_and_number():
    wanted = [assignment("/b", n=2), assignment("/a")]
    have = foo_host(marker("/a", version="1", package="foo"))
    assert [(str(step.deployment), step.reason) for step in plan(wanted, have).steps] == [
        ("/a 0", "run again for this revision"),
        ("/b 0", "new"),
        ("/b 1", "new"),
    ]


def test_unwanted_deployments_are_undeployed_first_in_order():
    have = foo_host(marker("/b"), marker("/a", 1), marker("/a", 0))
    steps = plan([], have).steps
    assert [(type(step), str(step.deployment)) for step in steps[:3]] == [
        (Undeploy, "/a 0"),
        (Undeploy, "/a 1"),
        (Undeploy, "/b 0"),
    ]
    assert steps[3:] == (
        RemoveSoftware(
            PackageChange(remove=frozenset({"foo"}), managed=frozenset({"foo"})),
            ("foo",),
            ("foo",),
            "no deployment needs foo any more",
        ),
    )


@pytest.mark.parametrize(
    ("wanted", "reason", "locked"),
    [
        ([], "not wanted on this host any more", False),
        ([assignment(n=0)], "not wanted on this host any more", True),
        ([assignment("/other")], "not wanted on this host any more", False),
        ([assignment(n=1)], "only 1 instance is wanted", True),
        ([assignment(n=2)], "only 2 instances are wanted", True),
        ([assignment(package="bar")], "/who/myfoo is bar now", True),
    ],
)
def test_a_removal_has_a_reason_and_a_lock_if_its_service_stays(wanted, reason, locked):
    have = foo_host(marker(number=3))
    (step,) = steps(wanted, have, Undeploy)
    assert step == Undeploy(
        Deployment("/who/myfoo", 3), "foo", script_of("foo"), ("who:myfoo.3.deployed",), reason, locked, "foo"
    )


def test_a_service_of_other_hosts_is_undeployed_under_its_lock_after_removed_services():
    have = foo_host(marker("/a/stays"), marker("/b/gone"), marker("/c/stays"))
    assert unwanted_services([assignment("/c/stays")], have) == {"/a/stays", "/b/gone"}
    steps = plan([], have, services={"/a/stays", "/c/stays"}).steps
    undone = [(step.deployment.path, step.locked) for step in steps if isinstance(step, Undeploy)]
    assert undone == [("/b/gone", False), ("/a/stays", True), ("/c/stays", True)]


def test_a_service_that_other_hosts_gain_is_undeployed_under_its_lock_before_its_software_is_removed():
    have = foo_host(marker("/a"), marker("/b", number=1), marker("/gone"))
    wanted = [assignment("/b", package="foo"), assignment("/c", package="bar")]
    planned = plan(wanted, have, services={"/a"}, lasting={"/a", "/b"}).steps
    first, _change, *deploys, kept, reduced = planned
    assert (first.deployment.path, first.last, first.locked) == ("/gone", False, False)
    assert [(type(step), step.deployment.path) for step in deploys] == [(Deploy, "/b"), (Deploy, "/c")]
    assert (str(kept.deployment), kept.last, kept.locked) == ("/a 0", True, True)
    assert (str(reduced.deployment), reduced.last, reduced.locked) == ("/b 1", True, True)
    remove = plan([], foo_host(marker("/a")), lasting={"/a"}).steps[-1]
    assert isinstance(remove, RemoveSoftware)


def test_a_role_controller_ends_its_bracket_before_services_that_other_hosts_gain_are_undeployed():
    have = replace(foo_host(marker("/a")), packages={})
    controller = assignment("/roles/web", "ctl")
    planned = plan([assignment("/b", package="bar")], have, controller, services={"/a"}, lasting={"/a"}).steps
    kinds = [step.kind for step in planned if step.kind not in {"change packages", "change role controller"}]
    assert kinds == ["starting-deployments", "deploy", "ending-deployments", "undeploy", "remove software"]


def test_a_service_whose_software_makes_room_for_other_software_is_not_kept():
    have = foo_host(marker("/a", package="foo"))
    checked_out = assignment("/b", package="foo", version="git://host/foo#1")
    (step,) = [step for step in plan([checked_out], have, lasting={"/a"}).steps if isinstance(step, Undeploy)]
    assert not step.last
    moved = [assignment("/a", package="bar")]
    (step,) = [step for step in plan(moved, have, lasting={"/a"}).steps if isinstance(step, Undeploy)]
    assert not step.last


def test_a_service_that_waits_for_others_is_not_handed_over_because_its_lock_would_be_held_meanwhile():
    have = foo_host(marker("/a"))
    assert plan([assignment("/a", package="bar")], have).handover == "/a"
    assert plan([assignment("/a", package="bar", after=("/b",))], have).handover is None


def test_a_service_that_becomes_another_application_keeps_its_lock_from_the_old_one_to_the_new_one():
    have = foo_host(marker("/a/x"), marker("/b/x"), marker("/c/less"), marker("/c/less", number=1))
    wanted = [assignment("/a/x", package="bar"), assignment("/b/x", package="bar"), assignment("/c/less")]
    planned = plan(wanted, have)
    assert planned.handover == "/b/x"
    order = [step.deployment.path for step in planned.steps if isinstance(step, Undeploy | Deploy)]
    assert order == ["/a/x", "/c/less", "/b/x", "/b/x", "/a/x", "/c/less"]
    (change,) = [place for place, step in enumerate(planned.steps) if isinstance(step, ChangePackages)]
    assert change == 3


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        [assignment("/b/x", n=1)],
        [assignment("/b/x", version="2", n=2)],
        [assignment("/other", package="bar")],
    ],
)
def test_no_lock_is_kept_over_other_steps_where_no_service_changes_hands(wanted):
    have = foo_host(marker("/b/x"), marker("/b/x", number=1))
    assert plan(wanted, have).handover is None


def test_under_the_lock_of_a_role_no_service_needs_its_own():
    have = foo_host(marker("/b/x"))
    planned = plan(
        [assignment("/b/x", package="bar")], have, Assignment("/roles/web", 1, "ctl", "ctl", version="1")
    )
    assert planned.handover is None


def test_a_new_version_or_subtype_is_not_a_removal():
    have = foo_host(marker(package="foo", version="1", subtype="old"))
    assert steps([assignment(version="2", subtype="new")], have, Undeploy) == []
    assert steps([assignment(package="foo-2", version=None)], have, Undeploy) == []


class TestTheScriptToUndoWith:
    def script(self, recorded, *scripts: str, managed=None, wanted=()):
        have = inventory(scripts=scripts, markers=[recorded], managed=managed)
        (step,) = steps(wanted, have, Undeploy)
        return step.script

    def test_is_that_of_the_recorded_package(self):
        recorded = marker(package="foo-1", script=script_of("foo-2"))
        assert self.script(recorded, "foo-1", "foo-2") == script_of("foo-1")

    def test_is_the_recorded_script(self):
        assert self.script(marker(script=script_of("foo-1")), "foo-1", "foo-2") == script_of("foo-1")
        recorded = marker(package="foo-0", script=script_of("foo-1"))
        assert self.script(recorded, "foo-1", "foo-2") == script_of("foo-1")

    def test_is_that_of_the_applications_package(self):
        assert self.script(marker(), "foo-1.4", "foobar-1", "foo-bar-2", "bar") == script_of("foo-1.4")
        assert self.script(marker(package="foo-1"), "foo") == script_of("foo")
        assert self.script(marker(), "odd-name", managed={"odd-name": "foo"}) == script_of("odd-name")

    def test_is_that_of_the_applications_newest_package(self):
        assert self.script(marker(), "foo-1.9", "foo-1.10", "foo-1.2") == script_of("foo-1.10")

    def test_is_not_that_of_another_application(self):
        with pytest.raises(HostFilesError):
            self.script(marker(), "foo-9", managed={"foo-9": "other"})
        with pytest.raises(HostFilesError):
            self.script(marker(), "foo-extra")
        with pytest.raises(HostFilesError):
            self.script(marker(), "foo-9", wanted=[assignment("/x", package="foo-9", version="1")])

    @pytest.mark.parametrize(
        ("recorded", "named"),
        [
            (marker(package="foo-1", script="/srv/opt/foo-1/zookeeper-deploy"), "/srv/opt/foo-1/zookeeper-deploy"),
            (marker(package="foo-1"), "/opt/foo-1/bin/zookeeper-deploy"),
            (marker(files=("who,myfoo.0.deployed",)), "/opt/foo/bin/zookeeper-deploy"),
        ],
    )
    def test_that_was_removed_with_its_package_is_an_error_with_advice(self, recorded, named):
        with pytest.raises(HostFilesError) as info:
            plan([], inventory(markers=[recorded]))
        assert f"cannot undeploy /who/myfoo 0 (foo): expected its deploy script {named}, found neither" in str(
            info.value
        )
        assert str(info.value).endswith(f"remove /etc/foo/{recorded.files[0]}")


class TestAPackageThatLostItsScript:
    def host(self, *markers: Marker, name="foo", version="1", **fields):
        have = inventory(package(name, version), markers=markers, managed={name: "foo"}, **fields)
        return replace(have, lost_scripts=frozenset({name}))

    def test_is_installed_again_before_its_deployments_run(self):
        wanted = assignment()
        again = PackageChange(managed=frozenset({"foo"}), reinstall=frozenset({"foo"}))
        assert plan([wanted], self.host(marker(package="foo", version="1"))).steps == (
            ChangePackages(again, {"foo": "foo"}, "foo has lost its deploy script"),
            Deploy(wanted, Deployment("/who/myfoo", 0), "run again for this revision"),
        )

    def test_is_installed_again_in_the_one_transaction(self):
        wanted = [assignment(), assignment("/b", package="bar", version="2")]
        (step,) = steps(wanted, self.host(), ChangePackages)
        assert (step.change.want, step.change.reinstall) == ({"bar": "2"}, {"foo"})

    def test_is_not_installed_again_where_another_version_comes(self):
        (step,) = steps([assignment(version="2")], self.host(), ChangePackages)
        assert (step.change.want, step.change.reinstall) == ({"foo": "2"}, frozenset())

    def test_is_not_installed_again_only_to_be_removed(self):
        assert [type(step) for step in plan([], self.host()).steps] == [RemoveSoftware]

    @pytest.mark.parametrize(
        ("recorded", "name"),
        [
            (marker(package="foo"), "foo"),
            (marker(), "foo"),
            (marker(package="foo-1.4"), "foo-1.4"),
            (marker(), "foo-1.4"),
        ],
    )
    def test_is_installed_again_first_where_its_script_undeploys(self, recorded, name):
        first, undeploy, remove = plan([], self.host(recorded, name=name)).steps
        assert first == ChangePackages(
            PackageChange(managed=frozenset({name}), reinstall=frozenset({name})),
            {name: "foo"},
            f"deployments are undone with scripts of {name} that are missing",
        )
        assert (undeploy.script, undeploy.package) == (None, name)
        assert remove.packages == (name,)

    def test_is_installed_again_rather_than_a_patch_of_its_application(self):
        have = inventory(
            package("foo"), package("zlib"), markers=[marker()], managed={"foo": "foo", "zlib": "foo"}
        )
        first, undeploy, _ = plan([], replace(have, lost_scripts=frozenset({"foo"}))).steps
        assert (first.change.reinstall, undeploy.package) == ({"foo"}, "foo")

    def test_is_installed_again_in_its_old_version_before_it_changes(self):
        had = [marker(package="foo", number=number) for number in (0, 1)]
        steps = plan([assignment(version="2")], self.host(*had)).steps
        assert [type(step) for step in steps] == [ChangePackages, Undeploy, ChangePackages, Deploy]
        assert (steps[0].change.want, steps[0].change.reinstall) == ({}, {"foo"})
        assert (steps[2].change.want, steps[2].change.reinstall) == ({"foo": "2"}, frozenset())

    def test_is_noticed_by_its_missing_script_alone(self):
        have = inventory(package("foo"), package("fix"))
        (step,) = steps([assignment(patches={"fix": "1"})], have, ChangePackages)
        assert step.change.reinstall == {"foo"}

    def test_undeploys_with_a_new_copy_of_a_damaged_script(self):
        have = replace(foo_host(marker(package="foo")), lost_scripts=frozenset({"foo"}))
        first, undeploy, _ = plan([], have).steps
        assert (first.change.reinstall, undeploy.script) == ({"foo"}, None)

    def test_undeploys_with_its_own_script_though_another_version_has_one(self):
        have = self.host(marker(package="foo-1"), name="foo-1")
        have = replace(have, scripts={"foo-2": script_of("foo-2")})
        assert steps([], have, Undeploy)[0].package == "foo-1"


def change(wanted, have):
    (step,) = steps(wanted, have, ChangePackages)
    return step


@pytest.mark.parametrize(
    ("wanted", "installed"),
    [
        (assignment(version="1"), [package("foo", "1")]),
        (assignment(version="1"), [package("foo", "1", "7")]),
        (assignment(version="1-7"), [package("foo", "1", "7")]),
        (assignment(package="foo-1", version=None), [package("foo-1", "99")]),
        (assignment(version="1"), [package("foo", "1"), replace(package("foo", "1"), arch="x86_64")]),
        (assignment(patches={"fix": "1"}), [package("foo"), package("fix")]),
        (assignment(n=0), []),
    ],
)
def test_packages_in_the_wanted_versions_are_not_changed(wanted, installed):
    assert steps([wanted], inventory(*installed, scripts=["foo", "foo-1"]), ChangePackages) == []


@pytest.mark.parametrize(
    ("wanted", "installed", "want", "reason"),
    [
        (assignment(version="2"), [package("foo", "1")], {"foo": "2"}, "foo 1 to 2"),
        (assignment(version="1"), [package("foo", "2")], {"foo": "1"}, "foo 2 to 1"),
        (assignment(version="1"), [package("foo", "1.0")], {"foo": "1"}, "foo 1.0 to 1"),
        (assignment(version="1"), [package("foo-1", "1"), package("foo-extra")], {"foo": "1"}, "foo 1 is new"),
        (assignment(package="foo-1", version=None), [], {"foo-1": None}, "foo-1 is new"),
        (
            assignment(version="2"),
            [package("foo", "2"), package("foo", "1")],
            {"foo": "2"},
            "foo is there twice (1-1 and 2-1)",
        ),
        (
            assignment(patches={"fix": "2", "new": "1"}),
            [package("foo"), package("fix")],
            {"fix": "2", "new": "1"},
            "fix 1 to 2, new 1 is new",
        ),
    ],
)
def test_only_packages_that_differ_are_changed(wanted, installed, want, reason):
    step = change([wanted], inventory(*installed, scripts=["foo"], managed={"fix": "foo"}))
    assert step.change.want == want
    assert step.reason == reason
    assert step.applications == dict.fromkeys(want, "foo")


def test_a_package_may_be_needed_at_any_version_and_at_an_exact_one():
    wanted = [
        assignment("/a", package="foo-1", version=None),
        assignment("/b", package="bar", patches={"foo-1": "7"}),
    ]
    step = change(wanted, Inventory())
    assert step.change.want == {"bar": "1", "foo-1": "7"}
    assert step.applications == {"bar": "bar", "foo-1": "foo"}


def test_a_patch_listed_no_more_goes_in_the_same_transaction():
    managed = {"foo": "foo", "fix": "foo", "gone": "foo", "other": "bar"}
    have = inventory(package("foo"), package("fix"), package("other"), scripts=["foo"], managed=managed)
    step = change([assignment(version="2")], have)
    assert step.change == PackageChange({"foo": "2"}, frozenset({"fix"}), frozenset(managed))
    assert step.reason == "foo 1 to 2, fix is no longer listed"
    (rest,) = steps([assignment(version="2")], have, RemoveSoftware)
    assert rest.change == PackageChange(remove=frozenset({"other"}), managed=frozenset({"other"}))
    assert rest.packages == ("fix", "gone", "other")
    assert rest.applications == ("bar",)


def test_the_agents_own_package_may_change_but_is_never_removed():
    ours = {"foo": "foo", "zkdeployment": "foo"}
    have = inventory(package("foo"), package("zkdeployment"), scripts=["foo"], managed=ours, markers=[marker()])
    upgraded = [assignment(patches={"zkdeployment": "2"})]
    assert steps(upgraded, have, ChangePackages)[0].change.want == {"zkdeployment": "2"}
    assert steps([assignment()], have, ChangePackages) == []
    (removal,) = steps([], have, RemoveSoftware)
    assert (removal.packages, removal.change.remove) == (("foo",), {"foo"})
    copy = [assignment(path="/zk", package="zkdeployment", version="git://host/repo#1")]
    assert not steps(copy, have, CheckOut)[0].replaces


def test_running_software_is_not_a_patch():
    have = inventory(package("foo-1"), markers=[marker(package="foo-1")], managed={"foo-1": "foo"})
    step = change([assignment(package="foo-2", version=None)], have)
    assert step.change == PackageChange({"foo-2": None}, managed=frozenset({"foo-1", "foo-2"}))


def test_unchanged_and_unmanaged_packages_may_not_be_changed():
    have = inventory(
        package("foo"),
        package("bar"),
        package("bash"),
        scripts=["foo", "bar"],
        managed={"foo": "foo", "old": "foo"},
    )
    step = change([assignment("/a", version="2"), assignment("/b", package="bar")], have)
    assert step.change.managed == {"foo", "old"}


def test_side_by_side_the_old_version_goes_last():
    have = inventory(
        package("foo-1"), scripts=["foo-1"], markers=[marker(package="foo-1")], managed={"foo-1": "foo"}
    )
    steps = plan([assignment(package="foo-2", version=None)], have).steps
    assert [type(step) for step in steps] == [ChangePackages, Deploy, RemoveSoftware]
    assert steps[1].reason == "package changed from foo-1 to foo-2"
    assert (steps[2].packages, steps[2].applications) == (("foo-1",), ())


def test_software_that_another_deployment_uses_is_kept():
    have = foo_host(marker("/a"), marker("/b"))
    assert [type(step) for step in plan([assignment("/b")], have).steps] == [Undeploy, Deploy]


def test_software_with_a_script_is_removed_also_when_an_older_tool_installed_it():
    have = inventory(package("foo-1.4"), package("bash"), scripts=["foo-1.4"])
    assert plan([], have).steps == (
        RemoveSoftware(
            PackageChange(remove=frozenset({"foo-1.4"}), managed=frozenset({"foo-1.4"})),
            ("foo-1.4",),
            ("foo",),
            "no deployment needs foo-1.4 any more",
            {"foo-1.4": "foo"},
        ),
    )


def test_remains_of_a_removed_package_are_cleared_after_a_crash():
    have = Inventory(directories=frozenset({"foo"}), managed={"foo": "foo"}, applications=frozenset({"foo"}))
    assert plan([], have).steps == (
        RemoveSoftware(PackageChange(), ("foo",), ("foo",), "no deployment needs foo any more"),
    )


def test_directories_and_packages_of_others_are_not_changed():
    have = Inventory(
        packages={"bash": (package("bash"),), "kernel": (package("kernel"), package("kernel", "2"))},
        scripts={"foo.old": script_of("foo.old")},
        directories=frozenset({"theirs", "foo.old"}),
        applications=frozenset({"theirs"}),
    )
    assert plan([], have).steps == ()


@pytest.mark.parametrize(
    ("wanted", "had", "installed", "reason"),
    [
        (assignment(), {"package": "foo", "version": "1"}, "1", "run again for this revision"),
        (assignment(), {}, "1", "run again for this revision"),
        (assignment(version="2"), {}, "1", "package changed: foo 1 to 2"),
        (assignment(version="2"), {"version": "1"}, "1", "package changed from foo 1 to 2"),
        (assignment(version="2"), {"version": "1"}, "2", "package changed from foo 1 to 2"),
        (assignment(patches={"fix": "3"}), {}, "1", "package changed: fix 3 is new"),
        (assignment(subtype="b"), {"package": "foo", "subtype": "a"}, "1", "subtype changed from a to b"),
        (assignment(), {"package": "foo", "subtype": "a"}, "1", "subtype changed from a to none"),
        (assignment(subtype="b"), {"package": "foo"}, "1", "subtype changed from none to b"),
        (assignment(subtype="b"), {}, "1", "run again for this revision"),
    ],
)
def test_a_deployment_has_the_reason_for_which_it_runs_again(wanted, had, installed, reason):
    (step,) = steps([wanted], foo_host(marker(**had), version=installed), Deploy)
    assert step.reason == reason


def test_files_of_older_tools_are_replaced():
    files = ("who,myfoo.0.deployed", "who:myfoo.0.deployed", "who,myfoo.0.script")
    (step,) = steps([assignment()], foo_host(marker(files=files)), Deploy)
    assert step.stale_files == ("who,myfoo.0.deployed", "who,myfoo.0.script")


CHECKOUT = "git://host/foo#1"


def checked_out(*markers: Marker, version=CHECKOUT, **fields):
    return inventory(scripts=["foo"], markers=markers, checkouts={"foo": version}, **fields)


def test_a_checkout_is_made_before_its_deployments():
    wanted = assignment(version=CHECKOUT)
    assert plan([wanted], Inventory()).steps == (
        CheckOut("foo", CHECKOUT, replaces=False, reason="new"),
        Deploy(wanted, Deployment("/who/myfoo", 0), "new"),
    )


def test_a_checkout_of_several_services_is_made_once():
    wanted = [assignment("/a", version=CHECKOUT), assignment("/b", version=CHECKOUT)]
    assert [type(step) for step in plan(wanted, Inventory()).steps] == [CheckOut, Deploy, Deploy]


@pytest.mark.parametrize(
    ("had", "reason"),
    [
        (CHECKOUT, "update and build again for this revision"),
        ("svn://host/foo", "version changed from svn://host/foo"),
    ],
)
def test_a_checkout_that_is_there_is_made_again(had, reason):
    wanted = [assignment(version=CHECKOUT)]
    first, second = plan(wanted, checked_out(marker(package="foo", version=had), version=had)).steps
    assert first == CheckOut("foo", CHECKOUT, replaces=True, reason=reason)
    assert isinstance(second, Deploy)


def test_an_unneeded_checkout_is_undone_and_removed_last():
    undeploy, tidy, remove = plan([], checked_out(marker(package="foo"))).steps
    assert undeploy.script == script_of("foo")
    assert tidy == RemoveSoftware(PackageChange(), (), ("foo",), "no deployment needs foo any more")
    assert remove == RemoveCheckout("foo", CHECKOUT, "no deployment needs it any more")


def test_a_checkout_named_like_a_version_is_an_application_of_its_own():
    have = inventory(scripts=["foo-1"], checkouts={"foo-1": CHECKOUT})
    tidy, remove = plan([assignment(package="foo", version="svn:/x")], have).steps[-2:]
    assert tidy.applications == ("foo-1",)
    assert remove.package == "foo-1"


def test_a_package_makes_room_for_a_checkout():
    change, check_out, deploy = plan(
        [assignment(version=CHECKOUT)], foo_host(marker(package="foo", version="1"))
    ).steps
    assert change == ChangePackages(
        PackageChange({}, frozenset({"foo"}), frozenset({"foo"})), {"foo": "foo"}, "foo is checked out now"
    )
    assert check_out == CheckOut("foo", CHECKOUT, replaces=True, reason="was a package")
    assert deploy.reason == f"package changed from foo 1 to {CHECKOUT}"


def test_a_checkout_is_removed_before_the_package_is_installed():
    remove, change, deploy = plan([assignment()], checked_out(marker(package="foo", version=CHECKOUT))).steps
    assert remove == RemoveCheckout("foo", CHECKOUT, "it is a package now")
    assert change.change == PackageChange(want={"foo": "1"}, managed=frozenset({"foo"}))
    assert deploy.reason == f"package changed from foo {CHECKOUT} to 1"


def test_a_foreign_package_with_the_name_of_a_checkout_is_not_changed():
    have = inventory(package("foo"), scripts=["foo"], checkouts={"foo": CHECKOUT})
    assert [type(step) for step in plan([assignment(version=CHECKOUT)], have).steps] == [CheckOut, Deploy]
    assert [type(step) for step in plan([], have).steps] == [RemoveSoftware, RemoveCheckout]
    assert not plan([], have).steps[0].change


def test_patches_of_an_application_that_becomes_a_checkout_go():
    managed = {"foo": "foo", "fix": "foo"}
    have = inventory(package("foo"), package("fix"), scripts=["foo"], managed=managed)
    change, _, _, remove = plan([assignment(version=CHECKOUT)], have).steps
    assert change.change.remove == {"foo", "fix"}
    assert (remove.packages, remove.applications) == (("fix",), ())


class TestAPackageOfTheSystem:
    """A package without a registry entry and without a deploy script: the agent did not install it."""

    WANTED = (assignment(patches={"fix": "2"}),)

    def test_that_is_changed_is_recorded_with_its_version_and_not_as_managed(self):
        have = inventory(package("foo"), package("fix", "1", "7"), scripts=["foo"], managed={"foo": "foo"})
        (step,) = steps(self.WANTED, have, ChangePackages)
        assert (step.originals, step.applications, step.change.preserve) == ({"fix": "0:1-7"}, {}, {"fix"})

    def test_an_unneeded_package_of_the_system_gets_its_version_back_and_is_not_removed(self):
        have = foo_host(marker(package="foo", version="1"))
        have = replace(have, packages={**have.packages, "fix": (package("fix", "2"),)}, originals={"fix": "0:1-7"})
        (step,) = steps([assignment()], have, ChangePackages)
        assert (step.change.want, step.change.remove, step.put_back) == ({"fix": "0:1-7"}, frozenset(), ("fix",))
        assert step.change.managed >= {"fix"}
        assert step.reason == "fix is the system's own and gets its version back"
        assert steps([assignment()], have, RemoveSoftware) == []

    def test_that_is_still_needed_keeps_its_record(self):
        have = foo_host(marker(package="foo", version="1"))
        have = replace(have, packages={**have.packages, "fix": (package("fix", "2"),)}, originals={"fix": "0:1-7"})
        assert steps(self.WANTED, have, ChangePackages) == []
        (step,) = steps([assignment(patches={"fix": "3"})], have, ChangePackages)
        assert (step.change.want, step.originals, step.applications) == ({"fix": "3"}, {}, {})

    @pytest.mark.parametrize("there", [(), (package("fix", "1", "7"),)])
    def test_that_was_removed_or_restored_only_loses_its_record(self, there):
        have = replace(inventory(*there), originals={"fix": "0:1-7"})
        (step,) = plan([], have).steps
        assert (bool(step.change), step.put_back) == (False, ("fix",))

    def test_for_two_architectures_is_recorded_and_gets_its_version_back_for_both(self):
        old = [package("fix", "1", arch=arch) for arch in ("i686", "x86_64")]
        new = [package("fix", "2", arch=arch) for arch in ("i686", "x86_64")]
        have = inventory(package("foo"), *old, scripts=["foo"], managed={"foo": "foo"})
        (step,) = steps(self.WANTED, have, ChangePackages)
        assert (step.change.want, step.originals, step.reason) == ({"fix": "2"}, {"fix": "0:1-1"}, "fix 1 to 2")
        have = inventory(package("foo"), *new, scripts=["foo"], managed={"foo": "foo"})
        assert steps(self.WANTED, have, ChangePackages) == []
        (step,) = steps([assignment()], replace(have, originals={"fix": "0:1-1"}), ChangePackages)
        assert (step.change.want, step.change.remove) == ({"fix": "0:1-1"}, frozenset())

    def test_that_has_an_older_version_for_another_architecture_is_changed_and_recorded_with_its_newest(self):
        have = inventory(
            package("foo"), package("fix", "2", arch="x86_64"), package("fix", "1", arch="i686"), scripts=["foo"]
        )
        (step,) = steps(self.WANTED, have, ChangePackages)
        assert (step.change.want, step.originals) == ({"fix": "2"}, {"fix": "0:2-1"})

    def test_that_is_a_kernel_module_stays_beside_the_wanted_version(self):
        old, new = package("fix", "1", arch="x86_64"), package("fix", "2", arch="x86_64")
        have = inventory(package("foo"), old, scripts=["foo"], managed={"foo": "foo"})
        have = replace(have, installonly=frozenset({"fix"}))
        (step,) = steps(self.WANTED, have, ChangePackages)
        assert (step.change.want, step.originals, step.applications) == ({"fix": "2"}, {"fix": "0:1-1"}, {})
        assert step.reason == "fix 2 is new"
        have = replace(have, packages={**have.packages, "fix": (old, new)}, originals=step.originals)
        assert steps(self.WANTED, have, ChangePackages) == []
        (step,) = steps([assignment()], have, ChangePackages)
        assert (bool(step.change), step.put_back) == (False, ("fix",))
        assert step.reason == "fix is the system's own and stays"
        assert steps([assignment()], have, RemoveSoftware) == []

    @pytest.mark.parametrize(
        ("scope", "outdated"),
        [
            ({}, ("fix",)),
            ({"update": "security"}, ("fix",)),
            ({"update": ("f*",)}, ("fix",)),
            ({"update": ("glibc",)}, ()),
            ({"exclude": ("fix",)}, ()),
        ],
    )
    @pytest.mark.parametrize("wanted", [[assignment()], []], ids=["patch dropped", "service removed"])
    def test_that_an_update_of_the_system_covers_does_not_get_the_version_from_before_the_update(
        self, wanted, scope, outdated
    ):
        have = replace(foo_host(marker(package="foo", version="1")), originals={"fix": "0:1-7"})
        have = replace(have, packages={**have.packages, "fix": (package("fix", "2"),)})
        system = SystemNeed(WantedSystem("/os/web", "2026-11-20", **scope))
        update, *later = (
            step
            for step in plan(wanted, have, system=system).steps
            if isinstance(step, UpdateSystem | ChangePackages)
        )
        assert update.outdated == outdated
        assert [step.put_back for step in later] == ([] if outdated else [("fix",)])

    def test_that_is_still_needed_does_not_get_the_version_from_before_an_update_later(self):
        have = replace(foo_host(marker(package="foo", version="1")), originals={"fix": "0:1-7"})
        have = replace(have, packages={**have.packages, "fix": (package("fix", "2"),)})
        update = plan(self.WANTED, have, system=SystemNeed(WantedSystem("/os/web", "2026-11-20"))).steps[0]
        assert (update.outdated, "fix" in update.change.kept) == (("fix",), True)
        assert steps([assignment()], replace(have, originals={}), ChangePackages) == []


# The following tests stop a simulated host after every single effect of every plan.

PATHS = ("/a", "/b", "/c/d")
CHECKOUTS = ("git:/srv/x#1", "svn:/srv/x")
OFFERED = [package for package in REPOSITORY if package.name not in CONTROLLERS]


def application(name):
    return name.removesuffix("-1").removesuffix("-2")


@st.composite
def wanted_sets(draw):
    """Generate wanted assignments, with no package in two versions."""
    versions = {name: draw(st.sampled_from(["1", "2", *CHECKOUTS])) for name in ("foo", "bar")}
    versions["fix"] = draw(st.sampled_from("12"))
    result = []
    for path in draw(st.sets(st.sampled_from(PATHS))):
        name = draw(st.sampled_from(["foo", "bar", "foo-1", "foo-2"]))
        version = versions.get(name)
        patches = {"fix": versions["fix"]} if draw(st.booleans()) and version not in CHECKOUTS else {}
        rerun = {"rerun": draw(st.sampled_from(Rerun)), "properties": draw(st.sampled_from("pq"))}
        result.append(assignment(path, name, version, n=draw(st.integers(0, 2)), patches=patches, **rerun))
    return result


@st.composite
def hosts(draw):
    """Generate hosts in any state, including states that no run of the agent leaves."""
    host = SimulatedHost()
    for offered in draw(st.lists(st.sampled_from(OFFERED), max_size=5, unique=True)):
        host.install(offered)
        if offered.name != "bash" and draw(st.booleans()):
            host.managed[offered.name] = application(offered.name)
    if "fix" in host.packages.keys() - host.managed.keys() and draw(st.booleans()):
        host.originals["fix"] = "0:1-1"
    if "fix" in host.managed:
        host.managed["fix"] = draw(st.sampled_from(["foo", "bar"]))
    for name in draw(st.sets(st.sampled_from(["foo-1", "bar"]))):
        host.managed[name] = name.removesuffix("-1")
        host.directories.add(name)
    for name in draw(st.sets(st.sampled_from(["foo", "bar", "gone"]))) - host.packages.keys():
        host.check_out(name, draw(st.sampled_from(CHECKOUTS)))
        host.managed.pop(name, None)
    host.directories.add("theirs")
    host.etc.add("theirs")
    deployed = sorted(host.scripts)
    for path in draw(st.sets(st.sampled_from([*PATHS, "/old"]), max_size=3 if deployed else 0)):
        name = draw(st.sampled_from(deployed))
        recorded = name if draw(st.booleans()) else None
        made = marker(path, draw(st.integers(0, 2)), application(name), package=recorded)
        host.markers[made.application, made.deployment] = made
        host.running.add((made.application, made.deployment))
        host.etc.add(made.application)
    for name in draw(st.sets(st.sampled_from(sorted(host.managed)))) if host.managed else ():
        if len(host.packages.get(name, ())) == 1 and name not in WITHOUT_SCRIPT:
            host.lose(name)
    return host


def finish(host, wanted, lasting=()):
    """Plan and take all steps, to the end."""
    for _ in host.take(plan(wanted, host.inventory(), lasting=lasting)):
        pass
    return host


def size(wanted, host, lasting=()):
    """Return the effects of a plan beyond running the wanted deployments again."""
    names = set()
    for step in plan(wanted, host.inventory(), lasting=lasting).steps:
        match step:
            case Undeploy():
                names.add((step.application, step.deployment))
            case ChangePackages():
                names |= set(step.change.want) | step.change.remove | step.change.reinstall
            case RemoveSoftware():
                names |= {("software", name) for name in step.packages}
            case CheckOut() if step.version != host.checkouts.get(step.package):
                names.add(("checkout", step.package))
            case RemoveCheckout():
                names.add(("checkout", step.package))
    return names


def check_every_stop(wanted, start, lasting=()):
    """Stop after every effect, plan again and finish; return the end, which is the same for all.

    If only markers were left of an application and the last of them was removed, nothing shows any more that its
    empty directory was ours, so that it does not count whether it is still there.
    """
    owned = {*start.checkouts, *map(application, start.scripts), *map(application, start.managed), "theirs"}

    def finished(host):
        finish(host, wanted, lasting)
        host.etc -= {marked for marked, _ in start.markers} - owned - {marked for marked, _ in host.markers}
        return host

    end = finished(start.copy())
    before = size(wanted, start, lasting)
    effects = sum(1 for _ in start.copy().take(plan(wanted, start.inventory(), lasting=lasting)))
    for stop in range(effects + 1):
        host = start.copy()
        taken = host.take(plan(wanted, host.inventory(), lasting=lasting))
        for _ in range(stop):
            next(taken)
        rest = size(wanted, host, lasting)
        assert rest <= before, f"more to do after stop {stop}"
        assert finished(host) == end, f"another end after stop {stop}"
        before = rest
    return end


def host_that_lost_the_script_of_a_running_deployment():
    host = SimulatedHost()
    host.install(next(offer for offer in REPOSITORY if offer.name == "foo-1"))
    host.managed["foo-1"] = "foo"
    old = marker("/a", package="foo-1")
    host.markers[old.application, old.deployment] = old
    host.running.add((old.application, old.deployment))
    host.etc.add("foo")
    host.lose("foo-1")
    return host


LASTING = st.sets(st.sampled_from([*PATHS, "/old"]))


@given(wanted_sets(), hosts(), LASTING)
@example([assignment("/a", "foo-2", None)], host_that_lost_the_script_of_a_running_deployment(), set())
@example([assignment("/b", "foo-2", None)], host_that_lost_the_script_of_a_running_deployment(), {"/a"})
def test_stopped_anywhere_a_host_arrives_at_the_same_end(wanted, start, lasting):
    check_every_stop(wanted, start, lasting)


@given(wanted_sets(), hosts(), LASTING)
def test_undeployments_before_or_after_the_deployments_arrive_at_the_same_end(wanted, start, lasting):
    assert finish(start.copy(), wanted, lasting) == finish(start.copy(), wanted)


@given(wanted_sets(), wanted_sets(), st.data())
def test_stopped_anywhere_and_asked_for_something_else_a_host_arrives_there(first, second, data):
    host = SimulatedHost()
    taken = host.take(plan(first, host.inventory()))
    for _ in range(data.draw(st.integers(0, 30))):
        next(taken, None)
    end = finish(host, second)
    fresh = finish(SimulatedHost(), second)
    assert (end.packages, end.checkouts, end.scripts, end.directories, end.etc) == (
        fresh.packages,
        fresh.checkouts,
        fresh.scripts,
        fresh.directories,
        fresh.etc,
    )
    assert (end.markers, end.managed.keys()) == (fresh.markers, fresh.managed.keys())
    assert {key: end.ran[key] for key in end.markers} == fresh.ran


@given(wanted_sets(), hosts())
def test_a_converged_host_matches_the_tree_and_has_nothing_to_change(wanted, start):
    theirs = start.packages.get("bash")
    host = finish(start, wanted)
    assert size(wanted, host) == set()
    deployments = {(assignment.application, each) for assignment in wanted for each in assignment.deployments}
    assert host.markers.keys() == deployments
    assert host.scripts == {assignment.package for assignment in wanted if assignment.n}
    assert host.checkouts == {
        assignment.package: assignment.version
        for assignment in wanted
        if assignment.n and assignment.version in CHECKOUTS
    }
    assert host.packages.get("bash") == theirs
    assert "theirs" in host.directories & host.etc
    unasked = host.packages.keys() - {
        name for assignment in wanted if assignment.n for name in (assignment.package, *assignment.patches)
    }
    assert unasked <= WITHOUT_SCRIPT
    assert unasked.isdisjoint(host.managed)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([], [assignment(n=2)]),
        ([assignment(n=2)], []),
        ([assignment(n=2)], [assignment(n=1, version="2")]),
        ([assignment(package="foo-1", version=None)], [assignment(package="foo-2", version=None)]),
        ([assignment(patches={"fix": "1"})], [assignment(patches={"fix": "2"})]),
        ([assignment(patches={"fix": "1"})], [assignment(version="2")]),
        ([assignment(patches={"fix": "1"})], []),
        ([assignment()], [assignment(package="bar")]),
        ([assignment("/a"), assignment("/b", package="bar")], [assignment("/b", package="bar")]),
        ([], [assignment(version=CHECKOUT)]),
        ([assignment(version=CHECKOUT)], []),
        ([assignment(version=CHECKOUT)], [assignment(version="svn:/srv/x")]),
        ([assignment(version=CHECKOUT)], [assignment()]),
        ([assignment(patches={"fix": "1"})], [assignment(version=CHECKOUT)]),
        ([assignment(version=CHECKOUT)], [assignment(package="bar", version=CHECKOUT)]),
    ],
)
@pytest.mark.parametrize("lasting", [(), ("/who/myfoo", "/a", "/b")])
def test_usual_changes_can_be_stopped_anywhere(first, second, lasting):
    start = finish(SimulatedHost(), first)
    end = check_every_stop(second, start, lasting)
    assert end == finish(SimulatedHost(), second)
