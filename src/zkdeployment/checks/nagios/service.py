"""The service's HTTP interface for monitoring systems, and the server that receives its pokes.

A poke names an instance that has changed. The bridge then fetches this instance and uses nothing else from the
request, so pokes need no login.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from zkdeployment.base.errors import ServiceError
from zkdeployment.base.machine.boots import read_boot_id
from zkdeployment.base.machine.http import HttpClient, HttpError, basic_login
from zkdeployment.base.text import printable
from zkdeployment.checks.nagios.batch import CheckAnswer, DeployedInstances, FetchedDetails
from zkdeployment.checks.nagios.check import is_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.checks.nagios.files import NagiosResult


_LONGEST = 200


def bridge_name(objects: Path) -> str:
    """Return a name that a bridge keeps when it restarts, and that no bridge of another machine has.

    The name contains the machine, the directory of objects, and the boot, which distinguishes copies of a machine.
    """
    try:
        boot = read_boot_id()
    except (OSError, ValueError):
        boot = "unknown"
    return re.sub(r"[^ -~]", "?", f"{socket.gethostname()}:{objects} ({boot[:8]})")[-_LONGEST:]


#: Seconds for a request, and the most bytes of an answer, which has the details of up to thousands of checks.
_TIMEOUT = 30.0
_MOST_BYTES = 1 << 26

#: Attempts of a request, because the service closes idle connections.
_ATTEMPTS = 2

#: The most characters of an error of the service that are quoted.
_LONGEST_DETAIL = 1000


class HttpMonitoringService:
    """The service at ``url`` for the user ``user`` with the API ``key``, whose name is that of the system.

    ``bridge`` is the name of the bridge that sends the requests; the service refuses other bridges at the same
    time.
    """

    def __init__(self, url: str, user: str, key: str, bridge: str = "") -> None:
        self._url = url
        self._user = user
        self._system = f"/deployments/monitoring/{quote(user, safe='')}"
        self._headers = basic_login(f"{user}:{key}") | {"Accept": "application/json"}
        if bridge:
            self._headers["Zkdeployment-Bridge"] = bridge
        self._http = HttpClient()

    def list_flagged(self) -> frozenset[str]:
        # The list clears the flags: a second answer would hide instances of an answer that was lost.
        return self._instances(self._system, self._request("GET", self._system, attempts=1), "deploymentsList")

    def list_pending(self) -> frozenset[str]:
        path = f"{self._system}/all"
        return self._instances(path, self._request("GET", path), "deploymentsList")

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

    def _request(self, method: str, path: str, body: object = None, *, attempts: int = _ATTEMPTS) -> Any:
        """Return the JSON of an answer; all statuses but those of success are errors."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
        headers = self._headers | ({} if data is None else {"Content-Type": "application/json"})
        try:
            response = self._http.request(
                method,
                f"{self._url}{path}",
                timeout=_TIMEOUT,
                most=_MOST_BYTES,
                headers=headers,
                body=data,
                attempts=attempts,
            )
        except HttpError as error:
            raise ServiceError(f"cannot reach the service at {self._url}: {error}") from error
        if response.status in {401, 403}:
            raise ServiceError(
                f"the service at {self._url} refuses the user {self._user} (status {response.status}); see user"
                " and key-file in [nagios]: the user needs the role monitoring"
            )
        if response.status == 423:
            raise ServiceError(f"the service at {self._url} refuses this bridge: {_detail(response.content)}")
        if not 200 <= response.status < 300:
            text = response.content[:200].decode("utf-8", errors="replace")
            raise ServiceError(
                f"{method} {path} at {self._url}: expected success, found status {response.status}: {text}"
            )
        if not response.content:
            return None
        try:
            return json.loads(response.content)
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


_BODY_LIMIT = 4096

#: Seconds for a request.
_POKE_TIMEOUT = 5.0


class PokeListener:
    """Answers POST requests on an open ``listener``; calls ``poked`` with the instance of each, on any thread."""

    def __init__(self, listener: socket.socket, poked: Callable[[str], None]) -> None:
        handler = partial(_PokeHandler, poked)
        self._server = ThreadingHTTPServer(listener.getsockname()[:2], handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="pokes", daemon=True)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    def close(self) -> None:
        """Receive nothing more."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _PokeHandler(BaseHTTPRequestHandler):
    """Answers 204 to a poke, and 400 to other requests."""

    timeout = _POKE_TIMEOUT
    server_version = "zkdeployment"
    sys_version = ""

    def __init__(self, poked: Callable[[str], None], *arguments: Any) -> None:
        self._poked = poked
        super().__init__(*arguments)

    def do_POST(self) -> None:
        """Read a poke."""
        length = self.headers.get("Content-Length", "")
        instance = None
        if length.isascii() and length.isdigit() and int(length) <= _BODY_LIMIT:
            instance = _poked_instance(self.rfile.read(int(length)))
        if instance is not None:
            self._poked(instance)
        self.send_response(400 if instance is None else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing: the bridge logs the effects of a poke."""


def _poked_instance(body: bytes) -> str | None:
    try:
        poke = json.loads(body)
    except (ValueError, RecursionError):
        return None
    instance = poke.get("uuid") if isinstance(poke, dict) else None
    return instance if isinstance(instance, str) and is_instance(instance) else None
