"""Values that are too deep, too long, too large, or no text: refused, and harmless where they are kept."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from support.branches import Branch
from support.pools.builders import POOLS_DOCUMENT, SSH_KEY, add_tenant
from support.service import running_service
from support.waiting import wait_until
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.json_values import TOO_DEEP
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.feed import pools_of
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.nodes import pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from httpx import Response
    from kazoo.client import KazooClient

    from support.publishing import Publishing
    from support.service import RunningService

TREE = "/shop\n  /web : web\n    version = '1'\n    /deploy\n      /h1\n"
JSON = {"Content-Type": "application/json"}


def nested(depth: int) -> Any:
    """Return lists in lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


#: Values that no operation accepts: as JSON texts, because some of them cannot be written by ``json.dumps``.
HOSTILE = {
    "a lone surrogate": '"a\\ud800b"',
    "a long number": "9" * 500,
    "a number that is too long to read": "9" * 5000,
    "nested lists": json.dumps(nested(300)),
    "very deeply nested lists": "[" * 5000 + "]" * 5000,
    "infinity": "1e999",
    "not a number": "NaN",
    "a control character": '"a\\u0000\\u001b[31mb"',
}


@pytest.fixture
def service(zookeeper: str, publishing: Publishing, tmp_path: Path) -> Iterator[RunningService]:
    publishing.push(TREE, pools_yaml=POOLS_DOCUMENT)
    publishing.sync()
    branch = Branch(tmp_path / "branch")
    branch.push({"a.zk": TREE})
    with running_service(zookeeper, commits=branch.commits()) as running:
        wait_until(lambda: _is_read(running), "the service has read the fleet")
        yield running


def _is_read(service: RunningService) -> bool:
    try:
        return bool(pools_of(service.adapters.feed).configuration.pools)
    except UnreachableError:
        return False


@pytest.fixture
def admin(service: RunningService) -> tuple[str, str]:
    return "boss", add_tenant(service.adapters.users, "boss", Role.ADMIN).key


@pytest.fixture
def description(service: RunningService) -> Any:
    return service.client.get("/openapi.json").json()


def send(service: RunningService, login: tuple[str, str], method: str, path: str, text: str | None) -> Response:
    content = None if text is None else text.encode()
    return service.client.request(method, path, content=content, headers=JSON, auth=login)


def sample(schema: Any, schemas: Any) -> Any:
    """Return a value of a schema."""
    if "$ref" in schema:
        return sample(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for known in ("const", "default"):
        if known in schema and schema[known] is not None:
            return schema[known]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], schemas)
    if schema.get("type") == "object":
        extra = schema.get("additionalProperties")
        named = {name: sample(each, schemas) for name, each in schema.get("properties", {}).items()}
        return named or {"key": sample(extra if isinstance(extra, dict) else {}, schemas)}
    if schema.get("type") == "array":
        return [sample(schema["items"], schemas)]
    return {"integer": 1, "number": 1, "boolean": True}.get(schema.get("type"), "text")


def mutations(value: Any, mark: str) -> Iterator[Any]:
    """Return the value with ``mark`` in place of each of its parts in turn, and as a key of each mapping."""
    yield mark
    if isinstance(value, dict):
        for key, item in value.items():
            for changed in mutations(item, mark):
                yield {**value, key: changed}
        yield {**value, mark: 1}
    elif isinstance(value, list):
        for changed in mutations(value[0], mark) if value else (mark,):
            yield [changed]


def hostile_bodies(body: Any) -> Iterator[tuple[str, str]]:
    """Return bodies as JSON texts in which one part is hostile, with the fault."""
    for mutated in mutations(body, "@HERE@"):
        text = json.dumps(mutated)
        for what, value in HOSTILE.items():
            is_key = '"@HERE@": 1' in text and '"@HERE@"' not in text.replace('"@HERE@":', "")
            if not is_key or value.startswith('"'):
                yield what, text.replace('"@HERE@"', value)


def operations(description: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def address(path: str, value: str = "1") -> str:
    return re.sub(r"{[^}]*}", value, path)


def test_no_part_of_a_body_makes_the_service_fail(service: RunningService, admin, description):
    monitor = service.add_user(Role.MONITORING, "1")
    answers = []
    for method, path, operation in operations(description):
        if "requestBody" not in operation or path == "/api/v1/publish":  # a publication waits for a syncer
            continue
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        login = monitor if path.startswith("/deployments") else admin
        for what, text in hostile_bodies(sample(schema, description["components"]["schemas"])):
            answers.append((method, path, what, text, send(service, login, method, address(path), text)))
    assert len(answers) > 500
    failed = [(*each, answer.status_code) for *each, answer in answers if answer.status_code >= 500]
    assert failed == []
    # No parser sees them: near its limit of recursion, finalizers of other objects would fail.
    deepest = {(answer.status_code, answer.text) for *_, text, answer in answers if "[" * 5000 in text}
    assert [(status, TOO_DEEP in text) for status, text in deepest] == [(422, True)]
    refused = {answer.json()["detail"] for *_, answer in answers if answer.status_code == 422}
    assert [text for text in refused if re.search(r"function-|\w\(|lambda|union|Error\b", text)] == []
    for path in ("/api/v1/nodes", "/api/v1/sessions", "/api/v1/tenants", "/api/v1/checks"):
        assert service.client.get(path, auth=admin).status_code == 200


def test_no_parameter_makes_the_service_fail(service: RunningService, admin, description):
    values = (
        "9" * 500,
        "9" * 5000,
        "-" + "9" * 5000,
        "%ED%A0%80",
        "%00",
        "%1B",
        "%FF",
        "",
        "..",
        "%2E%2E",
        "a" * 5000,
    )
    failed = []
    for method, path, operation in operations(description):
        if method != "GET" or path == "/api/v1/events":
            continue
        queries = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
        addresses = [address(path, value) for value in values]
        addresses += [f"{address(path)}?{name}={value}" for name in queries for value in values]
        for target in addresses:
            answer = service.client.get(target, auth=admin)
            if answer.status_code >= 500:
                failed.append((target[:80], answer.status_code, answer.text))
    assert failed == []


def test_no_parameter_of_a_page_makes_the_service_fail(service: RunningService, admin):
    pages = {
        "/": ("text", "page", "sort", "state"),
        "/services": ("text", "page"),
        "/history": ("page",),
        "/history/{}": (),
        "/hosts/{}": (),
        "/map/{}": (),
        "/services/{}": (),
        "/intents": ("text", "state", "sort", "page"),
        "/intents/{}": ("instance", "app"),
        "/checks": ("text", "state", "page"),
        "/pools": ("text", "state", "page", "session"),
        "/audit": ("who",),
        "/plan": ("revision",),
        "/acts/{}": ("back",),
        "/acts/rollback": ("sequence",),
        "/acts/release": ("lock",),
        "/acts/rollout-promote": ("group",),
        "/acts/intent-approve": ("subject",),
        "/pools/acts/{}": ("node",),
        "/pools/acts/extend": ("session",),
        "/pools/acts/drain": ("node",),
        "/pools/acts/fill": ("pool",),
        "/login": ("next",),
    }
    values = ("9" * 500, "9" * 5000, "%ED%A0%80", "%00", "%1B", "%FF", "\u0663", "\u00b2", "..", "a" * 5000)
    failed = []
    with service.browser(admin) as browser:
        for page, parameters in pages.items():
            targets = [page.format(value) for value in values if "{}" in page]
            targets += [f"{page.format('1')}?{name}={value}" for name in parameters for value in values]
            found = [(target[:80], browser.get(target)) for target in targets]
            failed += [(target, answer.text) for target, answer in found if answer.status_code >= 500]
    assert failed == []


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-7", "raw_unicode_escape", "utf-16", "base64"])
def test_a_form_in_any_encoding_has_text_only(service: RunningService, admin, charset: str):
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("reason", "a\\ud800b +2AA-"), ("back", "\\ud800"), ("lock", "\\udc00"))
    )
    with service.browser(admin) as browser:
        token = re.search('name="csrf_token" value="([^"]+)"', browser.get("/acts/stop").text)
        assert token is not None
        headers = {
            "Content-Type": f"multipart/form-data; boundary=x; charset={charset}",
            "X-CSRF-Token": token[1],
        }
        for act in ("stop", "release", "rollback"):
            answer = browser.post(f"/acts/{act}", content=f"{parts}--x--\r\n".encode(), headers=headers)
            assert answer.status_code < 500, answer.text


def test_a_node_with_data_that_are_too_deep_or_too_long_is_refused(service: RunningService, admin):
    node = {"hostname": "n1.example.com", "ipaddr": "192.0.2.1"}
    for data in ({"a": nested(300)}, {"a": nested(40)}, {"a": "x" * 100_000}):
        answer = send(service, admin, "POST", "/api/v1/nodes", json.dumps({**node, "data": data}))
        assert (answer.status_code, "expected" in answer.json()["detail"]) == (422, True), answer.text
    assert service.client.get("/api/v1/nodes", auth=admin).json()["nodes"] == []
    kept = send(service, admin, "POST", "/api/v1/nodes", json.dumps({**node, "data": {"a": nested(5)}}))
    assert kept.json()["node"]["data"] == {"a": nested(5)}


def test_a_bad_record_does_not_break_the_lists(service: RunningService, admin, client: KazooClient):
    good = {"hostname": "good.example.com", "ipaddr": "192.0.2.1"}
    number = send(service, admin, "POST", "/api/v1/nodes", json.dumps(good)).json()["node"]["id"]
    known = {"state": "unused", "created_at": 1, "changed": 1}
    bad = [
        {"data": {"a": nested(300)}, "hostname": "deep.example.com"},
        {"hostname": 7},
        {"created_at": 1e300},
        {"created_at": "yesterday"},
        {"data": [1]},
        {"pool": ["web"]},
        {"retired_at": {}},
    ]
    for place, fields in enumerate(bad, start=number + 1):
        client.create(f"{pool_paths.NODES}/{place}", pack({"id": place, **known, **fields}))
    session = {"id": 500, "tenant": 1, "specs": [], "nodes": [], "leased": [], "created_at": 1}
    for place, ends in enumerate((1e300, "never", -1e300), start=500):
        client.create(f"{pool_paths.SESSIONS}/{place}", pack({**session, "id": place, "expires_at": ends}))
    client.set(pool_paths.CHANGES, b"")
    nodes = service.client.get("/api/v1/nodes", auth=admin)
    assert nodes.status_code == 200, nodes.text
    assert {"good.example.com", "deep.example.com"} <= {node["hostname"] for node in nodes.json()["nodes"]}
    assert service.client.get(f"/api/v1/nodes/{number + 1}", auth=admin).status_code == 200
    assert service.client.get("/api/v1/sessions", auth=admin).status_code == 200
    with service.browser(admin) as browser:
        wait_until(lambda: "deep.example.com" in browser.get("/pools").text, "the page shows the nodes")
        assert browser.get("/").status_code == 200


def test_a_session_ends_at_a_time_that_can_be_shown(service: RunningService, admin):
    for end in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", 10**500, "9" * 500, "+9999999w"):
        answer = send(service, admin, "PUT", "/api/v1/sessions/99", json.dumps({"expires_at": end}))
        assert answer.status_code in {404, 422}, (end, answer.text)


@pytest.mark.parametrize("last", ["9" * 5000, "9" * 30, "-1", "\u0663", "x"])
def test_an_event_stream_resumes_after_no_id_that_cannot_be_one(service: RunningService, admin, last: str):
    headers = {"Last-Event-ID": last.encode("utf-8")}
    with service.client.stream("GET", "/api/v1/events", auth=admin, headers=headers) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event: reset"))


def test_every_page_and_answer_has_the_same_head(service: RunningService, admin):
    for path in (
        "/healthz",
        "/login",
        "/openapi.json",
        "/metrics",
        "/api/v1/status",
        "/api/v1/nodes",
        "/api/v1/events",
    ):
        head = service.client.head(path, auth=admin, timeout=30)
        with service.client.stream("GET", path, auth=admin) as answer:
            assert (head.status_code, head.content) == (answer.status_code, b""), path
            assert head.headers["content-type"] == answer.headers["content-type"]
    unknown = service.client.head("/nothing", auth=admin)
    assert (unknown.status_code, unknown.content) == (404, b"")
    assert service.client.head("/api/v1/stop", auth=admin).status_code == 405
    monitor = service.add_user(Role.MONITORING, "nagios1")
    assert service.client.head("/deployments/monitoring/nagios1", auth=monitor).status_code == 405


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("tenants", {"session_lifetime": 10**499}, "body: expected whole numbers of at most 64 bits"),
        ("tenants", {"session_lifetime": 10**18}, "body.session_lifetime: expected seconds, or a duration"),
        ("tenants", {"session_lifetime": "soon"}, "body.session_lifetime: expected seconds, or a duration"),
        ("tenants", {"ssh_key": "x"}, "body.ssh_key: "),
    ],
)
def test_a_refusal_names_the_place_and_the_reason_only(service: RunningService, admin, path, body, detail):
    given = {"name": "ci", "ssh_key": SSH_KEY, **body}
    answer = send(service, admin, "POST", f"/api/v1/{path}", json.dumps(given))
    assert (answer.status_code, answer.json()["detail"].startswith(detail)) == (422, True), answer.text
