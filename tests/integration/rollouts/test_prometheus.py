"""The client of a server of metrics, against a real Prometheus and against servers that answer anything else."""

import base64
import json
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from support.certificates import Authority
from support.waiting import wait_until
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.rollouts.measuring import MetricsServer, NoDataError
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.sandbox.analysis_demo import PrometheusServer
from zkdeployment.strategies.documents import strategies
from zkdeployment.strategies.queries import QueryVariables, resolve


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    server = PrometheusServer(tmp_path_factory.mktemp("prometheus"))
    server.start()
    yield server
    server.kill()


def problem(server, query="up", at=None):
    with pytest.raises(NoDataError) as missing:
        server.query(query, at)
    return str(missing.value)


@contextmanager
def answering(status=200, body=b"", headers=(), seen=None):
    """Yield the URL of a server with this answer; ``seen`` receives the headers of requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            if seen is not None:
                seen.append(dict(self.headers))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def vector(*values):
    result = [{"metric": {}, "value": [time.time(), value]} for value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def client(url, **fields):
    return MetricsServer(MetricsSettings(url=url, **{"timeout": 5.0, **fields}))


def test_a_query_has_the_value_that_prometheus_computes(prometheus):
    server = client(prometheus.url)
    assert server.query("vector(0.25)").value == 0.25
    assert server.query("scalar(vector(3))").value == 3
    assert server.query("-1e3").value == -1000
    assert server.query("time()", 1_000_000_000.5) == (1_000_000_000.5, 1_000_000_000.5)


@pytest.mark.parametrize("timeout", [0.5, 2.5, 1e6])
def test_prometheus_accepts_every_configured_timeout(prometheus, timeout):
    assert client(prometheus.url, timeout=timeout).query("vector(1)").value == 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("nothing", "the result is empty: no series matches"),
        (
            'label_replace(vector(1), "a", "1", "", "") or label_replace(vector(2), "a", "2", "", "")',
            "has 2 series",
        ),
        ("vector(1)[5m:1m]", "the query returned a matrix; expected one number"),
        ('"text"', "the query returned a string; expected one number"),
        ("sum(", "the server refused the query: bad_data:"),
    ],
)
def test_answers_of_prometheus_that_are_no_number_have_their_own_reasons(prometheus, query, reason):
    assert reason in problem(client(prometheus.url), query)


def test_not_a_number_and_infinities_are_values_for_the_judgement(prometheus):
    server = client(prometheus.url)
    assert str(server.query("vector(0) / 0").value) == "nan"
    assert server.query("vector(1) / 0").value == float("inf")


def test_a_killed_prometheus_is_out_of_reach_and_a_frozen_one_too_slow(tmp_path):
    server = PrometheusServer(tmp_path)
    server.start()
    os.kill(server.pid, signal.SIGSTOP)
    threads = psutil.Process(server.pid).threads()
    wait_until(lambda: all(psutil.Process(each.id).status() == "stopped" for each in threads), "the freeze")
    try:
        assert problem(client(server.url, timeout=0.3)) == "the server did not answer within 0.3 s"
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.kill()
    assert problem(client(server.url)).startswith(f"cannot reach {server.url}: ")


def test_a_prometheus_with_certificates_and_passwords_accepts_only_who_has_them(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    own, own_key = authority.issue("coordinator")
    both = tmp_path / "both.pem"
    both.write_bytes(own_key.read_bytes() + own.read_bytes())
    web = tmp_path / "web.yml"
    # The hash of "secret", by bcrypt.
    web.write_text(
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}, client_ca_file: {authority.ca},"
        " client_auth_type: RequireAndVerifyClientCert}\n"
        "basic_auth_users: {ops: '$2b$04$jIi3YpsSrKpm8dZyOZp9S.3hCwQWh/3Q9lnQ3Mb1JwOcXrSSEllTK'}\n"
    )
    directory = tmp_path / "server"
    server = PrometheusServer(directory, [f"--web.config.file={web}"], scheme="https")
    server.start()
    headers = tmp_path / "headers"
    headers.write_text(f"Authorization: Basic {base64.b64encode(b'ops:secret').decode()}\n")
    try:
        trusted = {"ca": authority.ca, "certificate": both}
        assert client(server.url, headers_file=headers, **trusted).query("vector(1)").value == 1
        assert "status 401" in problem(client(server.url, **trusted))
        assert problem(client(server.url, certificate=both)).startswith(f"cannot reach {server.url}: ")
        assert problem(client(server.url, ca=authority.ca)).startswith(f"cannot reach {server.url}: ")
        assert "cannot reach" in problem(client(server.url, ca=tmp_path / "nothing"))
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"", "the server answered with status 200 and no content; expected the API of Prometheus"),
        (502, b"<html>Bad gateway</html>", "the server answered with status 502 and text that is no answer"),
        (200, b"[]", "the server answered with status 200"),
        (200, b'{"status": "success"}', "the server answered with status 200"),
        (200, b'{"status": "error", "errorType": "timeout", "error": "too\\n slow"}', "timeout: too slow"),
        (200, vector(*["1"] * 10_000), "the result has 10000 series; expected one: aggregate them, as with sum()"),
        (200, b" " * ((1 << 20) + 1), "the answer is larger than 1048576 bytes; aggregate the query"),
        (200, vector("high"), "the server answered with status 200"),
        (200, vector(10**400), "the server answered with status 200"),
        (200, vector(None), "the server answered with status 200"),
        (200, b"[" * 100_000, "the server answered with status 200"),
    ],
)
def test_other_answers_have_a_reason(status, body, reason):
    with answering(status, body) as url:
        assert reason in problem(client(url))


@pytest.mark.parametrize("time", [1000.0, "nan"])
def test_an_answer_of_another_time_is_no_data(time):
    data = {"resultType": "vector", "result": [{"metric": {}, "value": [time, "1"]}]}
    with answering(body=json.dumps({"status": "success", "data": data}).encode()) as url:
        assert problem(client(url)).startswith("the answer is of another time: ")
        assert client(url).query("up", 1000.0).value == 1


def test_redirects_are_followed_only_within_the_server():
    with (
        answering(body=vector("7")) as other,
        answering(307, headers=[("Location", f"{other}/api/v1/query")]) as elsewhere,
        answering(307, headers=[("Location", "/again")]) as circle,
    ):
        assert f"it redirects to {other}, which is not followed" in problem(client(elsewhere))
        assert f"it redirects to another place on {circle}, which is not followed" in problem(client(circle))


def test_the_token_and_the_headers_are_read_for_each_query(tmp_path):
    token, headers, seen = tmp_path / "token", tmp_path / "headers", []
    token.write_text("one\n")
    headers.write_text("X-Scope-OrgID: ops\n")
    with answering(body=vector("1"), seen=seen) as url:
        server = client(url, token_file=token, headers_file=headers)
        server.query("up")
        token.write_text("two\n")
        server.query("up")
        token.unlink()
        assert problem(server) == f"cannot read {token}: No such file or directory"
        token.write_bytes(b"\xff")
        assert problem(server) == f"cannot read {token}: it is not UTF-8 text"
        token.write_text("\n")
        assert problem(server).startswith("expected text of at most 65536 bytes in")
        headers.write_text("no header\n")
        assert problem(server) == f"expected lines NAME: VALUE in {headers}"
    assert [each["Authorization"] for each in seen] == ["Bearer one", "Bearer two"]
    assert seen[0]["X-Scope-OrgID"] == "ops"


@pytest.mark.parametrize(
    "content", ["hidden\nolder", "hidden older", "hidden\tolder", "h\u20acdden", "hidden\x01"]
)
def test_a_token_that_is_not_one_word_is_refused_without_its_text(tmp_path, content):
    token = tmp_path / "token"
    token.write_text(content)
    with answering(body=vector("1")) as url:
        reason = problem(client(url, token_file=token))
    assert reason == f"expected one word of ASCII characters in {token}"


@pytest.mark.parametrize("value", ["h\u20acdden", "hid\x01den"])
def test_a_header_that_http_cannot_carry_is_refused_without_its_text(tmp_path, value):
    headers = tmp_path / "headers"
    headers.write_text(f"Authorization: {value}\n")
    with answering(body=vector("1")) as url:
        reason = problem(client(url, headers_file=headers))
    assert reason == f"expected lines NAME: VALUE in {headers}"


def test_an_invalid_redirect_has_a_reason():
    with answering(307, headers=[("Location", "http://[")]) as url:
        assert problem(client(url)) == f"the answer of {url} cannot be used: it redirects to an invalid address"


def test_a_kept_connection_that_the_server_closes_is_replaced():
    answer = vector("1")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            for requests in (2, 1):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
                    if requests == 2:
                        connection.recv(4096)  # and no answer

        thread = threading.Thread(target=serve)
        thread.start()
        server = client(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert [server.query("vector(1)").value for _ in range(2)] == [1, 1]
        thread.join()


def test_prometheus_accepts_the_queries_of_the_manual(prometheus):
    example = Path(__file__).parents[3] / "etc" / "manual" / "examples" / "analysis.yaml"
    documents = read_documents([SourceFile(example.name, example.read_bytes())])
    assert not documents.errors
    variables = QueryVariables(instances=("app1:80", "app2:80"))
    metrics = strategies(documents)["deployment-strategy"].group("canary").pace.analysis
    assert metrics
    for metric in metrics:
        assert problem(client(prometheus.url), resolve(metric.query, variables)).startswith("the result is empty")
