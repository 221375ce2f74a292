"""Event streams of services: of real ones over TLS with faults of the network, and of hostile servers."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.certificates import Authority
from support.proxy import Proxy
from support.service import running_service
from support.waiting import wait_until
from support.zookeeper import write_node
from zkdeployment.base.act import Act
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.promotion import services, streams
from zkdeployment.promotion.records import FleetReport, FleetState
from zkdeployment.promotion.services import FleetServices, ServiceClient
from zkdeployment.promotion.streams import EventStreams
from zkdeployment.sandbox.zookeeper import free_port
from zkdeployment.service.users.user import Role

#: Seconds between two requests that no event causes: longer than a test.
RARELY = 36000.0

OLD, NEW = "1" * 40, "2" * 40

ACT = Act("tests", "user", "a test", 0.0)


class Followed:
    """Services that are followed in the background; ``woken`` counts the changes."""

    def __init__(self, tokens, ca=None, interval=RARELY) -> None:
        self.client = client = ServiceClient(tokens, ca)
        self.streams = EventStreams(client)
        self.woken = threading.Semaphore(0)
        self.services = FleetServices(
            client, SystemClock(), self.woken.release, interval=interval, streams=self.streams
        )
        self.addresses = {}

    def report(self, fleet="eu-1"):
        return self.services.reports(self.addresses).get(fleet)

    def wait_for(self, state, **fields):
        """Wait until the report of the fleet has a state and fields, and return it."""

        report = None

        def holds():
            nonlocal report
            report = self.report()
            return (
                report
                and report.state is state
                and all(getattr(report, name) == value for name, value in fields.items())
            )

        wait_until(holds, f"a report with {state} and {fields}")
        return report

    def follow(self, **addresses):
        """Follow services, and wait until all streams are open."""
        self.addresses = {name.replace("_", "-"): url for name, url in addresses.items()}
        wait_until(lambda: self.report() and self.streams.open == len(addresses), "the streams are open")


@pytest.fixture
def tokens(tmp_path):
    directory = tmp_path / "tokens"
    directory.mkdir()
    write_token(directory, "eu-1", "promoter", "secret-key")
    return directory


def write_token(directory, fleet, *login):
    file = directory / fleet
    file.write_text(f"{':'.join(login)} 127.0.0.1")
    file.chmod(0o600)


@pytest.fixture
def following(tokens):
    """Return a function that begins to follow services; all streams end with the test."""
    opened = []

    def follow(*arguments, **options):
        opened.append(Followed(tokens, *arguments, **options))
        return opened[-1]

    yield follow
    for each in opened:
        each.streams.close()
        each.client.close()


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def nodes(client):
    """A fleet with two hosts, which converged at the old commit."""
    write_node(client, "/zkdeployment/targets", {"version": OLD, "sequence": 7, "ordered": OLD})
    write_node(client, "/hosts", {"version": OLD})
    for name in ("h1", "h2"):
        write_node(client, f"/hosts/{name}", {"name": name, "version": OLD})
    return client


@pytest.fixture
def secure(zookeeper, nodes, authority, tokens):  # noqa: ARG001
    with running_service(zookeeper, authority=authority) as service:
        write_token(tokens, "eu-1", *service.add_user(Role.VIEWER, "promoter"))
        yield service


def test_a_convergence_and_a_stop_are_seen_at_once(secure, nodes, authority, following):
    followed = following(authority.ca)
    followed.follow(eu_1=secure.url)
    followed.wait_for(FleetState.CONVERGED, revision=OLD, hosts=2)
    write_node(nodes, "/zkdeployment/targets", {"version": NEW, "sequence": 8, "ordered": NEW})
    write_node(nodes, "/hosts", {"version": NEW})
    followed.wait_for(FleetState.ROLLING_OUT, revision=NEW)
    write_node(nodes, "/hosts/h1", {"name": "h1", "version": NEW})
    write_node(nodes, "/hosts/h2", {"name": "h2", "version": NEW})
    begun = time.monotonic()
    followed.wait_for(FleetState.CONVERGED, revision=NEW, hosts=2)
    write_node(nodes, "/hosts", {"version": None})
    followed.wait_for(FleetState.STOPPED)
    assert time.monotonic() - begun < 60  # here, the interval is ten hours


def test_a_lost_stream_makes_the_promoter_ask_at_once_and_is_opened_again(secure, authority, following):
    with Proxy("127.0.0.1", int(secure.url.rpartition(":")[2])) as proxy:
        followed = following(authority.ca)
        followed.follow(eu_1=f"https://127.0.0.1:{proxy.port}")
        before = followed.report().read_at
        proxy.drop()
        wait_until(lambda: followed.report().read_at > before, "the service is asked again")
        wait_until(lambda: followed.services.open_streams == 1, "the stream is open again")
        proxy.cut()
        assert "cannot reach the service" in followed.wait_for(FleetState.UNREACHABLE).problem
        wait_until(lambda: followed.streams.open == 0, "the stream has ended")


def test_a_silent_stream_counts_as_lost(secure, authority, following, monkeypatch):
    monkeypatch.setattr(streams, "_SILENCE", 3.0)
    with Proxy("127.0.0.1", int(secure.url.rpartition(":")[2])) as proxy:
        followed = following(authority.ca)
        followed.follow(eu_1=f"https://127.0.0.1:{proxy.port}")
        monkeypatch.setattr(services, "_REPORT", 0.5)
        proxy.freeze()
        assert "did not answer within 0.5 s" in followed.wait_for(FleetState.UNREACHABLE).problem


@pytest.mark.usefixtures("nodes")
def test_a_restarted_service_is_followed_again(zookeeper, authority, tokens, following):
    port, followed = free_port(), following(authority.ca, interval=0.2)
    with running_service(zookeeper, authority=authority, port=port) as service:
        write_token(tokens, "eu-1", *service.add_user(Role.VIEWER, "promoter"))
        followed.follow(eu_1=service.url)
    followed.wait_for(FleetState.UNREACHABLE)
    with running_service(zookeeper, authority=authority, port=port):
        followed.wait_for(FleetState.CONVERGED)
        wait_until(lambda: followed.report() and followed.streams.open == 1, "the stream is open again")


def test_the_end_of_a_key_is_seen_at_once(secure, authority, following):
    followed = following(authority.ca)
    followed.follow(eu_1=secure.url)
    secure.adapters.users.reset_key("promoter", ACT)
    assert "refuses the key" in followed.wait_for(FleetState.UNREACHABLE).problem


class Server:
    """Answers reports, and requests for events with the function ``stream``; counts both."""

    def __init__(self, stream) -> None:
        self.reports, self.streams, self.tags, self.ended = 0, 0, [], threading.Event()
        self.stream = stream
        self.report = {"schema": "zkdeployment/fleet/v1", **FleetReport(FleetState.CONVERGED, "1" * 40).to_json()}

    @contextmanager
    def running(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path.startswith("/api/v1/events?kinds=host&"):
                    server.streams += 1
                    assert self.headers["Accept"] == "text/event-stream"
                    assert self.headers["Authorization"].startswith("Basic ")
                    self.close_connection = True
                    server.stream(self)
                    return
                server.reports += 1
                body = json.dumps(server.report).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_arguments):
                """Clients leave in the middle of a stream."""

        httpd = Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}"
        finally:
            self.ended.set()
            httpd.shutdown()
            httpd.server_close()


def begin(request, status=200, kind="text/event-stream; charset=utf-8", **headers):
    request.send_response(status)
    for name, value in ({"Content-Type": kind} | headers).items():
        request.send_header(name, value)
    request.end_headers()


def answer(status, kind="application/json", **headers):
    def stream(request):
        begin(request, status, kind, **headers)
        request.wfile.write(b"{}")

    return stream


@pytest.mark.parametrize(
    "stream",
    [
        answer(404),
        answer(401),
        answer(503),
        answer(200),
        answer(302, Location="http://127.0.0.1:9/"),
        lambda request: request.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n"),
        lambda request: request.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n"),
        lambda request: request.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000),
        lambda _request: None,
    ],
)
def test_a_service_without_streams_is_only_asked_at_intervals(following, stream, monkeypatch):
    monkeypatch.setattr(streams, "_FIRST_PAUSE", 0.05)
    server = Server(stream)
    with server.running() as url:
        followed = following()
        followed.addresses = {"eu-1": url}
        wait_until(lambda: followed.report() and server.streams >= 3, "the stream was tried again")
        assert followed.streams.open == 0
        assert followed.report().state is FleetState.CONVERGED
        assert server.reports == 1


def endless(piece):
    def stream(request):
        begin(request)
        while True:
            request.wfile.write(piece)

    return stream


def chunked(text):
    def stream(request):
        begin(request, **{"Transfer-Encoding": "chunked"})
        request.wfile.write(text)

    return stream


@pytest.mark.parametrize(
    "stream",
    [
        endless(b"x" * 1000),
        endless(b"data: x\n" * 100),
        chunked(b"not a chunk\r\n" * 100),
        chunked(b"5\r\nevent\r\n0\r\n\r\n"),
    ],
)
def test_a_stream_with_garbage_is_closed_and_its_service_still_asked(following, stream, monkeypatch):
    monkeypatch.setattr(streams, "_FIRST_PAUSE", 0.05)
    server = Server(stream)
    with server.running() as url:
        followed = following()
        followed.addresses = {"eu-1": url}
        wait_until(lambda: followed.report() and server.streams >= 2, "the stream was closed and tried again")
        wait_until(
            lambda: followed.report() and server.reports >= 2, "the service is asked at the end of its stream"
        )
        assert followed.report().state is FleetState.CONVERGED


def test_a_flood_of_events_causes_at_most_one_request_a_second_and_delays_no_other_fleet(tokens, following):
    flood, quiet = Server(endless(b"event: stop\ndata: {}\n\n" * 100)), Server(None)
    events = threading.Semaphore(0)

    def send_events(request):
        begin(request)
        while not quiet.ended.is_set():
            if events.acquire(timeout=0.1):
                request.wfile.write(b"event: stop\ndata: {}\n\n")

    quiet.stream = send_events
    write_token(tokens, "us-1", "promoter", "key")
    with flood.running() as first, quiet.running() as second:
        followed = following()
        begun = time.monotonic()
        followed.follow(eu_1=first, us_1=second)
        for number in range(3):
            events.release()
            wait_until(lambda: quiet.reports == number + 2, "an event of the other service")  # noqa: B023
        assert 2 <= flood.reports <= 2 + time.monotonic() - begun


def test_one_thread_holds_the_streams_of_a_hundred_fleets(tokens, following):
    def wait(request):
        begin(request)
        server.ended.wait()

    server = Server(wait)
    with server.running() as url:
        followed = following()
        for number in range(100):
            write_token(tokens, f"f-{number}", "promoter", "key")
        followed.addresses = {f"f-{number}": url for number in range(100)}
        wait_until(lambda: followed.report("f-99") and followed.streams.open == 100, "a hundred streams are open")
        found = [thread.name for thread in threading.enumerate()]
        assert len([name for name in found if name.startswith("fleet-streams")]) == 1
        followed.addresses = {"f-1": url}
        wait_until(lambda: followed.report("f-1") and followed.streams.open == 1, "the other streams have ended")


def test_the_streams_end_when_nobody_follows_them(following, monkeypatch):
    monkeypatch.setattr(streams, "_UNUSED", 0.3)
    server = Server(lambda request: (begin(request), server.ended.wait()))
    with server.running() as url:
        followed = following()
        followed.follow(eu_1=url)
        wait_until(lambda: followed.streams.open == 0, "the stream of a promoter that does not lead has ended")
        followed.follow(eu_1=url)


def test_streams_open_when_the_system_can_start_threads_again(following, monkeypatch):
    start, failed = threading.Thread.start, []

    def fail_twice(thread):
        kind = thread.name.partition("_")[0]
        if kind in {"fleet-streams", "asyncio"} and failed.count(kind) < 2:
            failed.append(kind)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(streams, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(threading.Thread, "start", fail_twice)
    server = Server(lambda request: (begin(request), server.ended.wait()))
    with server.running() as url:
        following().follow(eu_1=url)
    assert failed == ["fleet-streams"] * 2 + ["asyncio"] * 2


def test_a_stream_demands_the_certificate_of_the_authority(secure, tmp_path, tokens, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(streams, "_FIRST_PAUSE", 0.05)
    followed, seen = EventStreams(ServiceClient(tokens, Authority(other).ca)), []
    followed.subscribe(lambda service: seen.append(service) or True, lambda _service: 1)
    with Proxy("127.0.0.1", int(secure.url.rpartition(":")[2])) as proxy:
        followed.follow([services.FleetService("eu-1", f"https://127.0.0.1:{proxy.port}")])
        wait_until(lambda: proxy.accepted >= 3, "the stream was tried again")
        followed.close()
    assert (followed.open, seen) == (0, [])
