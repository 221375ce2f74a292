"""The door to HTTP against real servers: everything that a request can wait for ends with its time limit."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import ExitStack
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler

import pytest

from support.certificates import Authority
from support.waiting import wait_until
from support.web.servers import DrippingServer, WebServer, silent_server
from zkdeployment.base.machine.http import (
    LONGEST_RETRY,
    EncryptionError,
    HttpAnswer,
    HttpClient,
    HttpError,
    InvalidRequestError,
    RedirectError,
    TooLargeError,
    TooSlowError,
    client_encryption,
)


class Server(WebServer):
    """Answers each path with its status, headers and content; ``seen`` keeps method, path and body."""

    def __init__(self, answers) -> None:
        self.seen = seen = []
        self.connections = connections = set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                connections.add(self.client_address)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                seen.append((self.command, self.path, body))
                status, headers, content = answers[self.path]
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self):
                self.do_GET()

            def log_message(self, *_):
                pass

        super().__init__(Handler)


def get(url, client=None, **fields):
    return (client or HttpClient()).request("GET", url, **{"timeout": 30.0, "most": 1000, **fields})


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: ",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_an_answer_byte_by_byte_ends_with_the_time_limit_wherever_it_is(begin):
    with DrippingServer(begin) as server, pytest.raises(TooSlowError, match=r"it did not answer within 0\.3 s"):
        get(server.url, timeout=0.3)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_silent_server_ends_with_the_time_limit_also_in_the_handshake(scheme):
    with silent_server() as port, pytest.raises(TooSlowError):
        get(f"{scheme}://127.0.0.1:{port}/", timeout=0.2)


def test_an_encrypted_answer_byte_by_byte_ends_with_the_time_limit(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            try:
                while not ended.wait(0.05):
                    self.wfile.write(b"H")
            except OSError:
                pass

        def log_message(self, *_):
            pass

    with WebServer(Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        url = f"https://localhost:{server.port}/"
        with pytest.raises(TooSlowError):
            get(url, HttpClient(authority.ca), timeout=0.4)
        with pytest.raises(EncryptionError, match="unable to get local issuer certificate"):
            get(url)
        ended.set()


def test_a_client_certificate_that_could_not_be_read_is_read_again(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    own = tmp_path / "client.pem"
    with Server({"/": (200, {}, b"ok")}) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        url, client = f"https://localhost:{server.port}/", HttpClient(authority.ca, own)
        with pytest.raises(HttpError, match="No such file or directory"):
            get(url, client)
        own.write_bytes(certificate.read_bytes() + key.read_bytes())
        assert get(url, client).content == b"ok"


def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(monkeypatch):
    with ExitStack() as stack:
        server = stack.enter_context(Server({"/": (200, {}, b"ok")}))
        full, *waiting = (stack.enter_context(socket.socket()) for _ in range(5))
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for each in waiting:  # the queue of the listener is full: it ignores further connections
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", address)
            for address in (full.getsockname(), ("127.0.0.1", server.port))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert get("http://two.example/", timeout=6.0).content == b"ok"


def test_a_name_that_is_looked_up_for_ever_ends_with_the_time_limit(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait())
    with pytest.raises(TooSlowError):
        get("http://slow.example/", timeout=0.2)
    ended.set()


def test_a_content_above_the_limit_is_an_error_and_not_a_part_of_the_next_answer():
    with Server({"/big": (200, {}, b"x" * 200_000), "/small": (200, {}, b"small")}) as server:
        client = HttpClient()
        with pytest.raises(TooLargeError, match="it answered with more than 1000 bytes"):
            get(f"{server.url}/big", client)
        assert get(f"{server.url}/small", client).content == b"small"
        assert get(f"{server.url}/small", client).content == b"small"
        assert len(server.connections) == 2  # a complete answer keeps its connection


def test_without_a_limit_of_bytes_only_the_head_is_read():
    with DrippingServer(b"HTTP/1.1 202 Accepted\r\nX-A: b\r\n\r\n") as server:
        answer = get(server.url, most=0)
    assert (answer.status, answer.headers["x-a"], answer.content, answer.problem) == (202, "b", b"", "")


def test_redirects_are_followed_with_the_same_request_within_one_server_as_often_as_allowed():
    answers = {"/end": (200, {}, b"here"), "/circle": (307, {"Location": "/circle"}, b"")}
    answers |= {f"/{code}": (code, {"Location": "/end"}, b"moved") for code in (301, 302, 303, 307, 308)}
    with Server(answers) as server:
        for code in (301, 302, 307, 308):
            fields = {"timeout": 30.0, "most": 1000, "body": b"the body", "redirects": 3}
            assert HttpClient().request("POST", f"{server.url}/{code}", **fields).content == b"here"
            assert server.seen[-1] == ("POST", "/end", b"the body")
        for path, redirects in (("301", 0), ("303", 3), ("circle", 3)):
            with pytest.raises(RedirectError, match=f"another place on {server.url}, which is not followed"):
                get(f"{server.url}/{path}", redirects=redirects)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("https://ann:secret@evil.example:99/x?secret", "it redirects to https://evil.example:99, which is not"),
        ("//evil.example/secret", "it redirects to http://evil.example, which is not followed"),
        ("http://evil.example\\@localhost/", "it redirects to http://evil.example, which is not followed"),
        ("http://[", "it redirects to an invalid address"),
        ("http://x:y/", "it redirects to an invalid address"),
    ],
)
def test_a_redirect_to_another_server_is_never_followed(location, reason):
    with Server({"/": (307, {"Location": location}, b"")}) as server, pytest.raises(RedirectError) as refused:
        get(f"{server.url}/", redirects=3)
    assert str(refused.value).startswith(reason)
    assert "secret" not in str(refused.value)


def test_broken_connections_are_tried_again_within_the_time_limit():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            listener.accept()[0].close()
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert get(url, attempts=2).content == b"ok"
        thread.join()
    with pytest.raises(HttpError, match="Connection refused"):
        get(url, attempts=2)
    with DrippingServer() as server:
        with pytest.raises(TooSlowError):
            get(server.url, attempts=5, timeout=0.3)
        wait_until(lambda: server.accepted, "the connection")
    assert server.accepted == 1


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (b"", "it closed the connection"),
        (b"HTTP/1.1 2", "its answer is not valid HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "its answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "it closed the connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "it closed the connection"),
    ],
)
def test_a_connection_that_ends_within_the_answer_is_an_error(begin, reason):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(begin)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(HttpError, match=f"^{reason}$"):
            get(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("nonsense:/secret", {}),
        ("http://[::1/secret", {}),
        ("http://", {}),
        ("http://127.0.0.1:1/", {"Authorization": "secret\n"}),
        ("http://127.0.0.1:1/", {"Authorization": "secret\u20ac"}),
    ],
)
def test_an_invalid_request_is_an_error_without_its_text(url, headers):
    with pytest.raises(HttpError) as refused:
        get(url, headers=headers)
    assert "secret" not in str(refused.value)
    assert isinstance(refused.value, InvalidRequestError) or url.startswith("http://127")


def test_a_request_for_which_no_thread_can_be_started_is_an_error(monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(HttpError, match=r"^cannot start a thread: can't start new thread$"):
        get("http://127.0.0.1:1/")


def test_certificates_that_cannot_be_read_are_an_error(tmp_path):
    with pytest.raises(HttpError, match="No such file or directory"):
        get("https://127.0.0.1:1/", HttpClient(tmp_path / "none.pem"))
    with pytest.raises(OSError, match="No such file"):
        client_encryption(tmp_path / "none.pem")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", 0),
        ("0", 0),
        ("120", 120),
        ("999999", LONGEST_RETRY),
        ("-5", 0),
        ("soon", 0),
        ("1e3", 0),
        (formatdate(1000.0, usegmt=True), 0),
        (formatdate(2090.0, usegmt=True), 90),
        (formatdate(1e9, usegmt=True), LONGEST_RETRY),
        ("Sun, 99 Foo 2026 99:99:99 GMT", 0),
    ],
)
def test_a_pause_that_an_answer_asks_for_is_seconds_or_a_date_and_bounded(header, seconds):
    assert HttpAnswer(503, {"Retry-After": header}).retry_after(2000.0) == seconds
    assert HttpAnswer(503).retry_after(time.time()) == 0
