"""``zkdeployment serve`` as a process: ZooKeeper away, ending on request, configuration errors."""

import re
import signal
import socket
import ssl
import subprocess
import sys
import warnings

import httpx
import psutil
import pytest

from support.certificates import CERTIFICATES, Authority
from support.service import form_token
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, free_port
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.service.users.user_store import open_users
from zkdeployment.zookeeper.servers import Servers


@pytest.fixture
def serve(tmp_path):
    """Return a function that starts a service with a configuration; it is killed at the end."""
    started = []

    def start(zookeeper, *server):
        config = tmp_path / "zkdeployment.cfg"
        config.write_text("\n".join(["[zkdeployment]", f"zookeeper = {zookeeper}", "[server]", *server]))
        log = tmp_path / f"log{len(started)}"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "zkdeployment", "serve", str(config)], stdout=output, stderr=output
            )
        started.append(process)
        return process, log

    yield start
    for process in started:
        process.kill()
        process.wait()


def health(url, verify=CERTIFICATES):
    try:
        return httpx.get(f"{url}/healthz", verify=verify).status_code
    except httpx.TransportError:
        return None


def wait_for_health(service, url, status, verify=CERTIFICATES):
    process, log = service

    def answers():
        assert process.poll() is None, f"the service ended: {log.read_text()}"
        return health(url, verify) == status

    wait_until(answers, f"the service answers with {status}")


def test_the_service_starts_without_zookeeper_survives_its_absence_and_ends_on_request(
    own_zookeeper_server: ZooKeeperServer, serve
):
    own_zookeeper_server.stop()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process, log = service = serve(own_zookeeper_server.address, f"listen = 127.0.0.1:{port}")
    wait_for_health(service, url, 503)
    own_zookeeper_server.start()
    wait_for_health(service, url, 200)
    own_zookeeper_server.kill()
    wait_for_health(service, url, 503)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    text = log.read_text()
    events = re.findall(
        r'"event": "(service-started|zookeeper-unreachable|zookeeper-connected|service-ended)"', text
    )
    assert "service-started" in events
    assert events.index("zookeeper-unreachable") < events.index("zookeeper-connected")
    assert events[-1] == "service-ended"
    assert "Traceback" not in text


def test_the_service_waits_while_others_can_write_users(zookeeper, client, serve, tmp_path):
    (tmp_path / "credentials").write_text("service:secret")
    (tmp_path / "credentials").chmod(0o600)
    client.create("/zkdeployment/users/mallory", b"{}", makepath=True)
    access = f"zookeeper-credentials = {tmp_path}/credentials\nzookeeper-plain-text = yes"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    _, log = service = serve(f"{zookeeper}\n{access}", f"listen = 127.0.0.1:{port}")
    wait_until(lambda: "others may have written below /zkdeployment/users" in log.read_text(), "it is logged")
    wait_for_health(service, url, 503)
    removal = client.transaction()  # in one, because the service creates its nodes again
    for path in ("mallory", ".keep", ""):
        removal.delete(f"/zkdeployment/users/{path}".rstrip("/"))
    assert not [result for result in removal.commit() if isinstance(result, Exception)]
    wait_for_health(service, url, 200)


def test_after_an_address_in_use_systemd_starts_the_service_again(serve, zookeeper):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        service, log = serve(zookeeper, f"listen = 127.0.0.1:{port}")
        assert service.wait() == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in log.read_text()


def test_the_name_and_the_colour_of_the_fleet_stand_on_every_page(serve, zookeeper):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    service = serve(zookeeper, f"listen = 127.0.0.1:{port}", "name = Production <Amsterdam>", "colour = red")
    wait_for_health(service, url, 200)

    page = httpx.get(f"{url}/login", timeout=None).text

    assert "<title>Log in · Production &lt;Amsterdam&gt;</title>" in page
    assert '<header class="bar of-red">' in page


def test_under_tls_no_secret_is_in_the_log_a_url_or_the_process_list(serve, zookeeper, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    port = free_port()
    url = f"https://localhost:{port}"
    process, log = service = serve(
        zookeeper, f"listen = localhost:{port}", f"certificate = {certificate}", f"key = {key}"
    )
    trusted = ssl.create_default_context(cafile=authority.ca)
    with open_users(Servers(zookeeper), ()) as users:
        secret = users.add(NewUser(name="ann", role=Role.OPERATOR), Act("tests", "user", "", 0.0)).key
    with httpx.Client(base_url=url, verify=trusted, timeout=None) as client:
        wait_for_health(service, url, 200, trusted)
        assert client.post("/api/v1/resume", json={}, auth=("ann", secret)).status_code == 409
        assert client.post("/api/v1/resume", json={}, auth=("ann", f"{secret}x")).status_code == 401
        assert client.get("/healthz", params={"key": secret}).status_code == 200
        page = client.get("/login")
        fields = {"name": "ann", "key": secret, "csrf_token": form_token(page.text)}
        answer = client.post("/login", data=fields)
        (session,) = [cookie for cookie in client.cookies.jar if cookie.name == "__Host-session"]
        assert (answer.status_code, answer.headers["Location"], session.secure) == (303, "/", True)
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        shown = {*psutil.Process(process.pid).cmdline(), *psutil.Process(process.pid).environ().values()}
    written = log.read_text()
    assert '"path": "/login"' in written
    for hidden in (secret, session.value, fields["csrf_token"]):
        assert hidden is not None
        assert hidden not in written
        assert not any(hidden in word for word in shown)
        assert hidden not in str(answer.url)
    assert secret not in session.value
    for version, spoken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        assert speaks(port, authority, version) is spoken


def speaks(port, authority, version):
    """Return whether the service accepts a connection with this version of TLS and an old client's ciphers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context = ssl.create_default_context(cafile=authority.ca)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
    try:
        with (
            socket.create_connection(("localhost", port), timeout=60) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as encrypted,
        ):
            return encrypted.version() is not None
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_key_that_everybody_can_read_is_refused(serve, zookeeper, tmp_path):
    certificate, key = Authority(tmp_path).issue("localhost")
    key.chmod(0o644)
    process, log = serve(zookeeper, "listen = 127.0.0.1:0", f"certificate = {certificate}", f"key = {key}")
    assert process.wait() == 2
    assert "everyone has access to" in log.read_text()
