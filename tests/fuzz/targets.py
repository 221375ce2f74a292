"""The functions that read what outsiders send, called with any bytes; an unexpected error is a finding."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from joserfc import jws
from joserfc.jwk import OctKey

from zkdeployment.agent.packages import failures, installed_packages
from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.errors import (
    ConfigurationError,
    IdentityProviderError,
    ServiceError,
    TreeError,
    UntrustedError,
    ZkdeploymentError,
)
from zkdeployment.base.host import Host
from zkdeployment.base.lock import LockedWork
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.http import HttpAnswer, HttpClient
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.stop import FailureOutput, GroupStop, Stop
from zkdeployment.checks.nagios.files import read_status_file
from zkdeployment.checks.nagios.service import HttpMonitoringService
from zkdeployment.documents.reading import read_documents, read_facts
from zkdeployment.promotion.services import FleetService, ServiceClient, _read_report, ask_dry_run, ask_plan
from zkdeployment.promotion.streams import EventText, HostCount
from zkdeployment.providers.haproxy import ReloadNeededError, SocketUnusableError
from zkdeployment.providers.haproxy_socket import RunningServers, RuntimeSocket
from zkdeployment.publishing.signing.statement import SignedStatement, Statement, decode_bucket
from zkdeployment.publishing.store import hosts
from zkdeployment.publishing.store.cluster import decode_published
from zkdeployment.publishing.store.documents import decode_document, decode_strategy
from zkdeployment.publishing.store.service_order import decode_entry
from zkdeployment.publishing.targets.services import decode_target
from zkdeployment.rollouts.measuring import MetricsServer, NoDataError
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.service import openid
from zkdeployment.service.users.external_logins import ExternalUser, OpenIdAttempt, OpenIdClient
from zkdeployment.strategies.store.agent_records import decode_grant, decode_report
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.tree.canonical import canonical_text
from zkdeployment.tree.lint import lint
from zkdeployment.tree.parse import parse
from zkdeployment.zookeeper.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CORPORA = Path(__file__).parent / "corpora"
WORDS = Path(__file__).parent / "words.dict"


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def read_tree(data: bytes) -> None:
    """Read a file of the tree, which any committer may write."""
    (parsed,) = lint([SourceFile("shop.zk", data)]).parsed.values()
    if not parsed.problems:
        again = parse("shop.zk", canonical_text(data.decode("utf-8-sig")))
        if again.problems or again.tree != parsed.tree:
            raise AssertionError("the canonical form has another meaning")


def read_yaml(data: bytes) -> None:
    """Read a file of documents, and a file of facts."""
    read_documents([SourceFile("documents.yaml", data)])
    with contextlib.suppress(ConfigurationError):
        read_facts("hosts.yaml", data)


def _strategy(node: Node) -> None:
    with contextlib.suppress(TreeError):
        decode_strategy(node)


def _target(node: Node) -> None:
    with contextlib.suppress(TreeError):
        decode_target("app1", node.data)


def _rollout(node: Node) -> None:
    with contextlib.suppress(ZkdeploymentError):
        decode_state(node.data)


def _bucket(node: Node) -> None:
    with contextlib.suppress(UntrustedError):
        decode_bucket(node.data)


def _statement(node: Node) -> None:
    with contextlib.suppress(UntrustedError):
        Statement.from_text(SignedStatement.from_data(node.data).text)


def _properties(read: Callable[[Mapping[str, Any]], object]) -> Callable[[Node], object]:
    return lambda node: read(node.properties)


#: The readers of nodes. The first byte of the data chooses one of them.
NODES: tuple[Callable[[Node], object], ...] = (
    _properties(lambda properties: Host.from_properties("app1", properties)),
    _properties(lambda properties: Cluster.from_properties(properties, stamp=0)),
    _properties(LockedWork.from_json),
    _properties(Stop.from_json),
    _properties(lambda properties: GroupStop.from_json(properties, group="shop")),
    _properties(lambda properties: FailureOutput.from_json(properties, host_id="app1")),
    _properties(lambda properties: Maintenance.from_json(properties, host_id="app1")),
    _properties(RebootRecord.from_json),
    _properties(HostResult.from_json),
    lambda node: hosts.decode("app1", node.data),
    lambda node: decode_published(node, node),
    decode_grant,
    decode_report,
    decode_entry,
    lambda node: decode_document("/zkdeployment/documents/strategy/:", node),
    _strategy,
    _target,
    _rollout,
    _bucket,
    _statement,
)


def read_node(data: bytes) -> None:
    """Read the data of a node: a host with an own agent, or an attacker, may have written anything."""
    if data:
        NODES[data[0] % len(NODES)](Node(data[1:], 0, 0, 0, 0, 0, 0.0, 0.0))


_STATUSES = (200, 304, 401, 423, 500)


def _answer(data: bytes) -> HttpAnswer:
    """Return an answer: the first byte is its status, the first line is each of its headers."""
    line, _, content = data[1:].partition(b"\n")
    headers = dict.fromkeys(("Retry-After", "Age", "ETag", "Content-Type"), _text(line))
    return HttpAnswer(_STATUSES[data[0] % len(_STATUSES)] if data else 200, headers, content)


def _report(client: ServiceClient) -> None:
    known = _read_report(client, _FLEET, None, 1e9)
    _read_report(client, _FLEET, known, 1e9)


class _KeylessClient(ServiceClient):
    """A client that needs no file with a key."""

    def credentials(self, service: FleetService) -> dict[str, str]:  # noqa: ARG002  the same for each
        return {}


_FLEET = FleetService("eu-1", "https://eu-1.example.com")
_CLIENT_OF_FLEETS = _KeylessClient(CORPORA)


def _stream(data: bytes) -> None:
    counted = HostCount()
    with contextlib.suppress(ServiceError):
        for event in EventText().feed(data):
            counted.is_reason(event, lacking=2)


def _http(read: Callable[[], object], *expected: type[Exception]) -> Callable[[bytes], None]:
    """Return a reader of the answers that the requests of ``read`` get."""

    def with_answer(data: bytes) -> None:
        with patch.object(HttpClient, "request", return_value=_answer(data)), contextlib.suppress(*expected):
            read()

    return with_answer


def _fleet(read: Callable[[ServiceClient], object]) -> Callable[[bytes], None]:
    return _http(lambda: read(_CLIENT_OF_FLEETS), ServiceError)


_METRICS = MetricsServer(MetricsSettings(url="https://metrics.example.com"))
_MONITORING = HttpMonitoringService("https://deploy.example.com", "nagios", "key")


class _AnsweringSocket(RuntimeSocket):
    """The socket of an HAProxy that answers everything with two texts: on itself, and on its servers."""

    info, state = "", ""

    def ask(self, commands: Sequence[str]) -> list[str]:
        return [self.info if command == "show info" else self.state for command in commands]


_BACKEND = b"backend shop\n    server app1 app1:80 weight 100\n"


def _balancer(data: bytes) -> None:
    haproxy = _AnsweringSocket(Path("haproxy.sock"))
    servers = RunningServers(haproxy)
    servers.begin_reload(_BACKEND)
    haproxy.info, _, haproxy.state = _text(data).partition("\n\n")
    with contextlib.suppress(SocketUnusableError, ReloadNeededError):
        servers.change(_BACKEND)
    servers.restore(_BACKEND)


#: The readers of what other systems answer. The first byte of the data chooses one of them.
ANSWERS: tuple[Callable[[bytes], object], ...] = (
    lambda data: _answer(data).retry_after(1e9),
    _http(lambda: _METRICS.query("up", at=1e9), NoDataError),
    _fleet(_report),
    _fleet(lambda client: ask_dry_run(client, _FLEET, "f00d")),
    _fleet(lambda client: ask_plan(client, _FLEET, "f00d")),
    _stream,
    _http(_MONITORING.list_flagged, ServiceError),
    _http(_MONITORING.list_deployed, ServiceError),
    _http(lambda: _MONITORING.fetch(["a"]), ServiceError),
    _http(lambda: _MONITORING.report_results({}), ServiceError),
    _http(_MONITORING.list_working_hosts, ServiceError),
    _balancer,
)


def read_answer(data: bytes) -> None:
    """Read what another system answered: a webhook, a server of metrics, a fleet, a load balancer."""
    if data:
        ANSWERS[data[0] % len(ANSWERS)](data[1:])


_KEY = OctKey.import_key("a key of 256 bits for signatures")
_CLIENT = OpenIdClient(issuer="https://id.example.com", client_id="zkdeployment")


class _AnsweringProvider(openid.OpenIdProvider):
    """A provider that answers each request with a part of one JSON object, by the end of the address."""

    answers: Mapping[str, Any]

    def _request(self, method: str, url: str, *_: Any) -> dict[str, Any]:  # noqa: ARG002  each method gets the same
        answer = self.answers.get(url.rpartition("/")[2])
        if not isinstance(answer, dict):
            raise self._unacceptable("expected a JSON object, found another value")
        return answer


def read_login(data: bytes) -> None:
    """Read the answers of an OpenID provider: its metadata, its keys, and a token with any claims."""
    try:
        answers = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(answers, dict):
        return
    provider = _AnsweringProvider(_CLIENT, SystemClock(), secret="secret")
    claims = answers.get("claims")
    if isinstance(claims, dict):
        token = jws.serialize_compact({"alg": "HS256"}, json.dumps(claims), _KEY)
        answers = {**answers, "token": {"id_token": token, **(answers.get("token") or {})}}
    provider.answers = answers
    attempt, callback = OpenIdAttempt("state", "nonce", "verifier"), "https://fleet.example.com/login"
    with contextlib.suppress(IdentityProviderError):
        provider.login_url(attempt, callback)
        user = provider.find_user("code", attempt, callback)
        if isinstance(user, ExternalUser):
            user.identity.encode("ascii")


def read_dnf(data: bytes) -> None:
    """Read the output of dnf, which has the texts of packages and of their scriptlets, and of rpm."""
    text = _text(data)
    failures.has_begun(text)
    failures.explain(1, text)
    installed_packages.parse(text)


def read_nagios(data: bytes) -> None:
    """Read a status file of Nagios, which has the outputs of plugins."""
    read_status_file(_text(data))


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "tree": read_tree,
    "documents": read_yaml,
    "nodes": read_node,
    "answers": read_answer,
    "logins": read_login,
    "dnf": read_dnf,
    "nagios": read_nagios,
}
