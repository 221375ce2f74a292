"""The client of fleets' services, against real servers that answer, hang, redirect, or answer anything else."""

import contextlib
import datetime as dt
import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme

from support.waiting import UNLIMITED, ManualClock, wait_until
from support.web.servers import HangingServer
from zkdeployment.base.errors import ConfigurationError, ServiceError
from zkdeployment.promotion import services
from zkdeployment.promotion.records import DryRun, FleetReport, FleetState
from zkdeployment.promotion.services import (
    FleetActOutcome,
    FleetService,
    FleetServices,
    ServiceClient,
    act_everywhere,
    ask_dry_run,
)

COMMIT = "1" * 40
REPORT = {"schema": "zkdeployment/fleet/v1", **FleetReport(FleetState.CONVERGED, COMMIT, 3, 3).to_json()}


@pytest.fixture
def tokens(tmp_path):
    for fleet in ("eu-1", "us-1"):
        write_token(tmp_path, fleet, "promoter:secret-key 127.0.0.1")
    return tmp_path


def write_token(directory, fleet, text, mode=0o600):
    file = directory / fleet
    file.write_text(text)
    file.chmod(mode)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # else the kernel drops connections that come together


class Service:
    """A server with one answer, or a function of the request; ``seen`` are its requests."""

    def __init__(self, answer=None, status=200, headers=(), body=None, gate=None) -> None:
        self.seen = []
        self.status, self.headers, self.gate = status, dict(headers), gate
        self.body = json.dumps(REPORT if answer is None else answer).encode() if body is None else body

    @contextmanager
    def running(self, certificate=None):
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                length = int(self.headers.get("Content-Length", 0))
                service.seen.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                service.answer(self)

            def do_POST(self):
                self.do_GET()

            def log_message(self, *_arguments):
                pass

        server = _Server(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(context)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http{'' if certificate is None else 's'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    def answer(self, request):
        if self.gate is not None:
            self.gate.wait(60)
        tag = self.headers.get("ETag")
        unchanged = tag is not None and request.headers.get("If-None-Match") == tag
        request.send_response(304 if unchanged else self.status)
        for name, value in self.headers.items():
            request.send_header(name, value)
        body = b"" if unchanged else self.body
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        with contextlib.suppress(OSError):
            request.wfile.write(body)


class Followed:
    """Services that are read in the background, with a clock that tests set."""

    def __init__(self, tokens, ca=None) -> None:
        self.clock = ManualClock()
        self.woken = threading.Semaphore(0)
        self.services = FleetServices(ServiceClient(tokens, ca), self.clock, self.woken.release, interval=10)

    def report(self, addresses, fleet="eu-1"):
        """Return the next report of a fleet."""
        self.services.reports(addresses)
        wait_until(lambda: fleet in self.services.reports(addresses), "the service has answered")
        return self.services.reports(addresses)[fleet]


def problem_of(tokens, url, ca=None):
    report = Followed(tokens, ca).report({"eu-1": url})
    assert report.state is FleetState.UNREACHABLE
    assert report.revision is None
    return report.problem


def test_a_report_is_read_with_the_key_of_the_fleet_and_again_after_the_interval(tokens):
    service, followed = Service(headers={"Age": "7"}), Followed(tokens)
    with service.running() as url:
        report = followed.report({"eu-1": url})
        assert report == FleetReport(FleetState.CONVERGED, COMMIT, 3, 3, read_at=followed.clock.now() - 7)
        method, path, headers, _ = service.seen[0]
        assert (method, path) == ("GET", "/api/v1/fleet")
        assert headers["authorization"] == "Basic cHJvbW90ZXI6c2VjcmV0LWtleQ=="
        followed.clock.time += 9
        followed.services.reports({"eu-1": url})
        assert len(service.seen) == 1
        followed.clock.time += 1
        followed.services.reports({"eu-1": url})
        wait_until(lambda: len(service.seen) == 2, "the service is asked again")


def test_an_unchanged_report_is_not_sent_again_and_wakes_nobody(tokens):
    service, followed = Service(headers={"ETag": '"a"', "Age": "0"}), Followed(tokens)
    with service.running() as url:
        first = followed.report({"eu-1": url})
        assert followed.woken.acquire(timeout=60)
        followed.clock.time += 10
        followed.services.reports({"eu-1": url})
        wait_until(
            lambda: followed.services.reports({"eu-1": url})["eu-1"].read_at > first.read_at,
            "the report is confirmed",
        )
        assert service.seen[1][2]["If-None-Match"] == '"a"'
        assert not followed.woken.acquire(blocking=False)


def test_a_changed_report_wakes_the_promoter(tokens):
    service, followed = Service(headers={"ETag": '"a"'}), Followed(tokens)
    with service.running() as url:
        followed.report({"eu-1": url})
        assert followed.woken.acquire(timeout=60)
        service.headers["ETag"] = '"b"'
        service.body = json.dumps({**REPORT, "state": "stopped", "by": "anna@desk"}).encode()
        followed.clock.time += 10
        followed.services.reports({"eu-1": url})
        assert followed.woken.acquire(timeout=60)
        report = followed.services.reports({"eu-1": url})["eu-1"]
        assert (report.state, report.by) == (FleetState.STOPPED, "anna@desk")


def test_a_fleet_with_another_address_is_asked_there_at_once(tokens):
    followed = Followed(tokens)
    with Service().running() as first, Service({**REPORT, "hosts": 8}).running() as second:
        assert followed.report({"eu-1": first}).hosts == 3
        assert followed.report({"eu-1": second}).hosts == 8
        assert followed.services.reports({}) == {}


def test_a_slow_service_delays_no_other(tokens, monkeypatch):
    """More silent services than requests may be under way at once."""
    monkeypatch.setattr(services, "_REPORTS_AT_ONCE", 4)
    monkeypatch.setattr(services, "_REPORT", 0.5)
    followed, silent = Followed(tokens), HangingServer()
    try:
        with Service().running() as url:
            addresses = {f"dead-{number}": f"http://127.0.0.1:{silent.port}" for number in range(9)}
            for fleet in addresses:
                write_token(tokens, fleet, "a:b 127.0.0.1")
            addresses["eu-1"] = url

            def is_known():
                """Ask all services once; return whether the one that answers met the short time limit."""
                followed.clock.time += 10
                followed.services.reports(addresses)
                wait_until(lambda: not followed.services._busy, "all requests have ended")
                return followed.services.reports(addresses)["eu-1"].state is FleetState.CONVERGED

            wait_until(is_known, "the silent services are known, and the other one, too")
            followed.clock.time += 10
            monkeypatch.setattr(services, "_REPORT", UNLIMITED)
            followed.services.reports(addresses)
            wait_until(
                lambda: followed.services.reports(addresses)["eu-1"].read_at == followed.clock.now(),
                "the service has answered again",
            )
            problem = followed.services.reports(addresses)["dead-0"].problem
            assert problem == f"the service at http://127.0.0.1:{silent.port} did not answer within 0.5 s"
    finally:
        silent.close()


def test_a_service_that_is_away_is_named(tokens):
    with Service().running() as url:
        pass
    assert problem_of(tokens, url) == f"cannot reach the service at {url}: Connection refused"


def test_a_name_that_does_not_exist_is_named(tokens):
    write_token(tokens, "eu-1", "promoter:secret-key deploy.eu-1.invalid")
    problem = problem_of(tokens, "https://deploy.eu-1.invalid")
    assert problem.startswith("cannot reach the service at https://deploy.eu-1.invalid: "), problem


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (
            Service(status=302, headers={"Location": "https://evil.example/x?y"}, body=b""),
            (
                "the answer of the service at {url} cannot be used: it redirects to https://evil.example, which is"
                " not followed; write its own address into the document of the fleets"
            ),
        ),
        (
            Service(headers={"Content-Type": "text/html"}, body=b"<html>Welcome to nginx</html>"),
            (
                "the service at {url} answered with status 200 and text/html instead of an object in JSON: is it"
                " the service of a fleet?"
            ),
        ),
        (
            Service(status=502, headers={"Content-Type": "text/html"}, body=b"<h1>Bad Gateway</h1>"),
            (
                "the service at {url} answered with status 502 and text/html instead of an object in JSON: is it"
                " the service of a fleet?"
            ),
        ),
        (
            Service(body=b" " * 1_000_000),
            "it answered with more than 262144 bytes; is it the service of a fleet?",
        ),
        (
            Service({"schema": "zkdeployment/fleet/v2"}),
            (
                "the service at {url} answered in another form: expected zkdeployment/fleet/v1, found"
                " zkdeployment/fleet/v2; is its version as new as that of the promoter?"
            ),
        ),
        (
            Service({**REPORT, "state": "dancing"}),
            (
                "the service at {url} sent an invalid report: state: expected one of converged, rolling out, held,"
                " stopped, refused, unreachable, diverged, found 'dancing'"
            ),
        ),
        (
            Service({**REPORT, "state": "unreachable"}),
            "sent an invalid report: expected a state of the fleet itself, found 'unreachable'",
        ),
        (
            Service({**REPORT, "revision": "r 17"}),
            "the service at {url} sent an invalid report: expected a revision, found 'r 17'",
        ),
        (Service({**REPORT, "refused": "x" * 200_000}), "sent an invalid report: expected a revision, found 'xxx"),
        (
            Service({**REPORT, "converged": 4}),
            "sent an invalid report: expected at most 1000000 hosts, found '4 of 3'",
        ),
        (Service({**REPORT, "hosts": -1, "converged": -1}), "hosts, found '-1 of -1'"),
        (Service({**REPORT, "hosts": 10**4000}), "sent an invalid report: expected at most 1000000 hosts"),
        (
            Service(headers={"Age": "7200"}),
            (
                "the service at {url} reports its fleet of 7200 s ago: expected at most 60 s; check its connection"
                " to ZooKeeper"
            ),
        ),
        (Service(body=b"[" * 100_000), "the service at {url} answered with status 200 and"),
        (Service([1]), "the service at {url} answered with status 200 and no content instead of an object"),
        (
            Service({"detail": "the connection to ZooKeeper is lost"}, status=503),
            "the service at {url} answered with status 503: the connection to ZooKeeper is lost",
        ),
        (
            Service({"detail": "the key has expired"}, status=401),
            (
                "the service at {url} refuses the key in {tokens}/eu-1 (status 401): the key has expired; write"
                " USER:KEY of a user with enough rights into the file"
            ),
        ),
        (Service({}, status=403), "(status 403): it gives no reason; write USER:KEY"),
        (
            Service(headers={"Content-Encoding": "gzip"}, body=b"\x1f\x8b\x08\x00rubbish"),
            "instead of an object in JSON",
        ),
    ],
)
def test_answers_of_something_else_become_one_sentence(tokens, service, expected):
    with service.running() as url:
        problem = problem_of(tokens, url)
    assert expected.format(url=url, tokens=tokens) in problem
    assert "\n" not in problem


def test_a_fleet_that_has_published_nothing_yet_has_a_report(tokens):
    with Service({**REPORT, "state": "rolling out", "revision": "initial"}).running() as url:
        assert Followed(tokens).report({"eu-1": url}).revision == "initial"


def test_the_words_of_a_service_are_one_short_line_without_secrets_that_every_display_can_show(tokens):
    words = "\x1b[31m\ud800 --token hunter2 https://ann:hunter2@repo\n" + "x" * 100_000
    with Service({**REPORT, "state": "held", "by": words, "problem": words}).running() as url:
        report = Followed(tokens).report({"eu-1": url})
    for text in (report.by, report.problem):
        assert text.startswith(r"\x1b[31m\ud800 --token *** https://***@repo xxx")
        assert text.isprintable()
        assert len(text) <= 500


class Certificates:
    """An authority, and certificates for 127.0.0.1."""

    def __init__(self, directory) -> None:
        self._authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, name="127.0.0.1", **options):
        return self._authority.issue_cert(name, **options)


def test_encrypted_services_are_trusted_only_with_a_valid_certificate_of_the_authority(tokens, tmp_path):
    ours, past = Certificates(tmp_path), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    with Service().running(ours.issue()) as url:
        assert Followed(tokens, ours.ca).report({"eu-1": url}).state is FleetState.CONVERGED
        refused = f"the certificate of the service at {url} is not accepted: "
        problem = problem_of(tokens, url)
        assert problem.startswith(f"{refused}unable to get local issuer certificate; renew it, or correct ca"), (
            problem
        )
    with Service().running(ours.issue(not_before=past, not_after=past + dt.timedelta(9))) as url:
        problem = problem_of(tokens, url, ours.ca)
        assert "is not accepted: certificate has expired; renew it" in problem, problem
    with Service().running(ours.issue("other.example")) as url:
        problem = problem_of(tokens, url, ours.ca)
        assert "is not accepted: IP address mismatch, certificate is not valid for '127.0.0.1'" in problem, problem


def test_a_file_without_certificates_is_refused_at_the_start(tokens, tmp_path):
    with pytest.raises(ConfigurationError, match=r"^ca: expected certificates in .*/none\.pem: No such file"):
        ServiceClient(tokens, tmp_path / "none.pem")
    (tmp_path / "bad.pem").write_text("rubbish")
    with pytest.raises(ConfigurationError, match=r"^ca: expected certificates in .*/bad\.pem: "):
        ServiceClient(tokens, tmp_path / "bad.pem")


def test_a_hundred_fleets_cost_a_hundred_small_requests_in_each_interval(tokens, monkeypatch):
    monkeypatch.setattr(services, "_REPORT", UNLIMITED)  # all requests share the processors of a busy machine
    service, followed = Service(headers={"ETag": '"a"'}), Followed(tokens)
    for number in range(100):
        write_token(tokens, f"fleet-{number}", "a:b 127.0.0.1")
    with service.running() as url:
        addresses = {f"fleet-{number}": url for number in range(100)}
        for _ in range(3):
            wait_until(
                lambda: (
                    [report.read_at for report in followed.services.reports(addresses).values()]
                    == [followed.clock.now()] * 100
                ),
                "all have answered",
            )
            followed.services.reports(addresses)  # a decision in between asks nothing
            followed.clock.time += 10
    assert len(service.seen) == 300
    assert len([1 for _, _, headers, _ in service.seen if headers.get("If-None-Match") == '"a"']) == 200


def test_a_server_without_encryption_behind_an_encrypted_address_is_named(tokens):
    with Service().running() as url:
        problem = problem_of(tokens, url.replace("http:", "https:"))
    assert problem.startswith("the certificate of the service at https://"), problem


def test_keys_are_never_sent_unencrypted_or_from_a_file_that_all_may_read(tokens):
    service = Service()
    with service.running() as url:
        assert problem_of(tokens, "http://deploy.example.com") == (
            "the key of eu-1 would cross the network unencrypted: expected https://… as the fleet's service, found"
            " http://deploy.example.com"
        )
        (tokens / "eu-1").chmod(0o644)
        assert problem_of(tokens, url) == (
            f"no key for the service of eu-1: everyone has access to {tokens}/eu-1 (mode 644); run chmod o-rwx"
            f" {tokens}/eu-1"
        )
        write_token(tokens, "eu-1", "just-a-key")
        expected = (
            f"no key for the service of eu-1: expected USER:KEY and the host of the service in {tokens}/eu-1"
        )
        assert problem_of(tokens, url) == f"{expected}, as in promoter:KEY deploy.eu-1.example.com"
        write_token(tokens, "eu-1", "promoter:secret-key")
        assert problem_of(tokens, url).startswith(expected)
        (tokens / "eu-1").unlink()
        assert problem_of(tokens, url) == (
            f"no key for the service of eu-1: cannot read {tokens}/eu-1: No such file or directory"
        )
        assert service.seen == []


@pytest.mark.parametrize("host", ["127.0.0.2", "127.0.0.1:1", "127.0.0.10", "0.0.1", "deploy.eu-1.example.com"])
def test_a_key_is_sent_to_no_host_but_its_own(tokens, host):
    service = Service()
    write_token(tokens, "eu-1", f"promoter:secret-key {host}")
    with service.running() as url:
        assert problem_of(tokens, url) == (
            f"the key in {tokens}/eu-1 is not sent to {url}: it is for {host}; correct the document of the"
            " fleets, or the host in the file if the service has moved"
        )
        (outcome,) = act_everywhere(ServiceClient(tokens), {"eu-1": url}, "stop", "why")
        assert "is not sent to" in outcome.problem
        assert service.seen == []


@pytest.mark.parametrize("ending", ["\\@localhost", "\\@localhost/", "#@localhost", "?@localhost", "/@localhost"])
def test_a_key_is_not_led_to_another_host_by_an_unusual_address(tokens, ending):
    service = Service()
    write_token(tokens, "eu-1", "promoter:secret-key localhost")
    with service.running() as url:
        assert "is not sent to" in problem_of(tokens, f"{url}{ending}")
        assert service.seen == []


def test_an_address_that_cannot_be_read_is_a_problem_of_its_fleet(tokens):
    assert problem_of(tokens, "https://[::1") == "expected https://… as the service of eu-1, found https://[::1"


def test_a_key_may_be_for_an_address_of_ipv6(tokens):
    client = ServiceClient(tokens)
    for host in ("::1", "[::1]:8080"):
        write_token(tokens, "eu-1", f"promoter:secret-key {host}")
        assert "authorization" in client.credentials(FleetService("eu-1", "http://[::1]:8080"))


def test_a_key_may_be_for_one_port_of_its_host(tokens):
    with Service().running() as url:
        write_token(tokens, "eu-1", f"promoter:secret-key {url.removeprefix('http://')}")
        assert Followed(tokens).report({"eu-1": url}).state is FleetState.CONVERGED
        write_token(tokens, "eu-1", "promoter:secret-key LOCALHOST")
        localhost = url.replace("127.0.0.1", "localhost")
        assert Followed(tokens).report({"eu-1": localhost}).state is FleetState.CONVERGED


def refusals(*found, revision=COMMIT):
    return {"schema": "zkdeployment/refusals/v1", "revision": revision, "refusals": list(found)}


def dry_run(followed, addresses, commit=COMMIT):
    followed.services.dry_runs(addresses, commit)
    wait_until(lambda: followed.services.dry_runs(addresses, commit).keys() == addresses.keys(), "answers")
    return followed.services.dry_runs(addresses, commit)


def test_a_dry_run_asks_for_the_plan_of_a_commit(tokens):
    accepting, refusing, followed = (
        Service(refusals()),
        Service(refusals("no hello 9", "a link")),
        Followed(tokens),
    )
    with accepting.running() as first, refusing.running() as second:
        answers = dry_run(followed, {"eu-1": first, "us-1": second})
        assert answers == {"eu-1": DryRun(), "us-1": DryRun("no hello 9; a link")}
        assert answers["eu-1"].accepts
        assert not answers["us-1"].accepts
        assert accepting.seen[0][1] == f"/api/v1/plan/refusals?revision={COMMIT}"
        followed.services.dry_runs({"eu-1": first, "us-1": second}, COMMIT)
        assert len(accepting.seen) == len(refusing.seen) == 1


def test_a_dry_run_without_a_verdict_is_repeated_after_a_while(tokens):
    service, followed = Service({"detail": "2 plans are being made"}, status=503), Followed(tokens)
    with service.running() as url:
        answer = dry_run(followed, {"eu-1": url})["eu-1"]
        assert answer.problem == f"the service at {url} answered with status 503: 2 plans are being made"
        assert not answer.accepts
        service.status, service.body = 200, json.dumps(refusals()).encode()
        followed.services.dry_runs({"eu-1": url}, COMMIT)
        assert len(service.seen) == 1
        followed.clock.time += 10
        wait_until(lambda: followed.services.dry_runs({"eu-1": url}, COMMIT)["eu-1"].accepts, "a verdict")


def test_a_verdict_about_another_commit_is_no_verdict(tokens):
    with Service(refusals(revision="2" * 40)).running() as url:
        client = ServiceClient(tokens)
        with pytest.raises(ServiceError, match="answered about something other than 1111"):
            ask_dry_run(client, FleetService("eu-1", url), COMMIT)
    with Service({**refusals(), "refusals": None}).running() as url, pytest.raises(ServiceError):
        ask_dry_run(client, FleetService("eu-1", url), COMMIT)


def test_answers_about_an_older_commit_are_forgotten(tokens):
    followed = Followed(tokens)
    with Service(refusals("no")).running() as url:
        assert dry_run(followed, {"eu-1": url})["eu-1"].refusal == "no"
        assert followed.services.dry_runs({}, "2" * 40) == {}
        assert followed.services.dry_runs({"eu-1": url}, COMMIT) == {}


class LateService(Service):
    """A service whose answer to the first request comes when ``late`` is set, and which has changed since."""

    def __init__(self, first, later) -> None:
        super().__init__(later)
        self.late, self.is_asked = threading.Event(), False
        self._first = Service(first, gate=self.late)

    def answer(self, request):
        if not self.is_asked:
            self.is_asked = True
            self._first.answer(request)
        else:
            super().answer(request)


def release_first(service, followed):
    """Let a service answer its first request, and wait until the answer has been read."""
    service.late.set()
    wait_until(lambda: not followed.services._busy, "all requests have ended")


def test_an_answer_that_was_asked_for_before_all_were_forgotten_does_not_count(tokens):
    service, followed = LateService({**REPORT, "hosts": 9}, REPORT), Followed(tokens)
    with service.running() as url:
        followed.services.reports({"eu-1": url})
        wait_until(lambda: service.is_asked, "the service is asked")
        followed.services.forget()
        assert followed.report({"eu-1": url}).hosts == 3
        release_first(service, followed)
        assert followed.services.reports({"eu-1": url})["eu-1"].hosts == 3
        followed.services.forget()
        assert followed.services.reports({"eu-1": url}) == {}


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_dry_run_for_an_earlier_attempt_or_lead_is_no_verdict(tokens, forgotten):
    service, followed = LateService(refusals("no hello 9"), refusals()), Followed(tokens)
    with service.running() as url:
        addresses = {"eu-1": url}
        followed.services.dry_runs(addresses, COMMIT, "1-1")
        wait_until(lambda: service.is_asked, "the service is asked")
        if forgotten:
            followed.services.forget()
        attempt = "1-1" if forgotten else "1-2"
        wait_until(lambda: followed.services.dry_runs(addresses, COMMIT, attempt), "the service answers")
        release_first(service, followed)
        assert followed.services.dry_runs(addresses, COMMIT, attempt) == {"eu-1": DryRun()}
        assert len(service.seen) == 2


def test_a_request_for_which_no_thread_can_be_started_is_made_later(tokens, monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    followed = Followed(tokens)
    with Service().running() as reporting, Service(refusals()).running() as trying:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fail)
            for _ in range(100):  # more attempts than requests may be under way at once
                assert followed.services.reports({"eu-1": reporting}) == {}
                assert followed.services.dry_runs({"us-1": trying}, COMMIT) == {}
        assert followed.report({"eu-1": reporting}).hosts == 3
        assert dry_run(followed, {"us-1": trying}) == {"us-1": DryRun()}


def test_an_act_reaches_all_fleets_at_once_and_names_those_that_it_did_not_reach(tokens):
    gate = threading.Barrier(2)

    class Gated(Service):
        def answer(self, request):
            gate.wait(60)  # both requests are here at the same time
            super().answer(request)

    stopped, refusing = Gated({"by": "anna"}), Gated({"detail": "the cluster is stopped"}, status=409)
    write_token(tokens, "gone", "a:b 127.0.0.2")
    with stopped.running() as first, refusing.running() as second, Service().running() as away:
        pass_on = {"eu-1": first, "us-1": second, "gone": away.replace("127.0.0.1", "127.0.0.2")}
        outcomes = act_everywhere(ServiceClient(tokens), pass_on, "hold", "a storm")
    assert outcomes == (
        FleetActOutcome("eu-1"),
        FleetActOutcome("us-1", f"the service at {second} answered with status 409: the cluster is stopped"),
        FleetActOutcome("gone", outcomes[2].problem),
    )
    assert "the key of gone would cross the network unencrypted" in outcomes[2].problem
    method, path, _, body = stopped.seen[0]
    assert (method, path, json.loads(body)) == ("POST", "/api/v1/hold", {"reason": "a storm"})


def test_an_act_on_a_fleet_that_fails_because_of_this_machine_names_the_problem(tokens, monkeypatch):
    problems = {"eu-1": AssertionError(), "us-1": ValueError("bad")}

    class FailingClient(ServiceClient):
        def request(self, _method, service, *_arguments, **_options):
            raise problems[service.fleet]

    start, started = threading.Thread.start, []

    def start_two(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    fleets = dict.fromkeys(("eu-1", "us-1", "ap-1"), "https://127.0.0.1")
    assert act_everywhere(FailingClient(tokens), fleets, "stop", "a storm") == (
        FleetActOutcome("eu-1", "AssertionError()"),
        FleetActOutcome("us-1", "bad"),
        FleetActOutcome("ap-1", "cannot start a thread: can't start new thread"),
    )


def test_fleets_that_resume_at_their_tips_have_time_to_publish_them(tokens, monkeypatch):
    monkeypatch.setattr(services, "_ACT", 0.0)  # so that only the time for the publication remains
    service = Service({"by": "anna"})
    with service.running() as url:
        outcomes = act_everywhere(ServiceClient(tokens), {"eu-1": url}, "resume", "rolled back", latest=True)
    assert outcomes == (FleetActOutcome("eu-1"),)
    assert json.loads(service.seen[0][3]) == {"reason": "rolled back", "latest": True, "timeout": 60.0}
