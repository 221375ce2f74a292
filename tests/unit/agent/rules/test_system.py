"""The steps of the operating system: an update, then a reboot, from the node and what the host has completed."""

from dataclasses import replace

import pytest

from support.builders import make_inventory, make_package
from zkdeployment.agent.rules.plan_text import action, sentence, system_lines
from zkdeployment.agent.rules.planner import plan
from zkdeployment.agent.rules.software import WantedSoftware
from zkdeployment.agent.rules.system import SystemNeed, host_system, must_reboot, system_steps
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.machine.reboots import SystemState, deployment_of
from zkdeployment.base.plan import EndDeployments, Reboot, StartDeployments, UpdateSystem
from zkdeployment.base.system import HostSystem, RebootFacts, RebootRule, WantedSystem

OLD = WantedSystem("/os/web", "2026-10-16")
NEW = WantedSystem("/os/web", "2026-11-20")
DONE = SystemState(updated=NEW)
OPEN = replace(DONE, is_settled=False)
WEB = Assignment("/shop/web", 1, "web", "web", version="1")
CONTROLLER = Assignment("/roles/web", 0, "ctl", "ctl", version="1")


FIRST = SystemState()


def kinds(wanted, state=FIRST, **fields):
    return [step.kind for step in system_steps(SystemNeed(wanted, state, **fields), frozenset())]


@pytest.mark.parametrize(
    ("wanted", "state", "expected"),
    [
        (None, SystemState(), []),
        (NEW, SystemState(), ["update system", "reboot"]),
        (NEW, SystemState(updated=OLD), ["update system", "reboot"]),
        (OLD, DONE, ["update system", "reboot"]),
        (NEW, DONE, []),
        (NEW, OPEN, ["reboot"]),
        (NEW, replace(DONE, is_updating=True), ["update system", "reboot"]),
        (replace(NEW, generation=2), DONE, ["update system", "reboot"]),
        (replace(NEW, exclude=("a*",)), DONE, ["update system", "reboot"]),
        (replace(NEW, timeout=60), DONE, []),
        (replace(NEW, reboot=RebootRule.NEVER), SystemState(), ["update system"]),
        (replace(NEW, reboot=RebootRule.NEVER), OPEN, []),
        (replace(NEW, update="none", reboot=RebootRule.ALWAYS), SystemState(), ["reboot"]),
        (replace(NEW, update="none", reboot=RebootRule.ALWAYS), SystemState(updated=OLD), ["reboot"]),
    ],
)
def test_steps_follow_from_the_node_and_the_completed_update(wanted, state, expected):
    assert kinds(wanted, state) == expected


def test_a_host_that_may_not_reboot_only_updates():
    assert kinds(NEW, may_reboot=False) == ["update system"]
    assert kinds(NEW, OPEN, may_reboot=False) == []


def test_an_update_names_its_reason_and_keeps_the_packages_of_services_and_the_agent():
    kept = WantedSoftware.of((), None).kept(make_inventory(managed={"foo": "foo"}))
    update, reboot = system_steps(SystemNeed(NEW, SystemState(updated=OLD)), kept)
    assert isinstance(update, UpdateSystem)
    assert update.change.kept == {"foo", "zkdeployment"}
    assert sentence(update) == (
        "update system /os/web to 2026-11-20: release changed from 2026-10-16 to 2026-11-20"
    )
    assert sentence(reboot) == "reboot for /os/web: if updated packages need it"
    assert action(reboot, None) == "reboots if needed under the lock of /os/web"


def test_no_update_changes_the_subpackages_of_the_agent():
    installed = ["zkdeployment", "zkdeployment-server", "zkdeploymentx", "bash"]
    have = make_inventory(*(make_package(name) for name in installed))
    assert WantedSoftware.of((), None).kept(have) == {"zkdeployment", "zkdeployment-server"}


@pytest.mark.parametrize(
    ("rule", "reasons", "boots", "expected"),
    [
        (RebootRule.IF_NEEDED, (), 0, False),
        (RebootRule.IF_NEEDED, ("kernel",), 0, True),
        (RebootRule.IF_NEEDED, ("kernel",), 1, True),
        (RebootRule.ALWAYS, (), 0, True),
        (RebootRule.ALWAYS, (), 1, False),
        (RebootRule.NEVER, ("kernel",), 0, False),
    ],
)
def test_the_rule_of_the_node_decides_whether_a_host_reboots(rule, reasons, boots, expected):
    wanted = replace(NEW, reboot=rule)
    state = replace(OPEN, boots={str(deployment_of(NEW)): boots} if boots else {})
    assert must_reboot(wanted, state, reasons, may_reboot=True) is expected
    assert not must_reboot(wanted, state, reasons, may_reboot=False)


def test_the_system_comes_before_the_software_of_services():
    made = plan([WEB], Inventory(), system=SystemNeed(NEW))
    assert [step.kind for step in made.steps] == ["update system", "reboot", "change packages", "deploy"]


def test_a_controller_brackets_the_update_and_the_reboot():
    made = plan([], Inventory(), CONTROLLER, system=SystemNeed(NEW))
    kept = [step.kind for step in made.steps if not step.kind.startswith("change")]
    assert kept == ["starting-deployments", "update system", "reboot", "ending-deployments"]
    assert isinstance(made.steps[-1], EndDeployments)
    assert any(isinstance(step, StartDeployments) for step in made.steps)


def test_the_packages_of_services_are_kept_by_the_update():
    update = plan([WEB], Inventory(managed={"old": "old"}), system=SystemNeed(NEW)).steps[0]
    assert isinstance(update, UpdateSystem)
    assert update.change.kept == {"old", "web", "zkdeployment"}


def test_a_stopped_group_withholds_no_step_of_the_system():
    grouped = replace(WEB, group="p/app/v1/shop")
    made = plan([grouped], Inventory(), stopped=["p/app/v1/shop"], system=SystemNeed(NEW))
    assert [step.kind for step in made.steps] == ["update system", "reboot"]
    assert isinstance(made.steps[1], Reboot)


@pytest.mark.parametrize(
    ("updated_at", "changed", "before", "due"),
    [
        (500.0, (), HostSystem(due=150.0), None),
        (500.0, ("systemd",), HostSystem(due=450.0), 500.0),
        (50.0, ("systemd",), None, 900.0),
        (50.0, ("systemd",), HostSystem(), 900.0),
        (50.0, ("systemd",), HostSystem(due=150.0), 150.0),
    ],
)
def test_a_reboot_is_due_since_the_update_or_since_the_host_first_reported_it(updated_at, changed, before, due):
    facts = RebootFacts("b", 100.0, "5.14-1", "5.14-2", changed=frozenset(changed))
    expected = HostSystem("2026-11-20", 1, "5.14-1", "5.14-2", changed, due, updated=updated_at)
    assert host_system(replace(DONE, time=updated_at), facts, before, 900.0) == expected


@pytest.mark.parametrize(
    ("before", "release"),
    [
        (FIRST, None),
        (FIRST.after_update(OLD, 50.0), OLD.release),
        (replace(FIRST.after_update(OLD, 50.0), release=None), OLD.release),  # as former agents recorded it
    ],
)
def test_a_host_reports_the_release_of_its_last_update_also_after_a_node_that_only_reboots(before, release):
    state = before.settled(replace(NEW, update="none")).settled(replace(NEW, update="none", generation=9))
    assert host_system(state, RebootFacts("b", 100.0, "5.14-1"), None, 900.0).release == release


@pytest.mark.parametrize(
    ("rule", "reasons", "problem", "lines"),
    [
        (RebootRule.IF_NEEDED, ("glibc", "systemd"), "", ["the packages glibc, systemd ask for it"]),
        (RebootRule.IF_NEEDED, (), "", ["not needed: no package asks for it"]),
        (RebootRule.ALWAYS, (), "", ["no package asks for it"]),
        (RebootRule.IF_NEEDED, (), "the disk is full", []),
    ],
)
def test_a_preview_names_the_packages_that_ask_for_the_reboot(rule, reasons, problem, lines):
    _, reboot = system_steps(SystemNeed(replace(NEW, reboot=rule)), frozenset())
    assert list(system_lines(reboot, (), reasons, problem)) == lines
