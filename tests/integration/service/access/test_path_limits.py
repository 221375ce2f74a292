"""Operators who are limited to paths: what each act and each operation of the API permits them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import pytest

from support.branches import Branch
from support.checks.fleet import system_document
from support.checks.instances import KEY, instance_of, version
from support.fleets.written import WrittenFleet
from support.intents import CLUSTER, GROUP
from support.service import RunningService, form_token, running_service
from support.waiting import wait_until
from support.web.forms import form_of, submit
from zkdeployment.base.errors import UnreachableError
from zkdeployment.checks.rules.instance import CheckInstance, CheckState
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.feed import records_of
from zkdeployment.intents.rules.instances import IntentRecord
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kazoo.client import KazooClient

    from zkdeployment.intents.documents import Intent

SERVICE = "  /{} : web\n    version = '1'\n    /deploy\n"
DEPLOYED = f"{SERVICE}      /web\n"
#: A new intent may govern ``e`` and ``f``, which are not deployed.
SERVICES = "".join([*map(DEPLOYED.format, "abcd"), *map(SERVICE.format, "ef")])
TREE = "".join(f"/{top}\n{SERVICES}" for top in ("p1", "p2"))

#: The services of each group, and of each cluster, by its name. The operator is limited to ``/p1``.
PARTS: dict[str, tuple[str, ...]] = {
    "inside": ("/p1/{0}",),
    "outside": ("/p2/{0}",),
    "partly": ("/p1/{1}", "/p2/{1}"),
}

#: The operations that need a right which operators do not have.
NOT_FOR_OPERATORS = {
    ("PATCH", "/deployments/id/{uuid}/{result}"),
    ("PUT", "/deployments/monitoring/{system}/results"),
    ("POST", "/deployments/monitoring/{system}/fetch"),
    ("POST", "/deployments/monitoring/{system}/answers"),
    ("POST", "/api/v1/nodes"),
    ("POST", "/api/v1/sessions"),
    ("PUT", "/api/v1/sessions/{number}"),
    ("POST", "/api/v1/tenants"),
    ("PUT", "/api/v1/tenants/{number}"),
}

GROUPS = "/v2/projects/{project}/composite-apps/{composite_app}/{version}/deployment-intent-groups"
CLUSTERS = "/v2/cluster-providers/{provider}/clusters"
CHECKS = "/api/v1/checks"
REASON = {"reason": "r"}


class Case(NamedTuple):
    """A request, and whether an operator who is limited to ``/p1`` may send it; ``template`` names its path."""

    allowed: bool
    method: str
    template: str
    names: Mapping[str, str]
    body: object = None

    @property
    def path(self) -> str:
        return self.template.format(**self.names)


class IntentTable(NamedTuple):
    """The addresses and documents of groups, or of clusters."""

    template: str
    names: Mapping[str, str]
    key: str
    verbs: tuple[str, ...]
    services: str
    #: The verbs without a page.
    without_page: tuple[str, ...] = ()

    def parts(self, kind: str, services: str = "") -> dict[str, tuple[str, ...]]:
        """Return the apps of the group or cluster with a name."""
        paths = [path.format(*(services or self.services)) for path in PARTS[kind]]
        return {f"app{number}": (path,) for number, path in enumerate(paths)}

    def body(self, name: str, kind: str, services: str = "") -> object:
        """Return a document with a name and with the apps of a kind."""
        profile = {"composite-profile": "plain"} if self.key == "apps" else {}
        return {"metadata": {"name": name}, "data": {self.key: self.parts(kind, services), **profile}}

    def cases(self) -> Iterator[Case]:
        """Return the requests for all kinds."""
        one = f"{self.template}/{{name}}"
        for kind in PARTS:
            is_inside, named = kind == "inside", {**self.names, "name": kind}
            yield Case(is_inside, "POST", self.template, self.names, self.body("new", kind, "ef"))
            for wanted in PARTS:
                yield Case(is_inside and wanted == "inside", "PUT", one, named, self.body(kind, wanted))
            for verb in (*self.verbs, *self.without_page):
                body = REASON | ({"instance": 1} if verb == "rollback" else {})
                yield Case(is_inside, "POST", f"{one}/{verb}", named, body)
            yield Case(is_inside, "DELETE", one, named)


GROUP_TABLE = IntentTable(
    GROUPS,
    {"project": "p1", "composite_app": "store", "version": "v1"},
    "apps",
    ("adopt", "approve", "instantiate", "rollback", "terminate"),
    "ab",
    ("resume",),
)
CLUSTER_TABLE = IntentTable(
    CLUSTERS, {"provider": "ams"}, "network-intents", ("adopt", "apply", "terminate"), "cd"
)

#: The objects of check configurations by their names.
OBJECTS = {"inside": "/p1/a", "outside": "/p2/a", "everywhere": "/"}


def check(name: str, path: str) -> dict[str, object]:
    data = {"object": path, "monitoring": "nagios1", "check": {"command": "check_tcp"}}
    return {"metadata": {"name": name}, "data": data}


def failed_check(path: str) -> CheckInstance:
    """Return a check instance of the service at a path, which the monitoring system could not deploy."""
    return replace(instance_of(version(0, CheckState.ROLLOUT_FAILED, "A")), key=replace(KEY, path=path))


#: The acts on promotions, with what they need besides a reason.
PROMOTION_ACTS: Mapping[str, Mapping[str, str]] = {
    "pause": {},
    "resume": {},
    "abort": {},
    "promote": {"group": "x"},
    "fail": {"group": "x"},
    "withhold": {"fleet": "x"},
    "release": {"fleet": "x"},
    "pin": {"fleet": "x"},
    "unpin": {"fleet": "x"},
    "run-from": {"revision": "abcd"},
    "follow": {},
}


def cases() -> Iterator[Case]:
    yield Case(True, "POST", "/api/v1/stop", {}, REASON)
    for verb in ("hold", "resume", "rollback", "rollout/pause", "rollout/resume", "rollout/abort"):
        yield Case(False, "POST", f"/api/v1/{verb}", {}, REASON)
    yield Case(False, "POST", "/api/v1/publish", {}, {**REASON, "timeout": 0})
    yield Case(False, "POST", "/api/v1/resume", {}, {**REASON, "latest": True})
    for verb in ("abandon", "allow-removal"):
        yield Case(False, "POST", f"{CHECKS}/systems/{{system}}/{verb}", {"system": "nagios1"}, REASON)
    yield Case(False, "POST", "/api/v1/rollback", {}, {**REASON, "dry_run": True})
    for verb in ("promote", "fail"):
        yield Case(False, "POST", f"/api/v1/rollout/{verb}", {}, {**REASON, "group": "x"})
    yield Case(False, "POST", "/api/v1/retry", {}, {**REASON, "host": "h1"})
    yield from (
        Case(False, "POST", f"/api/v1/{verb}", {}, {**REASON, "hosts": ["h1"]})
        for verb in ("forget", "cordon", "uncordon")
    )
    for verb, more in PROMOTION_ACTS.items():
        yield Case(False, "POST", f"/api/v1/promotion/{verb}", {}, {**REASON, **more})
    for name in ("/p1/a", "/agent-locks/p1,b", "/p2/a", "/agent-locks/p2,b", "web", "/roles/web"):
        yield Case("p1" in name, "POST", "/api/v1/locks/release", {}, {**REASON, "name": name})
    yield from GROUP_TABLE.cases()
    yield from CLUSTER_TABLE.cases()
    for path in ("/p1/a", "/p2/a"):
        yield Case(path == "/p1/a", "POST", "/api/v1/releases", {}, {**REASON, "paths": [path]})
    for name, path in OBJECTS.items():
        is_inside, one, named = name == "inside", f"{CHECKS}/{{name}}", {"name": name}
        yield Case(is_inside, "POST", CHECKS, {}, check("new", path))
        for wanted in ("/p1", "/p2", "/"):
            yield Case(is_inside and wanted == "/p1", "PUT", one, named, check(name, wanted))
        yield Case(is_inside, "DELETE", one, named)
    for path in ("/p1/a", "/p2/a"):
        uuid = {"uuid": failed_check(path).id}
        yield Case(path == "/p1/a", "POST", f"{CHECKS}/instances/{{uuid}}/retry", uuid, REASON)


CASES = [*cases()]


class Stage(NamedTuple):
    """A fleet with intents, checks and locks at ``/p1`` and ``/p2``, and an operator who is limited to ``/p1``."""

    service: RunningService
    branch: Branch
    ben: tuple[str, str]

    def send(self, case: Case, login: tuple[str, str]) -> tuple[int, str]:
        """Send a request; return the status and the text of the response."""
        answer = self.service.client.request(case.method, case.path, json=case.body, auth=login)
        return answer.status_code, answer.text

    def acts(self) -> list[str]:
        """Return the acts of the limited operator."""
        return [act.what for act in self.service.adapters.operator.fleet.acts() if act.by == "ben"]


@pytest.fixture
def stage(zookeeper: str, client: KazooClient, tmp_path: Path) -> Iterator[Stage]:
    branch = Branch(tmp_path)
    intents: list[Intent] = []
    for kind in PARTS:
        intents.append(replace(GROUP, name=kind, apps=GROUP_TABLE.parts(kind)))
        intents.append(replace(CLUSTER, name=kind, apps=CLUSTER_TABLE.parts(kind)))
    documents = [intent.to_document() for intent in intents]
    documents += [
        {"schema": "zkdeployment/CheckConfiguration/v1", **check(name, path)} for name, path in OBJECTS.items()
    ]
    files = {f"{number}.yaml": render_document(each) for number, each in enumerate(documents)}
    branch.push({"a.zk": TREE, "nagios.yaml": system_document("nagios1"), **files})
    contender = b'{"requestor": "h9", "hostname": "h9"}'
    for lock in ("p1,a", "p1,b", "p2,a", "p2,b"):
        client.create(f"/agent-locks/{lock}/a__lock__0000000001", contender, makepath=True)
    client.create("/role-locks/web/lr-0000000001", contender, makepath=True)
    with WrittenFleet(zookeeper) as fleet, running_service(zookeeper, commits=branch.commits()) as service:
        fleet.publish(branch.tip() or "", TREE)
        fleet.record(*(IntentRecord(intent, intent.state) for intent in intents))
        with Session(zookeeper) as session:
            instances = {each.id: each for each in map(failed_check, ("/p1/a", "/p2/a"))}
            ZooKeeperCheckInstances(session).change([*instances], lambda name, _: instances[name])
        wait_until(lambda: _read(service) == len(intents), "the service has read the intents")
        yield Stage(service, branch, service.add_user(Role.OPERATOR, "ben", ("/p1",)))


def _read(service: RunningService) -> int:
    try:
        return len(records_of(service.adapters.feed))
    except UnreachableError:
        return 0


def test_no_request_acts_outside_of_the_paths_of_an_operator(stage: Stage):
    tip, refused = stage.branch.tip(), [case for case in CASES if not case.allowed]
    sent = [(case, *stage.send(case, stage.ben)) for case in refused]
    assert [each for each in sent if each[1] != 403] == []
    assert [
        each for each in sent if "this user may act only at and below /p1 (and stop the fleet)" not in each[2]
    ] == []
    assert (stage.branch.tip(), stage.acts()) == (tip, [])
    # Without limits, one request to each operation is accepted or refused for another reason.
    ann = stage.service.add_user(Role.OPERATOR, "ann")
    one_each = {(case.method, case.template): case for case in reversed(refused)}
    assert [case for case in one_each.values() if stage.send(case, ann)[0] in {400, 401, 403}] == []


def test_an_operator_acts_at_and_below_its_paths(stage: Stage):
    sent = [(case, *stage.send(case, stage.ben)) for case in CASES if case.allowed]
    # No service has left governance, and no group was ever instantiated.
    unknown = {("/api/v1/releases", 404), (f"{GROUPS}/{{name}}/rollback", 404)}
    refused = [each for each in sent if each[1] not in {200, 202, 409}]
    assert [each for each in refused if (each[0].template, each[1]) not in unknown] == []
    done = {case.template for case, status, _ in sent if status != 409}
    assert {GROUPS, CLUSTERS, CHECKS, "/api/v1/locks/release", f"{CHECKS}/instances/{{uuid}}/retry"} <= done


def test_the_table_has_every_operation_that_changes_something(stage: Stage):
    described = stage.service.client.get("/openapi.json").json()["paths"]
    changing = {
        (method.upper(), path) for path, methods in described.items() for method in methods if method != "get"
    }
    assert {(case.method, case.template) for case in CASES} == changing - NOT_FOR_OPERATORS


def test_no_page_acts_outside_of_the_paths_of_an_operator(stage: Stage):
    tip = stage.branch.tip()
    sequence = stage.service.adapters.feed.history(1)[0].sequence
    acts = ["hold", "resume", "publish", "rollout-pause", "rollout-resume", "rollout-abort"]
    acts += ["rollout-promote?group=x", "rollout-fail?group=x", "retry?host=h1"]
    acts += [f"promotion-{verb}?{urlencode(more)}" for verb, more in PROMOTION_ACTS.items()]
    acts += [f"rollback?sequence={sequence}", "release?lock=web", "release?lock=/p2/a"]
    for kind in ("outside", "partly"):
        acts += [f"intent-{verb}?subject=p1/store/v1/{kind}" for verb in GROUP_TABLE.verbs if verb != "adopt"]
        acts += [f"intent-{verb}?subject=ams/{kind}" for verb in CLUSTER_TABLE.verbs if verb != "adopt"]
    with stage.service.browser(stage.ben) as browser:
        token = form_token(browser.get("/acts/stop").text)
        for act in acts:
            name, _, query = act.partition("?")
            fields = dict(part.split("=", 1) for part in query.split("&") if part)
            answers = (
                browser.get(f"/acts/{act}"),
                browser.post(f"/acts/{name}", data=fields | REASON | {"csrf_token": token}),
            )
            assert [answer.status_code for answer in answers] == [403, 403], act
        for kind in ("outside", "partly"):
            for subject in (f"p1/store/v1/{kind}", f"ams/{kind}"):
                assert "/acts/intent-" not in browser.get(f"/intents/{subject}").text
        assert (stage.branch.tip(), stage.acts()) == (tip, [])
        approve = browser.get("/acts/intent-approve?subject=p1/store/v1/inside")
        assert form_of(approve, "Approve").hidden["subject"] == "p1/store/v1/inside"
        stop = browser.get("/acts/stop")
        assert submit(browser, stop, "Stop the fleet", REASON).status_code == 303
    assert stage.acts() == ["stop"]
