"""Statuses of commits from a real service and a real ZooKeeper, to servers that record requests as forges do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler

import pytest

from support.builders import make_host
from support.waiting import wait_until
from support.web.servers import WebServer
from support.zookeeper import write_node
from zkdeployment.sandbox.zookeeper import free_port

OLD, NEW = "a" * 40, "b" * 40

PATHS = {
    "github": "/repos/example/tree",
    "gitlab": "/api/v4/projects/42",
    "gitea": "/api/v1/repos/ops/tree",
}


class ForgeServer(WebServer):
    """Keeps the statuses of commits as ``forge`` does; ``is_down`` lets it answer 502."""

    def __init__(self, forge: str, port: int = 0) -> None:
        self.statuses: list[tuple[str, str, str]] = []
        self.problems: list[str] = []
        self.is_down = False
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code, answer = (
                    (502, {}) if server.is_down else server.answer(forge, self.path, dict(self.headers), body)
                )
                sent = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        super().__init__(Handler, port)

    def answer(
        self, forge: str, path: str, headers: dict[str, str], body: dict[str, str]
    ) -> tuple[int, dict[str, str]]:
        """Check and keep a status, as the forge documents it."""
        above, _, commit = path.rpartition("/statuses/")
        token = {
            "github": headers.get("Authorization") == "Bearer the-token",
            "gitlab": headers.get("PRIVATE-TOKEN") == "the-token",
            "gitea": headers.get("Authorization") == "token the-token",
        }[forge]
        if not token:
            return 401, {"message": "Bad credentials"}
        if above != PATHS[forge] or len(commit) != 40:
            return 404, {"message": "Not Found"}
        name = body.get("name" if forge == "gitlab" else "context")
        last = next((state for sha, state, _ in reversed(self.statuses) if sha == commit), None)
        if forge == "gitlab" and last == body["state"]:
            return 400, {"message": f"Cannot transition status via :run from :{last}"}
        if name != "zkdeployment/deploy.example" or not body["target_url"].startswith("http://deploy.example/"):
            self.problems.append(str(body))
        self.statuses.append((commit, body["state"], body["description"]))
        return 201, {"id": "1"}


@pytest.fixture
def serve(tmp_path, zookeeper, client):
    """Starts a service with a forge."""
    write_node(client, "/hosts", {"version": NEW})
    write_node(client, "/zkdeployment/targets", {"version": NEW, "sequence": 7, "since": 7, "ordered": NEW})
    for number in (1, 2, 3):
        write_node(client, f"/hosts/h{number}", make_host(number, OLD).properties())
    token = tmp_path / "forge.token"
    token.touch(mode=0o600)
    token.write_text("the-token\n")
    processes = []

    def start(forge, url):
        config = tmp_path / f"{len(processes)}.cfg"
        config.write_text(
            f"[zkdeployment]\nzookeeper = {zookeeper}\n"
            f"[server]\nbase-url = http://deploy.example\nlisten = 127.0.0.1:{free_port()}\n"
            f"commit-statuses = {forge} {url}{PATHS[forge]}\ncommit-status-token = {token}\n"
        )
        log = tmp_path / f"{len(processes)}.log"
        with log.open("w") as output:
            argv = [sys.executable, "-m", "zkdeployment", "serve", str(config)]
            processes.append(subprocess.Popen(argv, stdout=output, stderr=output))
        return processes[-1], log

    yield start
    for process in processes:
        process.kill()
        process.wait()


def deploy(client, number, **fields):
    write_node(client, f"/hosts/h{number}", make_host(number, fields.pop("version", NEW), **fields).properties())


@pytest.mark.parametrize(
    ("forge", "begun", "rolling", "done"),
    [
        ("github", "pending", "pending", "success"),
        pytest.param("gitlab", "pending", "running", "success", marks=pytest.mark.nightly),
        pytest.param("gitea", "pending", "pending", "success", marks=pytest.mark.nightly),
    ],
)
def test_the_forge_shows_a_commit_on_its_way_through_the_fleet(client, serve, forge, begun, rolling, done):
    with ForgeServer(forge) as server:
        process, log = serve(forge, server.url)
        wait_until(lambda: server.statuses == [(NEW, begun, "published for 3 hosts")], "the publication")
        deploy(client, 1)
        wait_until(lambda: server.statuses[-1] == (NEW, rolling, "rolling out 30 %"), "the first host")
        for number in (2, 3):
            deploy(client, number)
        wait_until(lambda: server.statuses[-1] == (NEW, done, "converged: 3 hosts"), "the convergence")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert server.problems == []
    assert "the-token" not in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_forge_that_was_down_gets_the_newest_status_of_each_commit(client, serve):
    with ForgeServer("github") as server:
        server.is_down = True
        _, log = serve("github", server.url)
        wait_until(lambda: "commit-status-failed" in log.read_text(), "the first attempt fails")
        deploy(client, 1, version=OLD, error="no space left")
        write_node(client, "/hosts", {"version": None})
        server.is_down = False
        wait_until(
            lambda: server.statuses[-1:] == [(NEW, "failure", "failed on app1: no space left")], "the failure"
        )


def test_a_wrong_token_is_logged_once_and_tried_again(serve, tmp_path):
    with ForgeServer("gitea") as server:
        (tmp_path / "forge.token").write_text("another-token\n")
        _, log = serve("gitea", server.url)
        wait_until(lambda: "expected a status between 200 and 299, found 401" in log.read_text(), "the warning")
    assert server.statuses == []
    assert "another-token" not in log.read_text()
