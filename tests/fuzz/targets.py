"""The functions that read what outsiders send, called with any bytes; an unexpected error is a finding."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joserfc import jwt
from joserfc.jwk import OctKey

from zkdeployment.agent.packages import failures, installed_packages
from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.errors import (
    ConfigurationError,
    IdentityProviderError,
    TreeError,
    UntrustedError,
    ZkdeploymentError,
)
from zkdeployment.base.host import Host
from zkdeployment.base.lock import LockedWork
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.http import HttpAnswer
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.stop import FailureOutput, GroupStop, Stop
from zkdeployment.checks.nagios.files import read_status_file
from zkdeployment.documents.reading import read_documents, read_facts
from zkdeployment.publishing.signing.statement import SignedStatement, Statement, decode_bucket
from zkdeployment.publishing.store import hosts
from zkdeployment.publishing.store.cluster import decode_published
from zkdeployment.publishing.store.documents import decode_document, decode_strategy
from zkdeployment.publishing.store.service_order import decode_entry
from zkdeployment.publishing.targets.services import decode_target
from zkdeployment.service import openid
from zkdeployment.service.users.external_logins import OpenIdAttempt, OpenIdClient
from zkdeployment.strategies.store.agent_records import decode_grant, decode_report
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.tree.canonical import canonical_text
from zkdeployment.tree.lint import lint
from zkdeployment.tree.parse import parse
from zkdeployment.zookeeper.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def read_answer(data: bytes) -> None:
    """Read the header with which the receiver of a webhook asks for a pause."""
    HttpAnswer(429, {"Retry-After": _text(data)}).retry_after(1e9)


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
    provider = _AnsweringProvider(_CLIENT, SystemClock())
    claims = answers.get("claims")
    if isinstance(claims, dict):
        token = jwt.encode({"alg": "HS256"}, claims, _KEY)
        answers = {**answers, "token": {"id_token": token, **(answers.get("token") or {})}}
    provider.answers = answers
    with contextlib.suppress(IdentityProviderError):
        provider.find_user("code", OpenIdAttempt("state", "nonce", "verifier"), "https://fleet.example.com/login")


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
