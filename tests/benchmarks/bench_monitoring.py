"""Measures how fast a monitoring system fetches and answers check instances over HTTP, with a real service.

The reference is one request for each instance, measured in the same run with fewer instances.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import urllib3

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, seconds
from support.service import RunningService, running_service
from zkdeployment.checks.nagios.batch import CheckAnswer, request_parts
from zkdeployment.checks.nagios.service import HttpMonitoringService
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.instance import CheckInstance, InstanceKey
from zkdeployment.checks.rules.workflow import WantedConfiguration, want
from zkdeployment.service.users.user import Role

#: Instances that are fetched and answered with requests of their own.
_SINGLE = 200

_SYSTEM = "nagios1"


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a tenth of the largest number of instances."""
    number = max(scale.large // 10, 2 * _SINGLE)
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_server(Path(scratch)) as server,
        running_service(server.address) as service,
    ):
        ids = _add(service, number + _SINGLE)
        user, key = service.add_user(Role.MONITORING, _SYSTEM)
        client = HttpMonitoringService(service.url, user, key)
        single, many = ids[:_SINGLE], sorted(ids[_SINGLE:])  # in the order of the bridge
        alone = seconds(lambda: _one_by_one(service.url, user, key, single)) / len(single)
        together = seconds(lambda: _in_bulk(client, many))
        assert client.list_deployed().active == {*ids}
    yield Result(
        work="check instances fetched and answered over HTTP",
        size=f"{number:,} instances",
        value=together,
        against="one request for each instance",
        reference=alone * number,
        at_least=5,
    )


def _add(service: RunningService, number: int) -> Sequence[str]:
    """Add instances that wait to be rolled out, and return their ids."""
    keys = [InstanceKey("tcp", "/shop/web", each, "h1") for each in range(number)]
    wanted = WantedConfiguration({"arguments": ["-H", "h1.example.com", "-p", "80"]}, _SYSTEM, 1)
    made = {key.id: want(CheckInstance(key), wanted, 5.0, is_reported=True) for key in keys}
    check_adapters_of(service.adapters).instances.change(made, lambda instance, _: made[instance])
    return [*made]


def _one_by_one(url: str, user: str, key: str, instances: Sequence[str]) -> None:
    headers = urllib3.make_headers(basic_auth=f"{user}:{key}")
    http = urllib3.PoolManager(headers=headers)
    for instance in instances:
        assert http.request("GET", f"{url}/deployments/id/{instance}").status == 200
        assert http.request("PATCH", f"{url}/deployments/id/{instance}/success").status == 200


def _in_bulk(client: HttpMonitoringService, instances: Sequence[str]) -> None:
    for part in request_parts(instances):
        fetched = client.fetch(part)
        assert fetched.details.keys() == {*part}
        details = fetched.details.items()
        answers = [CheckAnswer(instance=name, config_id=found["config_id"]) for name, found in details]
        assert client.answer(answers) == {}
