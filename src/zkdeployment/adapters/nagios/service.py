"""The service's HTTP interface for monitoring systems (implements ``ports.MonitoringService``), by urllib3."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import urllib3

from zkdeployment.errors import ServiceError
from zkdeployment.nagios.deployed import DeployedInstances
from zkdeployment.nagios.service_requests import FetchedDetails
from zkdeployment.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.nagios.service_requests import CheckAnswer
    from zkdeployment.nagios.status_file import NagiosResult

_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)

#: Attempts of a request whose connection broke: the service closes idle ones.
_RETRIES = urllib3.Retry(1, redirect=0, status=0, allowed_methods=None, raise_on_redirect=False)

#: The most characters of an error of the service that are quoted.
_LONGEST_DETAIL = 1000


class HttpMonitoringService:
    """The service at ``url`` for the user ``user`` with the API ``key``, whose name is that of the system.

    ``bridge`` is the name of the bridge that sends the requests: the service refuses other bridges meanwhile.
    """

    def __init__(self, url: str, user: str, key: str, bridge: str = "") -> None:
        self._url = url
        self._user = user
        self._system = f"/deployments/monitoring/{quote(user, safe='')}"
        headers = urllib3.make_headers(basic_auth=f"{user}:{key}") | {"Accept": "application/json"}
        if bridge:
            headers["Zkdeployment-Bridge"] = bridge
        self._http = urllib3.PoolManager(headers=headers, timeout=_TIMEOUT, retries=_RETRIES)

    def list_flagged(self) -> frozenset[str]:
        return self._list(self._system)

    def list_pending(self) -> frozenset[str]:
        return self._list(f"{self._system}/all")

    def list_deployed(self) -> DeployedInstances:
        path = f"{self._system}/active"
        body = self._request("GET", path)
        active, retained = (self._instances(path, body, key) for key in ("deploymentsList", "deprovision_failed"))
        configurations = body.get("configurations")
        if not isinstance(configurations, dict) or not all(
            isinstance(found, str) for found in configurations.values()
        ):
            raise self._unexpected(path, "an object with configurations")
        return DeployedInstances(active, retained, configurations, body.get("removal_allowed") is True)

    def fetch(self, instances: Sequence[str]) -> FetchedDetails:
        path = f"{self._system}/fetch"
        body = self._request("POST", path, {"deploymentsList": [*instances]})
        details = body.get("deployments") if isinstance(body, dict) else None
        if not isinstance(details, dict) or not all(isinstance(value, dict) for value in details.values()):
            raise self._unexpected(path, "an object with deployments")
        return FetchedDetails(details, self._failed(path, body))

    def answer(self, answers: Sequence[CheckAnswer]) -> Mapping[str, str]:
        path = f"{self._system}/answers"
        body = self._request("POST", path, {answer.instance: answer.to_json() for answer in answers})
        return self._failed(path, body)

    def report_results(self, results: Mapping[str, NagiosResult]) -> frozenset[str]:
        path = f"{self._system}/results"
        body = {instance: result.to_json() for instance, result in results.items()}
        answer = self._request("PUT", path, body)
        return self._instances(path, answer, "ignored")

    def list_working_hosts(self) -> frozenset[str]:
        path = f"{self._system}/work"
        body = self._request("GET", path)
        hosts = body.get("hosts") if isinstance(body, dict) else None
        if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
            raise self._unexpected(path, "a list of hosts")
        return frozenset(hosts)

    def _list(self, path: str) -> frozenset[str]:
        return self._instances(path, self._request("GET", path), "deploymentsList")

    def _instances(self, path: str, body: object, key: str) -> frozenset[str]:
        """Return the list of instances in an answer."""
        instances = body.get(key) if isinstance(body, dict) else None
        if not isinstance(instances, list) or not all(isinstance(instance, str) for instance in instances):
            raise self._unexpected(path, f"the list {key}")
        return frozenset(instances)

    def _failed(self, path: str, body: object) -> Mapping[str, str]:
        """Return the reasons for which the service could not change instances."""
        failed = body.get("failed") if isinstance(body, dict) else None
        if not isinstance(failed, dict) or not all(isinstance(reason, str) for reason in failed.values()):
            raise self._unexpected(path, "an object with failed")
        return failed

    def _request(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of an answer; all statuses but those of success are errors."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
        headers = dict(self._http.headers) | ({} if data is None else {"Content-Type": "application/json"})
        try:
            response = self._http.request(method, f"{self._url}{path}", body=data, headers=headers, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise ServiceError(f"cannot reach the service at {self._url}: {_reason(error)}") from error
        if response.status in {401, 403}:
            raise ServiceError(
                f"the service at {self._url} refuses the user {self._user} (status {response.status}); see user"
                " and key-file in [nagios]: the user needs the role monitoring"
            )
        if response.status == 423:
            raise ServiceError(f"the service at {self._url} refuses this bridge: {_detail(response.data)}")
        if not 200 <= response.status < 300:
            text = response.data[:200].decode("utf-8", errors="replace")
            raise ServiceError(
                f"{method} {path} at {self._url}: expected success, found status {response.status}: {text}"
            )
        if not response.data:
            return None
        try:
            return json.loads(response.data)
        except (ValueError, RecursionError) as error:
            raise self._unexpected(path, "JSON") from error

    def _unexpected(self, path: str, expected: str) -> ServiceError:
        return ServiceError(f"{path} at {self._url}: expected {expected} as the answer, found something else")


def _detail(data: bytes) -> str:
    """Return the sentence in the body of an error."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return "it gives no reason"
    return printable(str(body.get("detail")))[:_LONGEST_DETAIL] if isinstance(body, dict) else "it gives no reason"


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """Return an error without the pool and the URL that urllib3 puts before it."""
    cause = error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason else error
    return str(cause).rpartition(": ")[2] or type(cause).__name__
