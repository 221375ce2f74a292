"""Requests of monitoring systems to real services: rights, errors, concurrency, results, hosts at work."""

from __future__ import annotations

import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from support.checks.fleet import ScriptedMonitor
from support.service import running_service
from support.waiting import wait_until
from support.zookeeper import connected
from zkdeployment.base.errors import UnreachableError
from zkdeployment.checks import models
from zkdeployment.checks.feed import CHECKS_PART
from zkdeployment.checks.nagios.batch import MOST_INSTANCES
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.instance import CheckInstance, InstanceKey
from zkdeployment.checks.rules.workflow import WantedConfiguration, want
from zkdeployment.fleet.events.event import EventKind
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from support.publishing import Publishing
    from support.service import RunningService
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed


@pytest.fixture
def monitor(service: RunningService) -> ScriptedMonitor:
    return ScriptedMonitor(service.url, service.add_user(Role.MONITORING, "nagios1"))


def add_instances(service: RunningService, count: int, system: str = "nagios1", *, bucket: str = "") -> list[str]:
    """Add instances that wait to be rolled out, in a bucket if it is given; return their ids."""
    every = (InstanceKey("tcp", "/shop/web", number, f"{system}-h") for number in itertools.count())
    keys = [*itertools.islice((key for key in every if key.id.startswith(bucket)), count)]
    made = {
        key.id: want(
            CheckInstance(key), WantedConfiguration({"number": key.number}, system, 1), 5.0, is_reported=True
        )
        for key in keys
    }
    check_adapters_of(service.adapters).instances.change(made, lambda instance, _: made[instance])
    return sorted(made)


class TestErrors:
    def test_each_wrong_request_has_its_status_and_changes_nothing(
        self, service: RunningService, monitor: ScriptedMonitor
    ):
        (own,) = add_instances(service, 1)
        (other,) = add_instances(service, 1, "nagios2")
        for method, path, body, status in (
            ("GET", "id/nonsense", None, 400),
            ("GET", f"id/{own[:-1]}", None, 400),
            ("GET", f"id/{{{own}}}", None, 400),
            ("PATCH", f"id/{own}/maybe", None, 400),
            ("PATCH", "id/nonsense/success", None, 400),
            ("GET", f"id/{uuid.uuid4()}", None, 404),
            ("GET", f"id/{other}", None, 404),
            ("PATCH", f"id/{other}/success", None, 404),
            ("PATCH", f"id/{own}/success", None, 409),  # it was not fetched
            ("PATCH", f"id/{own}/success", {"config_id": 5}, 422),
            ("GET", "monitoring/nagios2", None, 403),
            ("GET", "monitoring/nagios2/all", None, 403),
            ("GET", "monitoring/nagios2/active", None, 403),
            ("GET", "monitoring/nagios2/work", None, 403),
            ("PUT", "monitoring/nagios2/results", {}, 403),
            ("PUT", "monitoring/nagios1/results", {own: {"state": "fine", "since": 1}}, 422),
            ("PUT", "monitoring/nagios1/results", {"x": {"state": "ok", "since": 1}}, 400),
        ):
            answer = monitor.request(method, path, body)
            assert (answer.status_code, list(answer.json())) == (status, ["detail"]), (path, answer.text)
        assert monitor.list() == [own]

    @pytest.mark.parametrize("role", [Role.ADMIN, Role.OPERATOR, Role.VIEWER, Role.TENANT])
    def test_only_monitoring_systems_fetch(self, service: RunningService, role: Role):
        (own,) = add_instances(service, 1, "nagios1")
        person = ScriptedMonitor(service.url, service.add_user(role, "nagios1"))
        for path in (f"id/{own}", "monitoring/nagios1", "monitoring/nagios1/all"):
            assert person.request("GET", path).status_code == 403
        assert person.request("PATCH", f"id/{own}/success").status_code == 403

    def test_a_late_answer_does_not_count_for_another_configuration_and_a_reason_is_kept(
        self, service: RunningService, monitor: ScriptedMonitor
    ):
        (own,) = add_instances(service, 1)
        assert monitor.fetch(own)["task"] == "rollout"
        assert monitor.answer(own, "success", {"config_id": str(uuid.uuid4())}) == 409
        assert monitor.answer(own, "failed", {"reason": "no such plugin"}) == 200
        current = check_adapters_of(service.adapters).instances.find([own])[own].current_configuration
        assert current is not None
        assert (current.state.value, current.reason) == ("rollout_failed", "no such plugin")
        assert monitor.answer(own, "failed") == 409
        assert monitor.fetch(own)["task"] == "rollout"  # tried again by the system itself


class TestManyAtOnce:
    def test_instances_are_fetched_and_answered_with_one_request_each(
        self, service: RunningService, monitor: ScriptedMonitor
    ):
        ids, (other,) = add_instances(service, 20), add_instances(service, 1, "nagios2")
        listed = {"deploymentsList": [*ids, other]}
        fetched = monitor.request("POST", "monitoring/nagios1/fetch", listed).json()
        assert fetched["deployments"].keys() == {*ids}
        assert (fetched["missing"].keys(), fetched["failed"]) == ({other}, {})
        assert fetched["deployments"][ids[0]] == monitor.fetch(ids[0])
        answers = {instance: {"result": "success"} for instance in (*ids[2:], other)}
        answers[ids[0]] = {"result": "failed", "reason": "no such plugin"}
        answers[ids[1]] = {"result": "success", "config_id": str(uuid.uuid4())}
        outcome = monitor.request("POST", "monitoring/nagios1/answers", answers).json()
        assert outcome["answered"].keys() == {ids[0], *ids[2:]}
        assert (outcome["answered"][ids[0]]["state"], outcome["answered"][ids[2]]["state"]) == (
            "rollout_failed",
            "active",
        )
        assert (outcome["refused"].keys(), outcome["failed"]) == ({ids[1], other}, {})
        again = monitor.request("POST", "monitoring/nagios1/fetch", {"deploymentsList": ids}).json()
        assert again["deployments"].keys() == {*ids}

    def test_instances_that_cannot_be_changed_do_not_delay_others(
        self, service: RunningService, monitor: ScriptedMonitor, zookeeper: str
    ):
        first, second = add_instances(service, 1, bucket="abc") + add_instances(service, 1, bucket="abd")
        with connected(zookeeper) as client:
            client.set("/zkdeployment/checks/instances/abc", b"{")
        both = {"deploymentsList": [first, second]}
        fetched = monitor.request("POST", "monitoring/nagios1/fetch", both).json()
        assert (fetched["deployments"].keys(), fetched["failed"].keys()) == ({second}, {first})
        answers = {instance: {"result": "success"} for instance in (first, second)}
        outcome = monitor.request("POST", "monitoring/nagios1/answers", answers).json()
        assert (outcome["answered"].keys(), outcome["failed"].keys()) == ({second}, {first})

    def test_a_request_with_more_than_500_instances_is_refused(self, monitor: ScriptedMonitor):
        ids = [str(uuid.UUID(int=number)) for number in range(MOST_INSTANCES + 1)]
        for path, body in (
            ("fetch", {"deploymentsList": ids}),
            ("answers", {instance: {"result": "success"} for instance in ids}),
        ):
            assert monitor.request("POST", f"monitoring/nagios1/{path}", body).status_code == 422
            assert monitor.request("POST", f"monitoring/nagios2/{path}", body).status_code in {403, 422}
        assert MOST_INSTANCES == models.MOST_INSTANCES


class TestConcurrency:
    def test_concurrent_fetches_answers_and_lists_of_two_services_change_each_instance_once(
        self, service: RunningService, monitor: ScriptedMonitor, zookeeper: str
    ):
        ids = add_instances(service, 12)
        with running_service(zookeeper) as second, ThreadPoolExecutor(8) as pool:
            monitors = [monitor, ScriptedMonitor(second.url, monitor.login)]
            lists = list(pool.map(lambda turn: monitors[turn % 2].list(), range(4)))
            assert sorted(instance for listed in lists for instance in listed) == ids
            fetched = list(pool.map(lambda turn: monitors[turn % 2].fetch(ids[turn // 4]), range(48)))
            assert {details["task"] for details in fetched} == {"rollout"}
            answers = list(pool.map(lambda turn: monitors[turn % 2].answer(ids[turn // 4]), range(48)))
        assert answers.count(200) == 12
        assert answers.count(409) == 36
        assert monitor.list("/active") == ids
        assert monitor.list("/all") == []

    def test_instances_of_one_bucket_are_changed_by_many_requests_at_once(
        self, service: RunningService, monitor: ScriptedMonitor
    ):
        ids = add_instances(service, 8, bucket="abc")
        assert monitor.list() == ids
        with ThreadPoolExecutor(8) as pool:
            assert {details["task"] for details in pool.map(monitor.fetch, ids)} == {"rollout"}
            assert set(pool.map(monitor.answer, ids)) == {200}


class TestResults:
    def test_results_are_kept_beside_others_and_contacts_are_recorded(
        self, service: RunningService, monitor: ScriptedMonitor
    ):
        first, second = add_instances(service, 2)
        (other,) = add_instances(service, 1, "nagios2")
        result = {"state": "OK", "output": "fine", "since": 12.5}
        answer = monitor.request("PUT", "monitoring/nagios1/results", {first: result, other: result})
        assert (answer.status_code, answer.json()) == (200, {"ignored": [other]})
        monitor.request(
            "PUT", "monitoring/nagios1/results", {second: {**result, "state": "critical", "checked": 13}}
        )
        monitor.request("PUT", "monitoring/nagios1/results", {})
        monitoring = check_adapters_of(service.adapters).systems
        results = monitoring.results("nagios1")
        assert {instance: found.state.value for instance, found in results.items()} == {
            first: "ok",
            second: "critical",
        }
        assert (results[first].output, results[first].since) == ("fine", 12.5)
        assert (results[first].checked, results[second].checked) == (None, 13.0)
        assert monitoring.results("nagios1", [first]) == {first: results[first]}
        contact = monitoring.contacts()["nagios1"]
        assert contact.fetched is None
        assert contact.reported is not None
        monitor.list()
        assert monitoring.contacts()["nagios1"].fetched is not None
        monitoring.forget_results("nagios1", [first])
        assert monitoring.results("nagios1").keys() == {second}


class TestWork:
    def test_hosts_in_a_deployment_step_are_listed_but_not_those_that_wait(
        self, service: RunningService, monitor: ScriptedMonitor, publishing: Publishing
    ):
        publishing.register("h1", None, deploying="r2", step="deploy /shop/web 0")
        publishing.register("h2", None, deploying="r2", step="waits to deploy: group edge")
        publishing.register("h3", "r2")
        wait_until(
            lambda: service.has_read() and len(service.adapters.feed.snapshot().fleet.hosts) == 3,
            "all hosts are read",
        )
        answer = monitor.request("GET", "monitoring/nagios1/work")
        assert answer.json() == {"hosts": ["h1"]}


def _knows_a_change(feed: ZooKeeperFeed) -> bool:
    try:
        known = feed.snapshot().reading.of(CHECKS_PART)
    except UnreachableError:  # before the first reading
        return False
    return known is not None and bool(known.changes)  # the node is made without a change


class TestEvents:
    def test_a_changed_instance_is_an_event(self, service: RunningService, monitor: ScriptedMonitor):
        feed = service.adapters.feed
        (own,) = add_instances(service, 1)
        wait_until(lambda: feed.recent_events().last, "the first reading")
        wait_until(lambda: _knows_a_change(feed), "the reading that has the instance")
        monitor.fetch(own)
        wait_until(
            lambda: any(
                event.subject == own and event.body["state"] == "rollout_in_progress"
                for batch in feed.recent_events().batches
                for event in batch.events
                if event.kind is EventKind.CHECK
            ),
            "the event",
        )
