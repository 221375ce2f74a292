"""The contract of the service for monitoring systems: in memory, and over HTTP with ZooKeeper."""

import contextlib
import socket
import threading

import pytest

from support.checks.monitoring import ServedMonitoringService, SimulatedMonitoringService
from support.checks.nagios import make_details, make_key
from support.service import running_service
from zkdeployment.base.errors import ServiceError
from zkdeployment.checks.nagios.batch import CheckAnswer
from zkdeployment.checks.nagios.files import NagiosResult
from zkdeployment.checks.nagios.service import HttpMonitoringService
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.paths import system_path
from zkdeployment.zookeeper.transactions import Set

UNKNOWN = "01234567-89ab-5cde-8f01-23456789abcd"


@pytest.fixture(params=["in memory", "over HTTP"])
def service(request):
    if request.param == "in memory":
        yield SimulatedMonitoringService()
        return
    with running_service(request.getfixturevalue("zookeeper")) as running:
        yield ServedMonitoringService(running)


def want(service, command="check_dummy", *arguments):
    details = make_details("front", "h1", command, *arguments)
    return service.want(make_key(details), details)


def fetch(client, instance):
    """Return the details of an instance; ``None`` if it has nothing to deploy."""
    fetched = client.fetch([instance])
    assert fetched.failed == {}
    return fetched.details.get(instance)


def answer(client, instance, config_id, problem=""):
    assert client.answer([CheckAnswer(instance=instance, config_id=config_id, problem=problem)]) == {}


def test_an_instance_is_listed_fetched_answered_and_active(service):
    instance = want(service)
    client = service.client
    assert client.list_flagged() == client.list_pending() == {instance}
    assert client.list_flagged() == frozenset()
    details = fetch(client, instance)
    assert (details["task"], details["command"], details["host"]["id"]) == ("rollout", "check_dummy", "h1")
    assert fetch(client, instance) == details
    assert (client.list_pending(), client.list_deployed().active) == ({instance}, frozenset())
    answer(client, instance, details["config_id"])
    assert (client.list_pending(), client.list_deployed().active) == (frozenset(), {instance})


def test_an_unexpected_answer_has_no_effect_and_is_not_an_error(service):
    instance = want(service)
    client = service.client
    answer(client, instance, None)
    assert service.state(instance).value == "awaiting_rollout"
    fetch(client, instance)
    answer(client, instance, UNKNOWN)
    assert service.state(instance).value == "rollout_in_progress"
    answer(client, UNKNOWN, None)


def test_the_reason_of_a_failure_is_kept(service):
    instance = want(service)
    details = fetch(service.client, instance)
    answer(service.client, instance, details["config_id"], "no such plugin: ü")
    assert (service.state(instance).value, service.reason(instance)) == ("rollout_failed", "no such plugin: ü")


def test_a_change_and_a_removal_have_their_tasks(service):
    instance = want(service)
    client = service.client
    details = fetch(client, instance)
    answer(client, instance, details["config_id"])
    want(service, "check_dummy", "1")
    assert client.list_flagged() == {instance}
    removed = fetch(client, instance)
    assert (removed["task"], removed["config_id"]) == ("deprovision", details["config_id"])
    answer(client, instance, removed["config_id"])
    service.turn()
    changed = fetch(client, instance)
    assert (changed["task"], changed["arguments"]) == ("rollout", ["1"])
    answer(client, instance, changed["config_id"])
    service.delete(instance)
    service.turn()
    assert fetch(client, instance)["task"] == "delete"
    answer(client, instance, changed["config_id"])
    assert fetch(client, instance) is None
    assert client.list_pending() == client.list_deployed().instances == frozenset()


def test_an_unknown_instance_has_no_details(service):
    assert fetch(service.client, UNKNOWN) is None


def test_results_are_recorded_and_an_empty_report_is_a_sign_of_life(service):
    instance = want(service)
    service.client.report_results({instance: NagiosResult("critical", "down: ü\\n", 5.0)})
    service.client.report_results({})
    assert service.result(instance) == ("critical", "down: ü\\n")


def test_no_host_is_in_a_deployment_step_here(service):
    assert service.client.list_working_hosts() == frozenset()


class TestHttp:
    def test_a_wrong_key_is_an_error_without_the_key(self, zookeeper):
        with running_service(zookeeper) as running:
            client = HttpMonitoringService(running.url, "nagios1", "wrong-key")
            with pytest.raises(ServiceError, match=r"refuses the user nagios1 \(status 401\)") as caught:
                client.list_deployed()
            assert "wrong-key" not in str(caught.value)

    def test_a_service_that_is_away_is_an_error(self):
        client = HttpMonitoringService("http://127.0.0.1:9", "nagios1", "a-key")
        with pytest.raises(ServiceError, match=r"cannot reach the service at http://127\.0\.0\.1:9: .*refused"):
            client.list_deployed()

    def test_a_lost_list_of_updates_is_an_error_because_a_second_one_would_lack_them(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve() -> None:
                listener.accept()[0].close()
                with contextlib.suppress(OSError):  # no second request came
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"deploymentsList": []}')

            thread = threading.Thread(target=serve)
            thread.start()
            client = HttpMonitoringService(f"http://127.0.0.1:{listener.getsockname()[1]}", "nagios1", "a-key")
            with pytest.raises(ServiceError, match="cannot reach the service"):
                client.list_flagged()
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()

    def test_two_bridges_of_a_system_do_not_divide_its_updates(self, zookeeper):
        with running_service(zookeeper) as running:
            served = ServedMonitoringService(running)
            first, second = (
                HttpMonitoringService(running.url, served.user, served.key, name) for name in ("one:/o", "two:/o")
            )
            instance = want(served)
            assert first.list_pending() == {instance}
            refused = (
                r"another bridge gets the updates of the monitoring system nagios1: one:/o, until 20.*; end one"
            )
            for request in (
                second.list_flagged,
                second.list_pending,
                served.client.list_flagged,
            ):
                with pytest.raises(ServiceError, match=refused):
                    request()
            with pytest.raises(ServiceError, match=refused):
                second.fetch([instance])
            assert served.state(instance).value == "awaiting_rollout"
            assert fetch(first, instance)["task"] == "rollout"

            node = f"{system_path('nagios1')}/lease"
            check_adapters_of(running.adapters).systems._session.commit(
                Set(node, b'{"holder": "one:/o", "until": 5}')
            )
            assert second.list_pending() == {instance}
            with running_service(zookeeper) as other:
                elsewhere = HttpMonitoringService(other.url, served.user, served.key, "one:/o")
                with pytest.raises(ServiceError, match="nagios1: two:/o, until"):
                    elsewhere.list_flagged()
