import json
from dataclasses import replace

import pytest

from zkdeployment.agent.rules.plan_text import action, describe, sentence
from zkdeployment.base.deployment import Assignment, Deployment
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

MYFOO = Deployment("/who/myfoo", 0)
UNDEPLOY = Undeploy(
    MYFOO, "foo", "/opt/foo/bin/zookeeper-deploy", ("who:myfoo.0.deployed",), "not wanted any more"
)
CHANGE = ChangePackages(
    PackageChange({"foo": "1.4", "bar-2": None}, frozenset({"fix"}), frozenset({"foo", "bar-2", "fix"})),
    {"foo": "foo", "bar-2": "bar"},
    "foo 1.0 to 1.4",
)
DEPLOY = Deploy(Assignment("/who/myfoo", 1, "foo", "foo", "sub", "1.4"), MYFOO, "new")
VERSIONED = Deploy(Assignment("/who/myfoo", 1, "foo-1", "foo"), MYFOO, "new")
REMOVE = RemoveSoftware(
    PackageChange(remove=frozenset({"foo"})), ("foo", "old"), ("foo",), "no deployment needs it"
)
CHECK_OUT = CheckOut("foo", "git:/srv/foo#1", replaces=False, reason="new")
REMOVE_CHECKOUT = RemoveCheckout("foo", "git:/srv/foo#1", "it is a package now")
LEFTOVER = RemoveSoftware(PackageChange(), ("foo",), (), "no deployment needs foo any more")


@pytest.mark.parametrize(
    ("step", "short", "line"),
    [
        (UNDEPLOY, "undeploy /who/myfoo 0", "undeploy /who/myfoo 0 (foo): not wanted any more"),
        (CHANGE, "change packages", "change packages (bar-2, foo 1.4, -fix): foo 1.0 to 1.4"),
        (DEPLOY, "deploy /who/myfoo 0", "deploy /who/myfoo 0 (foo sub 1.4): new"),
        (VERSIONED, "deploy /who/myfoo 0", "deploy /who/myfoo 0 (foo-1): new"),
        (CHECK_OUT, "check out /opt/foo", "check out /opt/foo (git:/srv/foo#1): new"),
        (
            REMOVE_CHECKOUT,
            "remove checkout /opt/foo",
            "remove checkout /opt/foo (git:/srv/foo#1): it is a package now",
        ),
        (REMOVE, "remove software", "remove software (-foo): no deployment needs it"),
        (LEFTOVER, "remove software", "remove software: no deployment needs foo any more"),
    ],
)
def test_a_step_has_a_title_and_a_sentence(step, short, line):
    assert step.title == short
    assert sentence(step) == line


def test_a_plan_is_a_list_of_records():
    records = describe(Plan((UNDEPLOY, CHANGE, DEPLOY, REMOVE)))
    assert json.loads(json.dumps(records)) == [
        {
            "step": "undeploy",
            "path": "/who/myfoo",
            "number": 0,
            "application": "foo",
            "script": "/opt/foo/bin/zookeeper-deploy",
            "arguments": ["-u", "/who/myfoo", "0"],
            "lock": None,
            "reason": "not wanted any more",
            "removed_files": ["/etc/foo/who:myfoo.0.deployed"],
        },
        {
            "step": "change packages",
            "install": {"bar-2": None, "foo": "1.4"},
            "reinstall": [],
            "remove": ["fix"],
            "reason": "foo 1.0 to 1.4",
        },
        {
            "step": "deploy",
            "path": "/who/myfoo",
            "number": 0,
            "application": "foo",
            "package": "foo",
            "subtype": "sub",
            "version": "1.4",
            "script": "zookeeper-deploy",
            "arguments": ["-r", "sub", "/who/myfoo", "0"],
            "lock": "who,myfoo",
            "reason": "new",
        },
        {
            "step": "remove software",
            "remove": ["foo"],
            "packages": ["foo", "old"],
            "applications": ["foo"],
            "reason": "no deployment needs it",
            "removed_files": ["/opt/foo/", "/opt/old/", "/etc/foo/"],
        },
    ]
    assert describe(Plan((CHECK_OUT, REMOVE_CHECKOUT))) == [
        {"step": "check out", "package": "foo", "version": "git:/srv/foo#1", "reason": "new"},
        {
            "step": "remove checkout",
            "package": "foo",
            "version": "git:/srv/foo#1",
            "reason": "it is a package now",
            "removed_files": ["/opt/foo/"],
        },
    ]
    assert describe(Plan()) == []


def test_a_plan_with_a_role_controller_shows_its_scripts_and_only_the_lock_of_the_role():
    controller = Assignment("/roles/web", 1, "ctl", "ctl", version="2")
    change = ChangeController(
        PackageChange({"ctl": "2"}, frozenset({"old"}), frozenset({"ctl", "old"})),
        ("old",),
        {"ctl": "ctl", "old": "old"},
        "why",
    )
    start, end = StartDeployments(controller, "before"), EndDeployments(controller, "after")
    assert [sentence(step) for step in (change, start, end)] == [
        "change role controller (ctl 2, -old): why",
        "starting-deployments /roles/web (ctl 2): before",
        "ending-deployments /roles/web (ctl 2): after",
    ]
    bracket = {
        "path": "/roles/web",
        "package": "ctl",
        "version": "2",
        "arguments": ["/roles/web"],
        "lock": "web",
    }
    changed, started, deployed, ended = describe(Plan((change, start, DEPLOY, end)))
    assert changed == {
        "step": "change role controller",
        "install": {"ctl": "2"},
        "reinstall": [],
        "remove": ["old"],
        "reason": "why",
        "removed_files": ["/opt/old/"],
    }
    names = ("starting-deployments", "ending-deployments")
    assert [started, ended] == [
        {"step": name, "script": name, "reason": reason} | bracket
        for name, reason in zip(names, ("before", "after"), strict=True)
    ]
    assert [action(step, controller) for step in (change, start, DEPLOY, end)] == [
        "removes /opt/old/",
        "runs starting-deployments /roles/web under the lock of role web",
        "runs zookeeper-deploy -r sub /who/myfoo 0 under the lock of role web",
        "runs ending-deployments /roles/web under the lock of role web",
    ]
    assert deployed["lock"] is None


def test_a_step_shows_its_script_and_its_lock():
    assert action(UNDEPLOY, None).startswith("runs /opt/foo/bin/zookeeper-deploy -u /who/myfoo 0;")
    assert action(DEPLOY, None) == "runs zookeeper-deploy -r sub /who/myfoo 0 under the lock of /who/myfoo"
    assert action(CHANGE, None) == ""


def test_an_undeployment_of_a_service_that_stays_shows_its_lock():
    stays = replace(UNDEPLOY, locked=True)
    assert " -u /who/myfoo 0 under the lock of /who/myfoo; removes " in action(stays, None)
    controller = Assignment("/roles/web", 1, "ctl", "ctl", version="1")
    assert " -u /who/myfoo 0 under the lock of role web; removes " in action(stays, controller)
    assert [record["lock"] for record in describe(Plan((UNDEPLOY, stays)))] == [None, "who,myfoo"]


def test_a_step_names_every_file_that_it_removes():
    old_pair = ("who,myfoo.0.deployed", "who,myfoo.0.script")
    undeploy = Undeploy(MYFOO, "foo", "/opt/foo/bin/zookeeper-deploy", old_pair, "not wanted any more")
    assert action(undeploy, None) == (
        "runs /opt/foo/bin/zookeeper-deploy -u /who/myfoo 0; removes /etc/foo/who,myfoo.0.deployed,"
        " /etc/foo/who,myfoo.0.script, /etc/foo/who:myfoo.0.deployed"
    )
    deploy = Deploy(DEPLOY.assignment, MYFOO, "new", stale_files=old_pair)
    assert action(deploy, None).endswith("; removes /etc/foo/who,myfoo.0.deployed, /etc/foo/who,myfoo.0.script")
    assert action(REMOVE, None) == "removes /opt/foo/, /opt/old/, /etc/foo/"
    assert action(REMOVE_CHECKOUT, None) == "removes /opt/foo/"
    assert [action(step, None) for step in (CHANGE, CHECK_OUT)] == ["", ""]


def test_packages_that_are_installed_again_are_named():
    again = ChangePackages(
        PackageChange(reinstall=frozenset({"foo"})), {"foo": "foo"}, "foo has lost its deploy script"
    )
    assert sentence(again) == "change packages (foo again): foo has lost its deploy script"
    assert describe(Plan((again,)))[0]["reinstall"] == ["foo"]
    undeploy = Undeploy(MYFOO, "foo", None, (), "not wanted any more", package="foo")
    assert action(undeploy, None).startswith("runs zookeeper-deploy -u /who/myfoo 0;")


def test_steps_that_wait_for_other_hosts_name_the_awaited_service():
    waiting = replace(DEPLOY, assignment=replace(DEPLOY.assignment, after=("/shop/db", "/shop/mail")))
    assert action(waiting, None).endswith(
        "under the lock of /who/myfoo, after all hosts have deployed /shop/db, /shop/mail"
    )
    last = replace(UNDEPLOY, locked=True, last=True)
    controller = Assignment("/roles/web", 1, "ctl", "ctl", version="1")
    assert "under the lock of /who/myfoo, after the hosts that gain the service have it" in action(
        last, controller
    )
    first, second = describe(Plan((waiting, last)))
    assert first["after"] == ["/shop/db", "/shop/mail"]
    assert (second["last"], second["lock"]) == (True, "who,myfoo")
