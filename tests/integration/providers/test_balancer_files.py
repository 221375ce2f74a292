"""Filters keep the files of the real HAProxy and nginx, as the checks of these programs permit."""

import os
import signal
import threading
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.balancers import running_haproxy, running_nginx
from support.commands import invoke
from support.forks import ForkedProgram
from support.manual import MANUAL
from support.waiting import wait_until
from zkdeployment.providers.balancers import BalancerFile, CheckedFile, command, envoy_form
from zkdeployment.providers.instance import Provider
from zkdeployment.providers.reader import ZooKeeperProviderReader
from zkdeployment.zookeeper.session import Session

SOURCE, OUTPUT = "/shop/web/providers", "/in-service/web"


#: The bytes of a long answer between its first and its last part: more than the buffers on its way.
LONG = 1 << 24


@contextmanager
def server(text, finish=None):
    """Serve a text at a free port, and yield its address.

    The text at ``/long`` is followed by many bytes, half of them only after the event ``finish``.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_long = self.path == "/long"
            self.send_response(200)
            self.send_header("Content-Length", str(len(text) + is_long * LONG))
            self.end_headers()
            self.wfile.write(text)
            if is_long:
                self.wfile.write(bytes(LONG // 2))
                finish.wait()
                self.wfile.write(bytes(LONG // 2))

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{found.server_port}"
        finally:
            found.shutdown()


@pytest.fixture
def start(zookeeper, tmp_path):
    """Return a function that starts a filter for a load balancer."""
    started = []

    def start_filter(*options):
        log = tmp_path / f"filter-{len(started)}.log"
        words = ["filter", "-z", zookeeper, SOURCE, OUTPUT, *map(str, options)]
        with log.open("w") as output:
            process = ForkedProgram(words, os.environ | {"ZKDEPLOYMENT_CONFIG": ""}, output=output)
        started.append(process)
        return process, log.read_text

    yield start_filter
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait()


@pytest.mark.parametrize(
    ("run", "wrong"),
    [(running_haproxy, "backend web\n    nonsense\n"), (running_nginx, "upstream web { nonsense; }\n")],
    ids=["haproxy", "nginx"],
)
def test_a_load_balancer_forwards_to_the_version_in_service_and_refuses_a_wrong_file(
    run, wrong, zookeeper, start, tmp_path
):
    with Session(zookeeper) as session, run(tmp_path) as balancer, server(b"old") as old, server(b"new") as new:
        session.ensure(SOURCE)
        Provider(session, SOURCE, old).register({"version": "1"})
        template = tmp_path / "web.j2"
        template.write_text((MANUAL / "examples" / "load-balancer" / balancer.example).read_text())
        commands = ["--check", balancer.check, "--reload", balancer.reload]
        if balancer.admin is not None:  # HAProxy ignores a reload that comes while it reloads
            commands += ["--socket", balancer.admin]
        template.with_suffix(".good").write_text(template.read_text())
        first, _ = start("--file", balancer.file, "--template", template, *commands)
        wait_until(lambda: balancer.answers() and balancer.get()[1] == b"old", "answers of the old version")
        loaded = balancer.file.read_text()
        template.write_text(wrong)
        first.send_signal(signal.SIGTERM)
        first.wait()
        second, log = start("--file", balancer.file, "--template", template, *commands)
        wait_until(lambda: "balancer-file-incomplete" in log(), "the refusal of the wrong file")
        assert "nonsense" in log()
        wait_until(lambda: balancer.file.read_text() == loaded, "the former file")
        assert balancer.get()[1] == b"old"
        second.send_signal(signal.SIGTERM)
        second.wait()
        _, log = start("--file", balancer.file, "--template", template.with_suffix(".good"), *commands)
        wait_until(lambda: "balancer-loaded" in log(), "the file of the right template")
        session._client.delete(f"{SOURCE}/{old}")
        Provider(session, SOURCE, new).register({"version": "2"})
        wait_until(lambda: balancer.answers() and balancer.get()[1] == b"new", "answers of the new version")
        assert new in balancer.file.read_text()
        # A slow filter may load the file without any server first.
        wait_until(lambda: log().count("balancer-loaded") > 1, "the logged load of the new version")


@contextmanager
def download(balancer, length):
    """Yield the first bytes of a long answer through a load balancer, and a function that returns the others."""
    connection = HTTPConnection("127.0.0.1", balancer.port, timeout=60)
    try:
        connection.request("GET", "/long")
        answer = connection.getresponse()
        yield answer.read(length), answer.read
    finally:
        connection.close()


def test_a_long_download_goes_on_while_its_instance_is_drained_and_others_get_the_new_requests(
    zookeeper, start, tmp_path
):
    finish = threading.Event()
    with ExitStack() as stack:
        session = stack.enter_context(Session(zookeeper))
        balancer = stack.enter_context(running_haproxy(tmp_path))
        left, stays = (stack.enter_context(server(text, finish)) for text in (b"left", b"stay"))
        stack.callback(finish.set)
        session.ensure(SOURCE)
        Provider(session, SOURCE, left).register({"version": "1", "share": 200})
        staying = Provider(session, SOURCE, stays)
        staying.register({"version": "1", "share": 0})
        template = MANUAL / "examples" / "load-balancer" / balancer.example
        options = (
            "--file",
            balancer.file,
            "--template",
            template,
            "--weight",
            "share",
            "--socket",
            balancer.admin,
        )
        _, log = start(*options, "--check", balancer.check, "--reload", balancer.reload)
        wait_until(
            lambda: balancer.answers() and balancer.get()[1] == b"left", "answers of the only used instance"
        )
        pid = balancer.pid
        assert balancer.servers == {left: (200, False), stays: (0, False)}
        first, rest = stack.enter_context(download(balancer, len(b"left")))
        assert first == b"left"
        staying.register({"version": "1", "share": 7})
        wait_until(lambda: balancer.servers == {left: (200, False), stays: (7, False)}, "the new weight")
        session._client.delete(f"{SOURCE}/{left}")
        wait_until(lambda: balancer.servers == {left: (200, True), stays: (7, False)}, "the drained server")
        assert left not in balancer.file.read_text()
        assert {balancer.get()[1] for _ in range(20)} == {b"stay"}
        finish.set()
        assert rest() == bytes(LONG)
        Provider(session, SOURCE, left).register({"version": "1", "share": 1})
        wait_until(lambda: balancer.servers == {left: (1, False), stays: (7, False)}, "the server in use again")
        assert {balancer.get()[1] for _ in range(20)} == {b"left", b"stay"}
        assert (balancer.pid, log().count("balancer-reloading")) == (pid, 0)


#: Addresses that other instances may register beside the one that answers; the last one has no IP address.
OTHERS = (
    "[::1]:9",
    "[0::1]:9",
    "127.0.0.2:0009",
    "127.0.0.2:9",
    "[1::2::3]:80",
    "nohost.invalid:80",
)


@pytest.mark.parametrize(
    ("run", "without", "has_unresolved"),
    [(running_haproxy, None, True), (running_haproxy, "init-addr", False), (running_nginx, None, False)],
    ids=["haproxy", "haproxy-without-init-addr", "nginx"],
)
def test_no_address_of_an_instance_stops_the_changes_of_a_file(
    run, without, has_unresolved, zookeeper, start, tmp_path
):
    with Session(zookeeper) as session, run(tmp_path) as balancer, server(b"good") as good:
        session.ensure(SOURCE)
        for address in (good, *OTHERS):
            Provider(session, SOURCE, address).register({"version": "1"})
        file = tmp_path / "web.j2"
        lines = (MANUAL / "examples" / "load-balancer" / balancer.example).read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if without is None or without not in line))
        _, log = start(
            "--file", balancer.file, "--template", file, "--check", balancer.check, "--reload", balancer.reload
        )
        wait_until(lambda: "balancer-loaded" in log(), "the file")
        wait_until(lambda: balancer.answers() and balancer.get()[1] == b"good", "answers of the good instance")
        text = balancer.file.read_text()
    counts = {name: sum(name in line for line in text.splitlines()) for name in (good, *OTHERS)}
    assert counts == dict.fromkeys(OTHERS, 0) | {
        good: 1,
        "[::1]:9": 1,
        "127.0.0.2:9": 1,
        "nohost.invalid:80": int(has_unresolved),
    }
    omitted = [
        "[0::1]:9",
        "127.0.0.2:0009",
        "[1::2::3]:80",
        *([] if has_unresolved else ["nohost.invalid:80"]),
    ]
    assert [address for address in OTHERS if f"instance {address} of {OUTPUT}" in log()] == omitted


def test_envoy_gets_a_file_without_a_reload(zookeeper, start, tmp_path):
    file = tmp_path / "web.json"
    with Session(zookeeper) as session:
        session.ensure(SOURCE)
        Provider(session, SOURCE, "192.0.2.1:80").register({"version": "1"})
        start("--file", file, "--format", "envoy")
        wait_until(lambda: file.exists() and '"192.0.2.1"' in file.read_text(), "the endpoint")


def test_a_filter_ends_after_the_check_and_the_reload_under_way(zookeeper, tmp_path):
    file, checking, end = tmp_path / "web.json", tmp_path / "checking", tmp_path / "end"
    os.mkfifo(checking)
    os.mkfifo(end)
    check, reload = (command(f"sh -c '{text}'") for text in (f"echo >{checking}; read _ <{end}", f"echo >{file}"))
    with Session(zookeeper) as session:
        session.ensure(OUTPUT)
        checked = CheckedFile(file, check, reload)
        kept = BalancerFile(ZooKeeperProviderReader(session), OUTPUT, Fraction(1, 2), envoy_form(None), checked)
        kept.start()
        checking.read_text()

        def end_check() -> None:
            wait_until(kept._closed.is_set, "the end of the filter")
            end.write_text("\n")

        threading.Thread(target=end_check, daemon=True).start()
        kept.close()
        assert file.read_text() == "\n"


@pytest.mark.parametrize(
    ("options", "status", "problem"),
    [
        (["--check", "true"], 2, "expected --file with --template, --format, --check, --reload"),
        (["--file", "web.cfg"], 2, "expected either --template or --format with --file"),
        (
            ["--file", "web.cfg", "--format", "envoy", "--socket", "s", "--reload", "true"],
            2,
            "expected --template and --reload with --socket",
        ),
        (
            ["--file", "web.cfg", "--template", "web.j2", "--socket", "s"],
            2,
            "expected --template and --reload with --socket",
        ),
        (["--file", "missing/web.cfg", "--format", "envoy"], 2, "there is no directory missing; create it"),
        (["--file", "web.cfg", "--template", "missing.j2"], 2, "cannot read the template missing.j2"),
        (
            ["--file", "web.cfg", "--format", "envoy", "--check", "no-such-program -c"],
            2,
            "expected a program in the path",
        ),
    ],
)
def test_a_load_balancer_that_cannot_be_served_is_refused(
    options, status, problem, zookeeper, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = invoke("filter", "-z", zookeeper, SOURCE, OUTPUT, *options)
    assert problem in " ".join(done.stderr.split())
    assert done.returncode == status
