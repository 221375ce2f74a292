"""The programs of the manual's page about the API, and the comment on a merge request, run for real."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from support.manual import HERE
from support.publishing import Publishing
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.web.servers import WebServer
from zkdeployment.service.users.user import Role

EXAMPLES = HERE / "etc" / "manual" / "examples" / "api"

TREE = """\
/demo
  /hello : hello
    version = '1.0'
    /deploy
      /h1
"""


@pytest.fixture
def service(zookeeper: str, publishing: Publishing) -> Iterator[RunningService]:
    publishing.push(TREE)
    publishing.sync()
    publishing.register("h1", None, "h1.example.com", error="no space left")
    with running_service(zookeeper) as running:
        wait_until(lambda: running.adapters.feed.recent_events().last, "the first reading")
        yield running


@pytest.fixture
def environment(service: RunningService, tmp_path: Path) -> dict[str, str]:
    """Return the environment of the examples, whose file of credentials the first example wrote."""
    name, key = service.add_user(Role.OPERATOR)
    variables = {
        **os.environ,
        "ZKDEPLOYMENT_URL": service.url,
        "ZKDEPLOYMENT_USER": name,
        "ZKDEPLOYMENT_NETRC": str(tmp_path / "netrc"),
    }
    subprocess.run([EXAMPLES / "credentials.sh"], input=f"{key}\n", text=True, env=variables, check=True)
    assert (tmp_path / "netrc").stat().st_mode & 0o077 == 0
    return variables


def run(name: str, *arguments: str, env: dict[str, str]) -> str:
    done = subprocess.run([EXAMPLES / name, *arguments], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_programs_of_the_manual_read_act_and_follow(
    service: RunningService, environment: dict[str, str], client: KazooClient
):
    assert run("converged.sh", env=environment) == "h1: h1.example.com (h1) failed: no space left\n"
    with subprocess.Popen(
        [EXAMPLES / "follow.sh"], stdout=subprocess.PIPE, text=True, env=environment
    ) as follower:
        lines: list[dict[str, object]] = []
        printed = follower.stdout or ()
        reader = threading.Thread(target=lambda: lines.extend(map(json.loads, printed)), daemon=True)
        reader.start()
        try:
            wait_until(lambda: lines, "the first event")
            act = json.loads(run("stop.sh", "the disks 'burn' \"now\"", env=environment))
            wait_until(lambda: any(line["id"] == "stopped" for line in lines), "the stop")
        finally:
            service.adapters.feed.close()  # which ends the stream
            reader.join()
    assert act["reason"] == "the disks 'burn' \"now\""
    assert json.loads(client.get("/hosts")[0])["version"] is None


class _Forge(WebServer):
    """A server that keeps the comments that it gets."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], dict[str, str]]] = []
        forge = self

        class Comments(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                forge.received.append((self.path, dict(self.headers), body))
                self.send_response(201)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        super().__init__(Comments)


@pytest.fixture
def forge() -> Iterator[_Forge]:
    with _Forge() as forge:
        yield forge


def test_the_plan_of_a_merge_request_becomes_a_comment_on_each_forge(
    forge: _Forge, zookeeper: str, publishing: Publishing, tmp_path: Path
):
    publishing.push(TREE)
    publishing.sync()
    publishing.repository.git("switch", "--quiet", "--create", "feature")
    publishing.push(TREE.replace("1.0", "1.1"))
    config = tmp_path / "plan.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\n"
        f"[sync]\nurl = {publishing.repository.url}\ntree-directory = {tmp_path}/mirror\n"
    )
    url = forge.url
    for name, variables, path, header in (
        (
            "github",
            {"GITHUB_API_URL": url},
            "/repos/ops/tree/issues/7/comments",
            ("Authorization", "Bearer t0ken"),
        ),
        ("gitlab", {"CI_API_V4_URL": url}, "/projects/5/merge_requests/7/notes", ("PRIVATE-TOKEN", "t0ken")),
        (
            "gitea",
            {"GITHUB_SERVER_URL": url},
            "/api/v1/repos/ops/tree/issues/7/comments",
            ("Authorization", "token t0ken"),
        ),
    ):
        environment = {
            **os.environ,
            **variables,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ZKDEPLOYMENT_CONFIG": str(config),
            "GITHUB_REPOSITORY": "ops/tree",
            "CI_PROJECT_ID": "5",
            "TOKEN": "t0ken",
        }
        done = subprocess.run(
            [HERE / "etc" / "merge-requests" / "plan-comment", name, "feature", "7"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert (name, done.returncode, done.stderr) == (name, 0, "")
        found_path, headers, body = forge.received.pop()
        assert (found_path, headers[header[0]]) == (path, header[1])
        assert body["body"].startswith("**the plan of ")
        assert "1 changed" in body["body"]
