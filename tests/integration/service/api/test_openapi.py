"""A fuzzer over the description of the API, against a real service: it never fails, and answers nothing else."""

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from kazoo.client import KazooClient
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from support.publishing import Publishing
from support.service import RunningService, running_service
from support.waiting import wait_until
from zkdeployment.service.users.user import Role

TREE = """\
/demo
  /hello : hello
    version = '1.0'
    /deploy
      /h1
"""

#: The stream of events does not end; a publication and a resume may wait for a syncer.
LEFT_OUT = {"/api/v1/events", "/api/v1/publish", "/api/v1/resume"}

#: The id of the user who is a tenant.
TENANT = 3

#: Requests of each operation: four in every commit, twenty in a night.
EXAMPLES = settings.default.max_examples // 5


@pytest.fixture
def service(zookeeper: str, publishing: Publishing, client: KazooClient) -> Iterator[RunningService]:
    revision = publishing.push(TREE)
    publishing.sync()
    publishing.register("h1", revision, "h1.example.com")
    client.create("/role-locks/web/lr-0000000001", b'{"requestor": "h1", "hostname": "h1"}', makepath=True)
    with running_service(zookeeper) as running:
        wait_until(lambda: running.adapters.feed.recent_events().last, "the first reading")
        yield running


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_operation_answers_as_described(service: RunningService):
    login, monitoring = service.add_user(Role.ADMIN), service.add_user(Role.MONITORING, "nagios1")
    service.add_user(Role.TENANT)
    description = service.client.get("/openapi.json", auth=login).json()
    schema = schemathesis.openapi.from_dict(description)
    fuzzed = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in LEFT_OUT or not operation.path.startswith(("/api/v1/", "/v2/", "/deployments/")):
            continue
        fuzzed += 1
        fuzz(operation, service, monitoring if operation.path.startswith("/deployments/") else login)
    assert fuzzed >= 48


def fuzz(operation: schemathesis.schemas.APIOperation, service: RunningService, user: tuple[str, str]) -> None:
    """Send requests of an operation as a user; a monitoring system is that of the user."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy())
    def send(case: schemathesis.Case) -> None:
        if "system" in case.path_parameters:
            case.path_parameters["system"] = user[0]
        if operation.path == "/api/v1/tenants/{number}":
            case.path_parameters["number"] = TENANT  # the admin keeps its key
        response = case.call(base_url=service.url, auth=user)
        checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
        case.validate_response(response, checks=checks)

    send()


def test_the_description_names_every_operation_of_the_reads(service: RunningService):
    description = service.client.get("/openapi.json", auth=service.add_user(Role.VIEWER)).json()
    answered = description["paths"]
    for path in (
        "status",
        "hosts/{host}",
        "hosts/{host}/why",
        "locks",
        "history",
        "history/{sequence}",
        "rollout",
        "plan",
        "tree/{path}",
        "services/{path}",
        "events",
    ):
        assert "200" in answered[f"/api/v1/{path}"]["get"]["responses"]


def test_metrics_are_those_of_this_service_by_route(service: RunningService):
    login = service.add_user(Role.VIEWER)
    for _ in range(3):
        service.client.get("/api/v1/hosts/h1", auth=login)
    service.client.get("/api/v1/hosts/nobody", auth=login)
    service.client.request("WEIRD", "/nothing/here")
    text = service.client.get("/metrics", auth=login).text
    assert 'zkdeployment_server_requests_total{method="GET",route="/api/v1/hosts/{host}",status="200"} 3.0' in text
    assert 'route="/api/v1/hosts/{host}",status="404"} 1.0' in text
    assert 'method="other",route="none"' in text
    for line in ("server_event_streams 0.0", "server_feed_connected 1.0", "server_zookeeper_connected 1.0"):
        assert f"\nzkdeployment_{line}\n" in text
    age = next(line for line in text.splitlines() if line.startswith("zkdeployment_server_feed_age_seconds"))
    assert 0 <= float(age.split()[1]) < 20
    assert httpx.get(f"{service.url}/metrics", timeout=None).status_code == 401
